//! Kinds of resources.

use model::Dimension;

use crate::{Malformed, read, v1};

/// Its number in a message.
pub fn number(dimension: Dimension) -> i32 {
    let dimension = match dimension {
        Dimension::Cpu => v1::Dimension::Cpu,
        Dimension::Ram => v1::Dimension::Ram,
        Dimension::Disk => v1::Dimension::Disk,
        Dimension::DiskRate => v1::Dimension::DiskRate,
    };
    dimension.into()
}

/// The resource with a number.
pub fn read(number: i32) -> Result<Dimension, Malformed> {
    let meaning = |dimension| match dimension {
        v1::Dimension::Unspecified => None,
        v1::Dimension::Cpu => Some(Dimension::Cpu),
        v1::Dimension::Ram => Some(Dimension::Ram),
        v1::Dimension::Disk => Some(Dimension::Disk),
        v1::Dimension::DiskRate => Some(Dimension::DiskRate),
    };
    read::value(number, meaning, "dimension")
}

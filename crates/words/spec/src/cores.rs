//! Whether a task shares the cores of its machine.

use std::str::FromStr;

use thiserror::Error;

/// Whether a task shares the cores of its machine with other latency-sensitive tasks (paper, section
/// 6.2: "LS tasks can reserve entire physical CPU cores").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cores {
    /// With all of them.
    #[default]
    Shared,
    /// It has whole physical cores, from which other latency-sensitive tasks are kept off. Batch tasks
    /// may run there while it leaves the cores idle.
    Exclusive,
}

impl Cores {
    /// The names of both.
    pub const NAMES: [&'static str; 2] = ["shared", "exclusive"];

    /// Its name in descriptions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        }
    }
}

/// Neither of the names.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{}' says nothing of cores: use 'shared' or 'exclusive'", .0.escape_debug())]
pub struct NoSuchCores(String);

impl FromStr for Cores {
    type Err = NoSuchCores;

    fn from_str(text: &str) -> Result<Self, NoSuchCores> {
        match text {
            "shared" => Ok(Self::Shared),
            "exclusive" => Ok(Self::Exclusive),
            _ => Err(NoSuchCores(text.to_owned())),
        }
    }
}

//! Why a task does not fit on a machine: the text of "why pending?".

use model::{Dimension, HeldPorts};
use spec::Constraint;
use thiserror::Error;

/// Why a task does not fit on a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum UnschedulableReason {
    /// The machine does not answer, or has not said yet what it is.
    #[error("is not up")]
    NotUp,
    /// The machine has not answered for a while, and may come back or be marked down.
    #[error("is unreachable")]
    Unreachable,
    /// The machine is being emptied.
    #[error("is draining")]
    Draining,
    /// The machine is not as the task's constraints want it.
    #[error("does not match {constraint}: {}", shown(has.as_deref()))]
    Constraint {
        /// The first hard constraint that it does not match.
        constraint: Box<Constraint>,
        /// What it has instead, where it has the attribute.
        has: Option<Box<str>>,
    },
    /// The machine is too small for it, even when empty.
    #[error("is too small: {} of {dimension} asked, it has {}", .dimension.show(*asked), .dimension.show(*has))]
    TooSmall {
        /// In which dimension.
        dimension: Dimension,
        /// How much is asked.
        asked: u64,
        /// How much the machine has in all.
        has: u64,
    },
    /// Too little is left of the machine.
    #[error("lacks {dimension}: {} asked, {} free", .dimension.show(*asked), .dimension.show(*free))]
    Lacks {
        /// In which dimension.
        dimension: Dimension,
        /// How much is asked.
        asked: u64,
        /// How much is left.
        free: u64,
    },
    /// As many tasks of the job are there as it wants at most.
    #[error("has {has} tasks of the job {place}, and at most {most} are wanted")]
    Maximum {
        /// Where they are counted.
        place: CountedAt,
        /// How many are there.
        has: u32,
        /// How many are to be there at most.
        most: u32,
    },
    /// Too few of its ports are left.
    #[error("lacks ports: {asked} asked, {free} free{}", not_given(held.as_deref()))]
    LacksPorts {
        /// How many are asked.
        asked: usize,
        /// How many are left.
        free: usize,
        /// Those that something holds which they were not given to, where there are any.
        held: Option<Box<NotGiven>>,
    },
}

/// Ports of a machine that something holds which they were not given to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotGiven {
    /// How many.
    pub count: usize,
    /// The first of them, with what holds those.
    pub first: HeldPorts,
}

/// `2 held by others: 31000 by /system.slice/web.service (nginx), …`
impl std::fmt::Display for NotGiven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let more = if self.count > self.first.ports.len() { ", …" } else { "" };
        write!(f, "{} held by others: {}{more}", self.count, self.first)
    }
}

fn not_given(held: Option<&NotGiven>) -> String {
    held.map(|held| format!(", {held}")).unwrap_or_default()
}

/// Where the tasks of a job are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountedAt {
    /// On one machine.
    Machine,
    /// On all machines of its switch.
    Switch,
}

impl std::fmt::Display for CountedAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Machine => "on it",
            Self::Switch => "at its switch",
        })
    }
}

fn shown(has: Option<&str>) -> String {
    match has {
        Some(value) => format!("it has \"{}\"", value.escape_debug()),
        None => "it does not have that attribute".to_owned(),
    }
}

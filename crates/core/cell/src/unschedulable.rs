//! Why a task does not fit on a machine: the text of "why pending?".

use model::{Dimension, HeldPorts, PackageId, PackageKind, PortName, PortRange, Subnet};
use spec::Constraint;
use thiserror::Error;

use crate::NoVolume;

/// Why a task does not fit on a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum UnschedulableReason {
    /// The machine does not answer, or has not reported its capacity yet.
    #[error("is not up")]
    NotUp,
    /// The machine has not answered for a while; it may come back or be marked down.
    #[error("is unreachable")]
    Unreachable,
    /// The machine is being drained.
    #[error("is draining")]
    Draining,
    /// The machine can run no tasks, as its Borglet found out.
    #[error("is not ready: it can run no tasks")]
    NotReady,
    /// The machine does not match the task's constraints.
    #[error("does not match {constraint}: {}", shown(has.as_deref()))]
    Constraint {
        /// The first hard constraint that it does not match.
        constraint: Box<Constraint>,
        /// The value it has instead, if it has the attribute.
        has: Option<Box<str>>,
    },
    /// A package of the task has no variant for the machine's architecture.
    #[error("has the architecture {architecture}, for which {} {package} has no variant", package_word(*kind))]
    NoVariant {
        /// The first such package.
        package: Box<PackageId>,
        /// What it holds.
        kind: PackageKind,
        /// The architecture, as images name it.
        architecture: Box<str>,
    },
    /// The task is that of another machine.
    #[error("is not its machine")]
    OtherMachine,
    /// The machine does not have the task's volumes.
    #[error("{0}")]
    Volume(Box<NoVolume>),
    /// The machine is too small for it, even when empty.
    #[error("is too small: {} of {dimension} asked, it has {}", .dimension.show(*asked), .dimension.show(*has))]
    TooSmall {
        /// The dimension.
        dimension: Dimension,
        /// The amount requested.
        asked: u64,
        /// The machine's capacity.
        has: u64,
    },
    /// Too little of the machine is free.
    #[error("lacks {dimension}: {} asked, {} free", .dimension.show(*asked), .dimension.show(*free))]
    Lacks {
        /// The dimension.
        dimension: Dimension,
        /// The amount requested.
        asked: u64,
        /// The amount free.
        free: u64,
    },
    /// The machine is short of a resource, and gets no further tasks that are not production.
    #[error("is short of {of}, and takes no more tasks below production")]
    Short {
        /// The resource.
        of: Dimension,
    },
    /// The machine lately was short of a resource, and keeps some of it free.
    #[error("was short of {of} lately, and keeps some free: {} asked, {} free", .of.show(*asked), .of.show(*free))]
    LatelyShort {
        /// The resource.
        of: Dimension,
        /// The amount requested.
        asked: u64,
        /// The amount free, beyond what it keeps.
        free: u64,
    },
    /// The machine or switch has as many tasks of the job as the job allows.
    #[error("has {has} tasks of the job {place}, and the maximum is {most}")]
    Maximum {
        /// Where they are counted.
        place: CountedAt,
        /// Number of tasks there.
        has: u32,
        /// The maximum there.
        most: u32,
    },
    /// Too few of its ports are free.
    #[error("lacks ports: {asked} asked, {free} free{}", not_given(held.as_deref()))]
    LacksPorts {
        /// Number of ports requested.
        asked: usize,
        /// Number of free ports.
        free: usize,
        /// Ports in use by something the cell did not assign them to, if there are any.
        held: Option<Box<NotGiven>>,
    },
    /// Too few of its physical cores can be had as a whole.
    #[error("{}", lacks_cores(*asked, *free, *all))]
    LacksCores {
        /// Number of cores requested.
        asked: u64,
        /// Number of those that no task has for itself.
        free: u64,
        /// Number of those that tasks can have on this machine.
        all: u64,
    },
    /// It has no address for a task with a network of its own.
    #[error("{}", lacks_addresses(*range))]
    LacksAddresses {
        /// Its range, whose addresses are all taken; `None` if it has none.
        range: Option<Subnet>,
    },
    /// The alloc has another kind of network than the task.
    #[error("{}", if *own {
        "has the alloc in the network of the host, and the task wants one of its own"
    } else {
        "has the alloc in a network of its own, and the task wants that of the host"
    })]
    AllocNetwork {
        /// Whether the task wants a network of its own.
        own: bool,
    },
    /// A port with a static number is not free.
    #[error("{}", port_used(port, *number, by))]
    StaticPort {
        /// The name of the task's port.
        port: Box<PortName>,
        /// Its number.
        number: u16,
        /// Who has it.
        by: PortUse,
    },
    /// Another task in the alloc has one of its ports.
    #[error("has port {number} ({port}) taken by another task in the alloc")]
    AllocPort {
        /// The name of the task's port.
        port: Box<PortName>,
        /// Its number.
        number: u16,
    },
}

/// Who has a port of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortUse {
    /// A task.
    Task,
    /// The machine's range: the cell gives its ports to tasks without static numbers.
    Range(PortRange),
    /// Its Borglet.
    Borglet,
    /// A program that is not a task of this machine.
    Program(Box<str>),
}

fn port_used(port: &PortName, number: u16, by: &PortUse) -> String {
    match by {
        PortUse::Task => format!("has port {number} ({port}) taken by another task"),
        PortUse::Range(range) => {
            format!("gives port {number} ({port}) to tasks itself: it is in its range {range}")
        }
        PortUse::Borglet => format!("has port {number} ({port}) taken by its Borglet"),
        PortUse::Program(name) => format!("has port {number} ({port}) taken by {name}"),
    }
}

/// What a package is called that holds this.
fn package_word(kind: PackageKind) -> &'static str {
    match kind {
        PackageKind::Files => "package",
        PackageKind::Image => "image",
    }
}

fn lacks_cores(asked: u64, free: u64, all: u64) -> String {
    match all {
        0 => "offers no whole cores: its Borglet has no cpuset controller or only a part of the machine, or \
              there is only one core"
            .to_owned(),
        _ => format!("lacks whole cores: {asked} asked, {free} free of {all}"),
    }
}

fn lacks_addresses(range: Option<Subnet>) -> String {
    match range {
        Some(range) => {
            format!("lacks addresses: the {} of {range} are all taken", range.task_count())
        }
        None => "has no network for tasks: its Borglet runs without --task-network".to_owned(),
    }
}

/// Ports of a machine that are in use by something the cell did not assign them to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotGiven {
    /// How many ports.
    pub count: usize,
    /// The first of them, with their users.
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

/// Where the tasks of a job are counted for a maximum.
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

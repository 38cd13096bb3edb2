//! The network in which a task runs.

use std::collections::BTreeMap;
use std::str::FromStr;

use model::PortName;
use thiserror::Error;

/// The numbers of the ports in the network of the host, where the cell assigns them.
static NO_NUMBERS: BTreeMap<PortName, u16> = BTreeMap::new();

/// The network in which a task runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// That of its machine, whose address and ports it shares with others (paper, section 2.3).
    #[default]
    Host,
    /// One of its own, with an address of its own. The tasks in an alloc share the alloc's.
    Own {
        /// The numbers of its ports. They are the same for every task of the job.
        ports: BTreeMap<PortName, u16>,
    },
}

impl Network {
    /// The names of both kinds.
    pub const NAMES: [&'static str; 2] = ["host", "own"];

    /// Its name in descriptions.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Own { .. } => "own",
        }
    }

    /// Whether the task has an address of its own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Own { .. })
    }

    /// The ports with numbers that the description gives: all of them in a network of its own, none
    /// in the host's.
    #[must_use]
    pub fn numbers(&self) -> &BTreeMap<PortName, u16> {
        match self {
            Self::Host => &NO_NUMBERS,
            Self::Own { ports } => ports,
        }
    }
}

/// Not the name of a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{}' is not a network: use 'host' or 'own'", .0.escape_debug())]
pub struct NoSuchNetwork(String);

/// Without ports.
impl FromStr for Network {
    type Err = NoSuchNetwork;

    fn from_str(text: &str) -> Result<Self, NoSuchNetwork> {
        match text {
            "host" => Ok(Self::Host),
            "own" => Ok(Self::Own { ports: BTreeMap::new() }),
            _ => Err(NoSuchNetwork(text.to_owned())),
        }
    }
}

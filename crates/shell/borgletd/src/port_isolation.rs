//! How tasks are kept from ports that they were not given: the kernel rejects the bind, or the Borglet
//! detects it ([`super::ports`]) and kills the task. The latter is done in both cases: a socket can come
//! from elsewhere.

use anyhow::Context;
use clap::ValueEnum;
use linux::Isolation;
use linux::cgroup::Hierarchy;

/// A variable with what is wanted, also for the Borglets of a dev cell.
pub(crate) const PORT_ISOLATION_VARIABLE: &str = "BOURG_PORT_ISOLATION";

/// The name of the cgroup, below that of all tasks, in which the kernel is tried.
const SCRATCH: &str = "port-isolation";

/// How this machine keeps tasks from other ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortIsolation {
    /// The kernel rejects the bind.
    Enforced,
    /// The Borglet kills the task.
    Watched,
}

impl PortIsolation {
    /// The attribute of machines with its name.
    pub(crate) const ATTRIBUTE: &str = "port-isolation";

    /// The value of the attribute.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Watched => "watched",
        }
    }
}

/// What the flag says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WantedPortIsolation {
    /// Enforced where the kernel allows it, otherwise watched.
    #[default]
    Auto,
    /// Enforced; the Borglet does not start without.
    Enforced,
    /// Watched, whatever the kernel can do.
    Watched,
}

impl WantedPortIsolation {
    /// What this machine has, which is tried in a cgroup below `parent`.
    pub(crate) fn find(self, isolation: Isolation, parent: &str) -> anyhow::Result<PortIsolation> {
        if self == Self::Watched {
            return Ok(PortIsolation::Watched);
        }
        let tried = match isolation {
            Isolation::Jail => try_kernel(parent),
            Isolation::Rootless => Err(anyhow::anyhow!("without root tasks have no cgroups")),
        };
        match (tried, self) {
            (Ok(()), _) => Ok(PortIsolation::Enforced),
            (Err(error), Self::Enforced) => Err(error).context(
                "this machine cannot enforce which ports tasks bind, as --port-isolation requires",
            ),
            (Err(error), _) => {
                tracing::info!(
                    "a task that binds a port which is not its own is killed for it, and not kept from it: \
                     {error:#}"
                );
                Ok(PortIsolation::Watched)
            }
        }
    }
}

fn try_kernel(parent: &str) -> anyhow::Result<()> {
    Ok(linux::bind::probe(&Hierarchy::detect()?, &format!("{parent}/{SCRATCH}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_watched_without_root_unless_more_is_required() {
        let find = |wanted: WantedPortIsolation| {
            wanted.find(Isolation::Rootless, "bourg/none").map_err(|error| format!("{error:#}"))
        };
        assert_eq!(find(WantedPortIsolation::Auto), Ok(PortIsolation::Watched));
        assert_eq!(find(WantedPortIsolation::Watched), Ok(PortIsolation::Watched));
        let refused = "this machine cannot enforce which ports tasks bind, as --port-isolation \
                       requires: without root tasks have no cgroups";
        assert_eq!(find(WantedPortIsolation::Enforced), Err(refused.to_owned()));
    }
}

//! Health checks (paper, section 2.6).

use model::{PortName, Span};

/// A health check: a task that fails it too often in a row is restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// What is checked.
    pub probe: Probe,
    /// The interval between checks.
    pub interval: Span,
    /// The timeout of a check.
    pub timeout: Span,
    /// How long after its start a task may be unhealthy without being restarted. It ends when the
    /// task is healthy for the first time.
    pub start_grace: Span,
    /// How many consecutive checks must fail before the task is restarted. The first failure makes
    /// it unhealthy.
    pub failures_max: u32,
    /// How many consecutive checks must succeed before the task is healthy: at first, and again
    /// after a failure.
    pub successes_min: u32,
}

/// What a health check does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// `GET` on a port: a status below 400 is a success.
    Http {
        /// The port.
        port: PortName,
        /// The request path, starting with `/`.
        path: String,
    },
    /// A connection to a port.
    Tcp {
        /// The port.
        port: PortName,
    },
    /// A command inside the task, in its jail and cgroup and as its user: exit code 0 is a success.
    Exec {
        /// The program and its arguments; may contain references such as `${port.http}`.
        cmd: Vec<String>,
    },
}

impl HealthCheck {
    /// `GET /` on a port every second. Three consecutive failures, or no success within 30 s of the
    /// start, restart the task.
    #[must_use]
    pub fn on(port: PortName) -> Self {
        Self::of(Probe::Http { port, path: "/".to_owned() })
    }

    /// A check with the defaults of [`HealthCheck::on`].
    #[must_use]
    pub fn of(probe: Probe) -> Self {
        Self {
            probe,
            interval: Span::from_secs(1),
            timeout: Span::from_secs(5),
            start_grace: Span::from_secs(30),
            failures_max: 3,
            successes_min: 1,
        }
    }

    /// The port that it uses, if any.
    #[must_use]
    pub fn port(&self) -> Option<&PortName> {
        match &self.probe {
            Probe::Http { port, .. } | Probe::Tcp { port } => Some(port),
            Probe::Exec { .. } => None,
        }
    }

    /// The command that it runs; empty if it runs none.
    #[must_use]
    pub fn cmd(&self) -> &[String] {
        match &self.probe {
            Probe::Exec { cmd } => cmd,
            Probe::Http { .. } | Probe::Tcp { .. } => &[],
        }
    }
}

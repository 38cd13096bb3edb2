//! The metrics that tasks serve themselves.

use model::PortName;

/// Where each task of a job serves its metrics, in Prometheus' text format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsPage {
    /// One of the task's ports.
    pub port: PortName,
    /// The request path, starting with `/`.
    pub path: String,
}

impl MetricsPage {
    /// `/metrics` on a port.
    #[must_use]
    pub fn on(port: PortName) -> Self {
        Self { port, path: "/metrics".to_owned() }
    }
}

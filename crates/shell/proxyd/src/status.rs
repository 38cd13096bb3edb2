//! The health and the metrics of a proxy.

use std::fmt::Write as _;

use clientd::Status;

use super::backends::Backends;
use super::forward::{Proxy, Totals};

impl Status for Proxy {
    fn health(&self) -> Result<String, String> {
        match self.read(|backends, _| backends.serving()) {
            0 => Err("no task serves".to_owned()),
            serving => Ok(format!("ok: {serving} serving")),
        }
    }

    fn metrics(&self) -> String {
        self.read(metrics)
    }
}

/// The metrics in Prometheus' text format.
fn metrics(backends: &Backends, totals: Totals) -> String {
    let mut text = String::new();
    let head = |text: &mut String, name: &str, kind: &str, help: &str| {
        // Writing to a text cannot fail.
        let _written = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    };
    let serving = backends.serving() as u64;
    for (name, kind, help, value) in [
        ("bourg_proxy_open_connections", "gauge", "Open connections of clients.", totals.open),
        ("bourg_proxy_serving_tasks", "gauge", "Tasks that get new connections.", serving),
        (
            "bourg_proxy_refused_connections_total",
            "counter",
            "Connections closed because there were too many.",
            totals.refused,
        ),
        (
            "bourg_proxy_unserved_connections_total",
            "counter",
            "Connections closed because no task accepted them.",
            totals.unserved,
        ),
    ] {
        head(&mut text, name, kind, help);
        let _written = writeln!(text, "{name} {value}");
    }
    let counts: Vec<_> = backends.counts().collect();
    type Value = fn(super::backends::ConnectionCounts) -> u64;
    let by_task: [(&str, &str, &str, Value); 3] = [
        ("bourg_proxy_task_open_connections", "gauge", "Open connections by task.", |it| it.open),
        ("bourg_proxy_task_connections_total", "counter", "Connections by task.", |it| it.total),
        (
            "bourg_proxy_task_failed_connects_total",
            "counter",
            "Connections that a task did not accept.",
            |it| it.failed,
        ),
    ];
    for (name, kind, help, value) in by_task {
        head(&mut text, name, kind, help);
        for (task, counts) in &counts {
            let _written = writeln!(text, "{name}{{task=\"{task}\"}} {}", value(*counts));
        }
    }
    text
}

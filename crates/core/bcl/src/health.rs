//! Health checks, and the page with a task's metrics.

use model::PortName;
use spec::{HealthCheck, MetricsPage, Path, Probe};

use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape};
use crate::json::Json;
use crate::quantity::{self, CMD, text, word};

const HEALTH_CHECK: Shape = Shape {
    of: "a health check",
    expected: "a health check, such as { port: 'http', path: '/healthz' }, { tcp: 'http' } or \
               { exec: ['check', '--quick'] }, or null",
    fields: &[
        "port",
        "path",
        "tcp",
        "exec",
        "interval",
        "timeout",
        "startGrace",
        "failures",
        "successes",
    ],
    spellings: &[],
};

const METRICS: Shape = Shape {
    of: "a page with metrics",
    expected: "a page with metrics, such as { port: 'http', path: '/metrics' }",
    fields: &["port", "path"],
    spellings: &[],
};

/// Parses the name of a port.
pub(crate) fn port_name(value: &Json) -> Result<PortName, ErrorKind> {
    Ok(PortName::new(text("a port's name, such as 'http'", value)?)?)
}

/// Whether a value disables the health check: null, or an HTTP check whose port is null.
pub(crate) fn is_off(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Object(fields) => {
            let given = |name| fields.get(name).is_some_and(|value| *value != Json::Null);
            fields.get("port") == Some(&Json::Null) && !given("tcp") && !given("exec")
        }
        _ => false,
    }
}

/// A health check with a null port is disabled, so that a template can provide one that
/// `healthCheck+:` enables. A missing port is an error.
pub(crate) fn health_check(
    value: &Json,
    path: Path,
    found: &mut Diagnostics,
) -> Option<HealthCheck> {
    let fields = Fields::open(value, path, &HEALTH_CHECK, found)?;
    let probe = probe(value, &fields, found);
    let interval = fields.read("interval", found, quantity::span);
    let timeout = fields.read("timeout", found, quantity::span);
    let start_grace = fields.read("startGrace", found, quantity::span);
    let failures_max = fields.read("failures", found, quantity::whole_small);
    let successes_min = fields.read("successes", found, quantity::whole_small);
    let usual = HealthCheck::of(probe?);
    Some(HealthCheck {
        interval: interval.unwrap_or(usual.interval),
        timeout: timeout.unwrap_or(usual.timeout),
        start_grace: start_grace.unwrap_or(usual.start_grace),
        failures_max: failures_max.unwrap_or(usual.failures_max),
        successes_min: successes_min.unwrap_or(usual.successes_min),
        probe: usual.probe,
    })
}

/// What the check does: exactly one of `port`, `tcp` and `exec` is given. A template's path stays
/// beside a `tcp` or an `exec` that is added to it, if its port is null.
fn probe(value: &Json, fields: &Fields<'_>, found: &mut Diagnostics) -> Option<Probe> {
    let given: Vec<&'static str> =
        ["port", "tcp", "exec"].into_iter().filter(|name| fields.get(name).is_some()).collect();
    if let [one, other, ..] = given[..] {
        found.add(fields.path.field(other), ErrorKind::TwoKinds { one, other });
        return None;
    }
    let of_template = value.object().and_then(|fields| fields.get("port")) == Some(&Json::Null);
    if let ([one @ ("tcp" | "exec")], false) = (&given[..], of_template)
        && fields.get("path").is_some()
    {
        let other = "path";
        found.add(fields.path.field(other), ErrorKind::TwoKinds { one, other });
    }
    if given.is_empty() && !is_off(value) {
        fields.require("port", "port: 'http'", found);
    }
    let path = fields.read("path", found, request_path);
    if let Some(port) = fields.read("port", found, port_name) {
        return Some(Probe::Http { port, path: path.unwrap_or_else(|| "/".to_owned()) });
    }
    if let Some(port) = fields.read("tcp", found, port_name) {
        return Some(Probe::Tcp { port });
    }
    fields.read_list("exec", CMD, found, word).map(|cmd| Probe::Exec { cmd })
}

fn request_path(value: &Json) -> Result<String, ErrorKind> {
    text("a path, such as '/healthz'", value).map(str::to_owned)
}

/// Where each task serves its own metrics.
pub(crate) fn metrics(value: &Json, path: Path, found: &mut Diagnostics) -> Option<MetricsPage> {
    let fields = Fields::open(value, path, &METRICS, found)?;
    fields.require("port", "port: 'http'", found);
    let path = fields.read("path", found, request_path);
    let usual = MetricsPage::on(fields.read("port", found, port_name)?);
    Some(MetricsPage { path: path.unwrap_or(usual.path), port: usual.port })
}

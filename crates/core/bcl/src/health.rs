//! Health checks.

use model::PortName;
use spec::{HealthCheck, Path};

use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape};
use crate::json::Json;
use crate::quantity::{self, text};

const HEALTH_CHECK: Shape = Shape {
    of: "a health check",
    expected: "a health check, such as { port: 'http', path: '/healthz' }, or null",
    fields: &["port", "path", "interval", "timeout", "startGrace", "failures"],
    spellings: &[],
};

/// Parses the name of a port.
pub(crate) fn port_name(value: &Json) -> Result<PortName, ErrorKind> {
    Ok(PortName::new(text("a port's name, such as 'http'", value)?)?)
}

/// Whether a value disables the health check: null, or a check whose port is null.
pub(crate) fn is_off(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Object(fields) => fields.get("port") == Some(&Json::Null),
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
    if !is_off(value) {
        fields.require("port", "port: 'http'", found);
    }
    let port = fields.read("port", found, port_name);
    let path = fields
        .read("path", found, |value| text("a path, such as '/healthz'", value).map(str::to_owned));
    let interval = fields.read("interval", found, quantity::span);
    let timeout = fields.read("timeout", found, quantity::span);
    let start_grace = fields.read("startGrace", found, quantity::span);
    let failures_max = fields.read("failures", found, quantity::whole_small);
    let usual = HealthCheck::on(port?);
    Some(HealthCheck {
        path: path.unwrap_or(usual.path),
        interval: interval.unwrap_or(usual.interval),
        timeout: timeout.unwrap_or(usual.timeout),
        start_grace: start_grace.unwrap_or(usual.start_grace),
        failures_max: failures_max.unwrap_or(usual.failures_max),
        port: usual.port,
    })
}

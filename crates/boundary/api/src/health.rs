//! Health checks, restarts and metrics pages of a description: `job.proto`.

use model::PortName;
use spec::{HealthCheck, MetricsPage, Probe, RestartPolicy, RestartWhen};

use crate::duration::duration;
use crate::error::{At, Fault, Malformed};
use crate::{read, v1};

impl From<&HealthCheck> for v1::HealthCheck {
    fn from(check: &HealthCheck) -> Self {
        let mut message = Self {
            interval: Some(duration(check.interval)),
            timeout: Some(duration(check.timeout)),
            start_grace: Some(duration(check.start_grace)),
            failures: check.failures_max,
            successes: (check.successes_min != 1).then_some(check.successes_min),
            ..Self::default()
        };
        match &check.probe {
            Probe::Http { port, path } => {
                (message.port, message.path) = (port.to_string(), path.clone());
            }
            Probe::Tcp { port } => message.tcp = port.to_string(),
            Probe::Exec { cmd } => message.exec.clone_from(cmd),
        }
        message
    }
}

fn probe(port: &str, path: String, tcp: &str, cmd: Vec<String>) -> Result<Probe, Malformed> {
    let contradiction = |field| {
        let fault = Fault::Contradiction("is given for another kind of health check");
        Err(fault).field(field)
    };
    if !port.is_empty() {
        return match (tcp.is_empty(), cmd.is_empty()) {
            (true, true) => Ok(Probe::Http { port: read::name(port, "port")?, path }),
            (false, _) => contradiction("tcp"),
            (true, false) => contradiction("exec"),
        };
    }
    if tcp.is_empty() && cmd.is_empty() {
        return Err(Fault::Missing).field("port");
    }
    if !path.is_empty() {
        return contradiction("path");
    }
    match (tcp.is_empty(), cmd.is_empty()) {
        (false, false) => contradiction("exec"),
        (false, true) => Ok(Probe::Tcp { port: read::name::<PortName>(tcp, "tcp")? }),
        (true, _) => Ok(Probe::Exec { cmd }),
    }
}

impl TryFrom<v1::HealthCheck> for HealthCheck {
    type Error = Malformed;

    fn try_from(check: v1::HealthCheck) -> Result<Self, Malformed> {
        Ok(Self {
            probe: probe(&check.port, check.path, &check.tcp, check.exec)?,
            interval: read::span(check.interval, "interval")?,
            timeout: read::span(check.timeout, "timeout")?,
            start_grace: read::span(check.start_grace, "startGrace")?,
            failures_max: check.failures,
            successes_min: check.successes.unwrap_or(1),
        })
    }
}

impl From<&RestartPolicy> for v1::RestartPolicy {
    fn from(policy: &RestartPolicy) -> Self {
        let when = match policy.when {
            RestartWhen::Never => v1::restart_policy::Policy::Never,
            RestartWhen::OnFailure => v1::restart_policy::Policy::OnFailure,
            RestartWhen::Always => v1::restart_policy::Policy::Always,
        };
        Self {
            failures: policy.failures_max,
            delay: Some(duration(policy.delay)),
            delay_max: Some(duration(policy.delay_max)),
            policy: Some(when.into()),
            reset_after: Some(duration(policy.reset_after)),
        }
    }
}

impl TryFrom<v1::RestartPolicy> for RestartPolicy {
    type Error = Malformed;

    fn try_from(policy: v1::RestartPolicy) -> Result<Self, Malformed> {
        let meaning = |policy| {
            Some(match policy {
                v1::restart_policy::Policy::Never => RestartWhen::Never,
                v1::restart_policy::Policy::OnFailure => RestartWhen::OnFailure,
                v1::restart_policy::Policy::Always => RestartWhen::Always,
            })
        };
        let delay_max = read::span(policy.delay_max, "delayMax")?;
        let reset_after = match policy.reset_after {
            None => Self::usual_reset_after(delay_max),
            given => read::span(given, "resetAfter")?,
        };
        Ok(Self {
            when: read::value(policy.policy.unwrap_or_default(), meaning, "policy")?,
            failures_max: policy.failures,
            delay: read::span(policy.delay, "delay")?,
            delay_max,
            reset_after,
        })
    }
}

impl From<&MetricsPage> for v1::MetricsPage {
    fn from(page: &MetricsPage) -> Self {
        Self { port: page.port.to_string(), path: page.path.clone() }
    }
}

impl TryFrom<v1::MetricsPage> for MetricsPage {
    type Error = Malformed;

    fn try_from(page: v1::MetricsPage) -> Result<Self, Malformed> {
        Ok(Self { port: read::name(&page.port, "port")?, path: page.path })
    }
}

//! Health checks of instances: what a check does, and what follows from its result.

use std::net::Ipv4Addr;

use model::{Appclass, InstanceId, NoticeReason, Span, Time};
use poll::{Desired, Stop};

use super::{Borglet, Effect, Phase, StopCause};
use crate::health::{CheckKind, Verdict, Watch};
use crate::launch::fill;

/// What a health check does: as its description says, with ports and references resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// `GET` on one of its ports.
    Http {
        /// Where the machine reaches the instance: at its own address, or locally.
        host: Ipv4Addr,
        /// The port's number.
        port: u16,
        /// The request path.
        path: String,
    },
    /// A connection to one of its ports.
    Tcp {
        /// Where the machine reaches the instance.
        host: Ipv4Addr,
        /// The port's number.
        port: u16,
    },
    /// A command inside the instance.
    Exec {
        /// The program and its arguments.
        argv: Vec<String>,
    },
}

/// The watch of an instance that has started.
pub(super) fn tracker(desired: &Desired, started: Time) -> Watch {
    let serves = desired.appclass == Appclass::LatencySensitive;
    Watch::new(&desired.spec, serves, started)
}

/// A check of a description.
fn described(task: &spec::TaskSpec, kind: CheckKind) -> Option<&spec::HealthCheck> {
    match kind {
        CheckKind::Health => task.health_check.as_ref(),
        CheckKind::Readiness => task.readiness.as_ref(),
    }
}

/// The checks of an instance that are due.
pub(super) fn due(
    now: Time,
    instance: InstanceId,
    desired: &Desired,
    watch: &mut Watch,
    effects: &mut Vec<Effect>,
) {
    for kind in [CheckKind::Health, CheckKind::Readiness] {
        let tracker = watch.of(kind).filter(|it| it.next().is_some_and(|next| next <= now));
        let Some(tracker) = tracker else { continue };
        if described(&desired.spec, kind).is_none() {
            tracker.settled();
        } else if let Some(effect) = begin(instance, desired, kind) {
            tracker.asked();
            effects.push(effect);
        }
    }
}

/// A check of an instance; `None` if it has no such check, or not its port.
fn begin(instance: InstanceId, desired: &Desired, kind: CheckKind) -> Option<Effect> {
    let check = described(&desired.spec, kind)?;
    let number = |wanted| {
        let mut ports = desired.ports.iter();
        ports.find(|(name, _)| name == wanted).map(|(_, port)| *port)
    };
    let host = desired.host();
    let probe = match &check.probe {
        spec::Probe::Http { port, path } => {
            Probe::Http { host, port: number(port)?, path: path.clone() }
        }
        spec::Probe::Tcp { port } => Probe::Tcp { host, port: number(port)? },
        spec::Probe::Exec { cmd } => {
            Probe::Exec { argv: cmd.iter().map(|text| fill(desired, text)).collect() }
        }
    };
    let user = desired.user.clone();
    Some(Effect::Check { instance, kind, user, probe, timeout: check.timeout })
}

/// The name of a check in the reason of an end.
fn name(probe: &spec::Probe) -> String {
    match probe {
        spec::Probe::Http { path, .. } => format!("GET {path}"),
        spec::Probe::Tcp { port } => format!("connection to {port}"),
        spec::Probe::Exec { cmd } => cmd.first().cloned().unwrap_or_default(),
    }
}

impl Borglet {
    pub(super) fn checked(
        &mut self,
        now: Time,
        instance: InstanceId,
        kind: CheckKind,
        answer: Result<String, String>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(local) = self.tasks.get_mut(&instance) else { return };
        let Phase::Running(watch) = &mut local.phase else { return };
        let Some(check) = described(&local.launch.desired.spec, kind) else { return };
        let Some(tracker) = watch.of(kind) else { return };
        let verdict = tracker.answered(check, now, &answer);
        if let (Verdict::Stop, Err(said)) = (verdict, answer) {
            let reason = format!("{} → {said}", name(&check.probe));
            let stop = Stop {
                instance,
                reason: NoticeReason::Unhealthy,
                cause: reason.clone(),
                notice_max: None,
            };
            local.stop(now, StopCause::Unhealthy(reason), Some(stop), Span::ZERO, effects);
        }
    }
}

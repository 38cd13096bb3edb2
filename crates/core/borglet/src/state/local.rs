//! One instance on the machine: how it was started, and how it is ended.

use std::sync::Arc;

use model::{
    Appclass, End, FinalUsage, NoticeReason, Resources, Span, StartLatency, StartPart, Time,
    VolumePath,
};
use poll::{Desired, Notice, Stop};

use super::notice::{self, GivenNotice};
use super::runtime::Runtime;
use super::{Effect, Rule};
use crate::Launch;
use crate::capacity::Endpoint;
use crate::health::Watch;
use crate::limit::Limit;

/// An instance on the machine.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) launch: Launch,
    pub(super) limit: Limit,
    pub(super) phase: Phase,
    /// Ports that it holds although they are not assigned to it, and since when.
    pub(super) grabbed: Option<(Time, Vec<u16>)>,
    /// Whether what its job says of its logs has changed since its start.
    pub(super) logs_changed: bool,
    /// How long its start takes, unless this Borglet found it.
    pub(super) start: Option<StartTimer>,
    /// How often it was told to read its secrets and names again.
    pub(super) read_again: u32,
    pub(super) runtime: Runtime,
}

/// How long a start takes, by the machine's own clock.
#[derive(Clone, Copy, Debug)]
pub(super) enum StartTimer {
    /// It was ordered then, and its program does not run yet.
    Ordered {
        at: Time,
        /// How long what it needs was fetched.
        fetched: Span,
    },
    /// Its program ran after that.
    Took(StartLatency),
}

impl StartTimer {
    /// It is ordered now.
    pub(super) fn ordered(at: Time) -> Self {
        Self::Ordered { at, fetched: Span::ZERO }
    }

    /// What it needs is there, after so long.
    pub(super) fn fetched(&mut self, took: Span) {
        if let Self::Ordered { fetched, .. } = self {
            *fetched = took;
        }
    }

    /// Its program runs now.
    pub(super) fn started(&mut self, now: Time) {
        if let Self::Ordered { at, fetched } = *self {
            let rest = Span(now.since(at).0.saturating_sub(fetched.0));
            let latency = StartLatency::UNKNOWN.with(StartPart::Fetch, fetched);
            *self = Self::Took(latency.with(StartPart::Start, rest));
        }
    }

    /// What is known.
    pub(super) fn latency(self) -> StartLatency {
        match self {
            Self::Ordered { .. } => StartLatency::UNKNOWN,
            Self::Took(latency) => latency,
        }
    }
}

/// What is done with it.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// Waits until others end and free the port or resources it needs.
    Waiting,
    Starting,
    Running(Watch),
    Stopping {
        next: Time,
        why: StopCause,
        notice: GivenNotice,
        /// What it still has to be told at `next`: until then clients learn that it is going.
        untold: Option<Notice>,
    },
    Ended(End, FinalUsage),
}

/// Why it is stopped.
#[derive(Clone, Debug)]
pub(super) enum StopCause {
    NotDesired,
    Unhealthy(String),
    BrokeRule(String),
    OutOfResources(String),
    /// It ran longer than this.
    OverRuntime(Span),
}

impl Local {
    pub(super) fn new(launch: Launch, phase: Phase) -> Self {
        let limit = Limit::new(launch.desired.spec.limit);
        Self {
            launch,
            limit,
            phase,
            grabbed: None,
            logs_changed: false,
            start: None,
            read_again: 0,
            runtime: Runtime::NotRunning,
        }
    }

    /// Adopts changes that need no restart, and nothing else. A task that has not been started will
    /// be started with the new limit, and needs no resize.
    pub(super) fn adopt(&mut self, new: &Desired) {
        let own = &mut self.launch.desired;
        (own.priority, own.appclass) = (new.priority, new.appclass);
        own.max_runtime = new.max_runtime;
        self.runtime.ordered();
        if own.spec.limit != new.spec.limit || own.spec.constraints != new.spec.constraints {
            let spec = Arc::make_mut(&mut own.spec);
            spec.limit = new.spec.limit;
            spec.constraints.clone_from(&new.spec.constraints);
        }
        if own.spec.logs != new.spec.logs {
            self.logs_changed = true;
            Arc::make_mut(&mut own.spec).logs = new.spec.logs;
        }
        if matches!(self.phase, Phase::Waiting) {
            self.limit = Limit::new(new.spec.limit);
        }
    }

    /// The effect if an order tells it to read its secrets and names again, once for each number.
    pub(super) fn reads_again(&mut self, new: &Desired) -> Option<Effect> {
        if !matches!(self.phase, Phase::Running(_))
            || new.reads_again == 0
            || new.reads_again == self.read_again
        {
            return None;
        }
        self.read_again = new.reads_again;
        Some(Effect::ReadAgain(Box::new(self.launch.clone())))
    }

    /// What it was told before a restoration of the cell says nothing of the numbers after it.
    pub(super) fn forget_reads(&mut self) {
        self.read_again = 0;
    }

    pub(super) fn target(&self) -> Resources {
        self.launch.desired.spec.limit
    }

    /// When to request the desired limit; `None` if it is applied or being applied.
    pub(super) fn next_resize(&self) -> Option<Time> {
        self.limit.next(self.target())
    }

    /// The maximum that it may use, now or once the new limit is applied.
    pub(super) fn takes(&self) -> Resources {
        let present = self.limit.current;
        present.plus(self.target().minus(present))
    }

    /// The directories of volumes that no other task may have meanwhile.
    pub(super) fn exclusive_volumes(&self) -> impl Iterator<Item = &VolumePath> {
        let volumes = self.launch.desired.volumes.iter();
        volumes.filter(|volume| volume.exclusive).map(|volume| &volume.source)
    }

    /// What no other instance can have meanwhile: its ports, and its address unless that is its
    /// alloc's.
    pub(super) fn ports(&self) -> impl Iterator<Item = Endpoint> {
        let Desired { address, alloc, ports, .. } = &self.launch.desired;
        let (address, alone) = (*address, alloc.is_none());
        let endpoint = move |port| match address {
            Some(address) => Endpoint::own(address, port),
            None => Endpoint::host(port),
        };
        let whole = address.filter(|_| alone).map(Endpoint::address);
        ports.iter().map(move |(_, port)| endpoint(*port)).chain(whole)
    }

    /// Whether it has processes on the machine.
    pub(super) fn is_here(&self) -> bool {
        !matches!(self.phase, Phase::Waiting | Phase::Ended(..))
    }

    /// Ends it without notice, because it holds what others need. If it is already stopping, it loses
    /// the rest of its notice but keeps the cause of its stop. Returns whether it is ended by this.
    pub(super) fn end_by_rule(
        &mut self,
        now: Time,
        again: Span,
        rule: Rule,
        why: StopCause,
        effects: &mut Vec<Effect>,
    ) -> bool {
        match &mut self.phase {
            Phase::Starting | Phase::Running(_) => {
                let instance = self.launch.instance;
                effects.push(Effect::Kill(instance));
                if let StopCause::BrokeRule(reason) | StopCause::OutOfResources(reason) = &why {
                    effects.push(Effect::NoteRule { instance, rule, reason: reason.clone() });
                }
                let (next, notice) = (now + again, GivenNotice::none_due());
                self.phase = Phase::Stopping { next, why, notice, untold: None };
                true
            }
            Phase::Stopping { next, notice, untold: untold @ Some(_), .. } => {
                (*next, *notice, *untold) = (now, GivenNotice::none_due(), None);
                true
            }
            Phase::Stopping {
                next,
                why: StopCause::NotDesired | StopCause::Unhealthy(_) | StopCause::OverRuntime(_),
                ..
            } if *next > now + again => {
                *next = now;
                true
            }
            Phase::Stopping { .. } | Phase::Waiting | Phase::Ended(..) => false,
        }
    }

    /// Stops it, once: SIGTERM now, SIGKILL when its notice is over. A task that serves gets SIGTERM only
    /// after `leave`: it is under its names no more, and until then clients still come.
    pub(super) fn stop(
        &mut self,
        now: Time,
        why: StopCause,
        stop: Option<Stop>,
        leave: Span,
        effects: &mut Vec<Effect>,
    ) {
        if let Phase::Starting | Phase::Running(_) = self.phase {
            let runs = matches!(self.phase, Phase::Running(_));
            // Who preempts it, or is in a hurry, does not wait longer than it said.
            let is_bounded = stop.as_ref().is_some_and(|stop| {
                let is_preempted = stop.reason == NoticeReason::Preempted;
                stop.notice_max.is_some_and(|most| is_preempted || most == Span::ZERO)
            });
            let told = notice::of(self.launch.desired.spec.notice, stop);
            if self.serves() && !is_bounded && leave > Span::ZERO {
                let (next, notice) = (now + leave, GivenNotice::none_due());
                self.phase = Phase::Stopping { next, why, notice, untold: Some(told) };
                return;
            }
            let next = now + told.length;
            let notice = GivenNotice::due(now, next, runs);
            effects.push(Effect::Terminate(self.launch.instance, told));
            self.phase = Phase::Stopping { next, why, notice, untold: None };
        } else if let Some(most) = stop.and_then(|stop| stop.notice_max) {
            self.shorten_notice(now, most);
        }
    }

    /// It is being stopped, and has less time for it than it was told.
    fn shorten_notice(&mut self, now: Time, most: Span) {
        let Phase::Stopping { next, notice, untold, .. } = &mut self.phase else { return };
        if let Some(told) = untold {
            told.length = told.length.min(most);
            if most == Span::ZERO {
                *next = (*next).min(now);
            }
        } else if let Some(deadline) = notice.shorten(most) {
            *next = (*next).min(deadline.max(now));
        }
    }

    /// Whether clients may come to it: it is healthy, has a port, and is not of a batch job.
    fn serves(&self) -> bool {
        let desired = &self.launch.desired;
        desired.appclass == Appclass::LatencySensitive
            && !desired.ports.is_empty()
            && matches!(&self.phase, Phase::Running(watch) if watch.is_good())
    }
}

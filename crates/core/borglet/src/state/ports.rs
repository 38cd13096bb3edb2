//! Detects ports of the machine's range that are held by something they are not assigned to.
//!
//! The kernel lets every task bind every port. So the Borglet checks which task holds which port,
//! and ends a task that holds a port not assigned to it. It does not touch other programs: it
//! reports their ports with the holder, and the cell assigns those ports to no task.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::sync::Arc;

use model::{End, FinalUsage, HeldPorts, InstanceId, PortName, PortRange, Span, Time};

use super::{Borglet, Effect, Local, Phase, Rule, StopCause};

/// How long after it was last seen a port still counts as held, so that a program that repeatedly
/// opens and closes it does not change the report each time.
const HELD_FOR: Span = Span::from_secs(10);
/// How long a task that is being ended may hold a port before the port is reported.
const ENDING_FOR: Span = Span::from_secs(5);
/// How long after its start a task that ends may have done so because it could not bind its port.
const STARTING_FOR: Span = Span::from_secs(10);
/// How long before that end another must have been seen to hold the port.
const SEEN_FOR: Span = Span::from_secs(2);
/// The maximum number of groups of consecutive ports reported.
const REPORTED_MAX: usize = 256;

/// A port of the machine's range with its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPort {
    /// The port.
    pub port: u16,
    /// The holder.
    pub by: Holder,
}

/// The holder of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// An instance of this Borglet.
    Instance(InstanceId),
    /// Another program, for display: its control group and its name.
    Other(Arc<str>),
}

/// The ports seen in use, with their holders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports {
    seen: BTreeMap<u16, Seen>,
    /// Static ports, which are beyond the range, that a start has found in use, until they are free.
    wanted: BTreeSet<u16>,
}

#[derive(Clone, Debug)]
struct Seen {
    by: Arc<str>,
    since: Time,
    last: Time,
    /// The holder is this task, which is being ended.
    ends: Option<InstanceId>,
}

impl Ports {
    /// Records a port held by something it is not assigned to: a task, which is ended for it, or a
    /// foreign program. Each task has its own time to end, so that several tasks in a row do not
    /// count as one that does not end.
    pub(crate) fn record(&mut self, now: Time, port: u16, by: Arc<str>, ends: Option<InstanceId>) {
        let new = Seen { by, since: now, last: now, ends };
        let before = self.seen.get(&port).filter(|before| before.ends == ends);
        let since = before.map_or(now, |before| before.since);
        self.seen.insert(port, Seen { since, ..new });
    }

    /// A start has found a static port in use: from now on it is reported, like those of the range.
    fn want(&mut self, port: u16) {
        if self.wanted.len() < REPORTED_MAX {
            self.wanted.insert(port);
        }
    }

    /// Forgets ports that were not seen in use for long enough, and a task's ports as soon as it
    /// has ended.
    pub(crate) fn forget(&mut self, now: Time, is_here: impl Fn(InstanceId) -> bool) {
        self.seen.retain(|_, seen| {
            let is_gone = seen.last < now && seen.ends.is_some_and(|task| !is_here(task));
            !is_gone && now.since(seen.last) < HELD_FOR
        });
        let seen = &self.seen;
        self.wanted.retain(|port| seen.contains_key(port));
    }

    /// The held ports that are to be reported: those of a range, and those that a start found in use.
    pub(crate) fn reported(&self, now: Time, range: PortRange) -> Vec<HeldPorts> {
        let counts = |seen: &Seen| seen.ends.is_none() || now.since(seen.since) >= ENDING_FOR;
        let is_told = |port: u16| range.contains(port) || self.wanted.contains(&port);
        let within = self.seen.iter().filter(|(port, seen)| is_told(**port) && counts(seen));
        let mut reported: Vec<HeldPorts> = Vec::new();
        for (port, seen) in within {
            let is_next = |last: &HeldPorts| last.ports.last + 1 == *port && *last.by == *seen.by;
            if let Some(last) = reported.last_mut().filter(|last| is_next(last)) {
                last.ports.last = *port;
            } else if reported.len() < REPORTED_MAX {
                let ports = PortRange { first: *port, last: *port };
                reported.push(HeldPorts { ports, by: seen.by.to_string() });
            } else {
                break;
            }
        }
        reported
    }
}

impl Borglet {
    /// An instance was not started because one of its ports is in use. If a task that is being
    /// ended holds it, the instance waits for that. Another holder may keep it for long, so the
    /// instance ends and the cell gives its next incarnation another port.
    pub(super) fn port_taken(
        &mut self,
        now: Time,
        instance: InstanceId,
        held: &HeldPort,
        effects: &mut Vec<Effect>,
    ) {
        let port = held.port;
        if !self.machine.ports.contains(port) {
            self.ports.want(port);
        }
        self.handle_ports(now, slice::from_ref(held), effects);
        let ends = |local: &Local| local.grabbed(now).contains(&port);
        let holder = match &held.by {
            Holder::Instance(id) if self.tasks.get(id).is_some_and(ends) => {
                // The holder is being ended; the instance starts after that.
                if let Some(local) = self.tasks.get_mut(&instance)
                    && let Phase::Starting = local.phase
                {
                    local.phase = Phase::Waiting;
                    return;
                }
                self.name_of(*id)
            }
            Holder::Instance(id) => self.name_of(*id),
            Holder::Other(name) => name.to_string(),
        };
        let local = self.tasks.get(&instance);
        let name = local.and_then(|local| local.port_name(port)).unwrap_or_default();
        let reason = format!("port {port} ({name}) is taken by {holder}");
        self.ended(instance, End::Lost { reason }, FinalUsage::UNMEASURED);
    }

    /// How an instance has ended: one that failed right after its start, while something else held one
    /// of its ports, could not bind it. That is not its failure, and it is retried soon.
    pub(super) fn end_without_port(&self, now: Time, instance: InstanceId, end: End) -> End {
        let failed = matches!(end, End::Exited { code } if code != 0);
        let Some(local) = self.tasks.get(&instance).filter(|_| failed) else { return end };
        let started = match &local.phase {
            Phase::Starting => Time::ZERO,
            Phase::Running(watch) if watch.health.is_starting(now, STARTING_FOR) => {
                watch.health.started
            }
            _ => return end,
        };
        let taken = |(name, port): &(PortName, u16)| {
            let seen = self.ports.seen.get(port)?;
            let held = seen.last >= started && now.since(seen.last) < SEEN_FOR;
            held.then(|| format!("port {port} ({name}) is taken by {}", seen.by))
        };
        let mut ports = local.launch.desired.machine_ports().iter();
        ports.find_map(taken).map_or(end, |reason| End::Lost { reason })
    }

    /// Ends tasks that hold ports of others, and records ports that other programs hold.
    pub(super) fn handle_ports(&mut self, now: Time, held: &[HeldPort], effects: &mut Vec<Effect>) {
        let mut offenders: BTreeMap<InstanceId, Vec<u16>> = BTreeMap::new();
        for HeldPort { port, by } in held {
            let id = match by {
                Holder::Other(name) => {
                    self.ports.record(now, *port, Arc::clone(name), None);
                    continue;
                }
                Holder::Instance(id) => id,
            };
            let local = self.tasks.get(id);
            if local.is_some_and(|local| local.launch.desired.address.is_some()) {
                // It has the port in its own network: who has the machine's is unknown.
                self.ports.record(now, *port, self.name_of(*id).into(), None);
                continue;
            }
            if !self.machine.ports.contains(*port)
                && local.is_none_or(|local| local.port_name(*port).is_none())
            {
                // It may have been allowed to bind it, as with net-bind-service.
                self.ports.record(now, *port, self.name_of(*id).into(), None);
                continue;
            }
            if local.is_none_or(|local| local.port_name(*port).is_none()) {
                let name = self.name_of(*id).into();
                self.ports.record(now, *port, name, local.map(|local| local.launch.instance));
                offenders.entry(*id).or_default().push(*port);
            }
        }
        for (id, ports) in offenders {
            let reason = self.rule_about(id, &ports);
            if let Some(local) = self.tasks.get_mut(&id) {
                let since = local.grabbed.as_ref().map_or(now, |(since, _)| *since);
                local.grabbed = Some((since, ports));
                let why = StopCause::BrokeRule(reason);
                local.end_by_rule(now, self.settings.kill_again, Rule::Port, why, effects);
            }
        }
        let tasks = &self.tasks;
        self.ports.forget(now, |task| tasks.get(&task).is_some_and(Local::is_here));
    }

    /// The reason given to an instance that holds these ports; a port of another task is named
    /// first.
    fn rule_about(&self, offender: InstanceId, ports: &[u16]) -> String {
        let owner = |port: &u16| {
            let mut others = self.tasks.values().filter(|local| local.launch.instance != offender);
            let owner = others.find(|local| local.is_here() && local.port_name(*port).is_some())?;
            Some((*port, self.name_of(owner.launch.instance)))
        };
        let what = match (ports.iter().find_map(owner), ports.first()) {
            (Some((port, owner)), _) => format!("port {port}, which is assigned to {owner}"),
            (None, first) => {
                format!("port {}, which is not assigned to it", first.copied().unwrap_or_default())
            }
        };
        let more = match ports.len() {
            0 | 1 => String::new(),
            count => format!(", and {} more", count - 1),
        };
        format!("it held {what}{more}: a task may hold only ports assigned to it")
    }

    /// `ana/web/3`, or the instance's id if the task is unknown.
    fn name_of(&self, instance: InstanceId) -> String {
        match self.tasks.get(&instance).map(|local| &local.launch.desired) {
            Some(desired) => format!("{}/{}/{}", desired.user, desired.job, instance.index),
            None => format!("the remains of {instance}"),
        }
    }
}

impl Local {
    /// The name of a port of the machine assigned to this task; `None` if the port is not.
    fn port_name(&self, port: u16) -> Option<&str> {
        let mut ports = self.launch.desired.machine_ports().iter();
        ports.find(|(_, own)| *own == port).map(|(name, _)| name.as_str())
    }

    /// The foreign ports that become free when it has ended, which is about to happen.
    pub(super) fn grabbed(&self, now: Time) -> &[u16] {
        match &self.grabbed {
            Some((since, ports)) if self.is_here() && now.since(*since) < ENDING_FOR => ports,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: PortRange = PortRange { first: 10, last: 19 };

    fn at(ms: u64) -> Time {
        Time(0) + Span::from_millis(ms)
    }

    fn shown(ports: &Ports, ms: u64) -> String {
        let reported = ports.reported(at(ms), RANGE);
        reported.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn neighbours_of_one_holder_are_one_group_within_the_range() {
        let mut ports = Ports::default();
        for (port, by) in
            [(9, "a"), (10, "a"), (11, "a"), (12, "b"), (14, "b"), (19, "a"), (20, "a")]
        {
            ports.record(at(0), port, by.into(), None);
        }
        assert_eq!(shown(&ports, 0), "10-11 by a, 12 by b, 14 by b, 19 by a");
    }

    #[test]
    fn a_static_port_that_a_start_found_in_use_is_reported_until_it_is_free() {
        let mut ports = Ports::default();
        ports.want(443);
        for port in [22, 443] {
            ports.record(at(0), port, "nginx".into(), None);
        }
        assert_eq!(shown(&ports, 0), "443 by nginx");
        ports.forget(at(10_000), |_| true);
        ports.record(at(10_000), 443, "nginx".into(), None);
        assert_eq!(shown(&ports, 10_000), "", "nobody wants it any more");
    }

    #[test]
    fn a_port_is_free_again_after_a_while_without_a_holder() {
        let mut ports = Ports::default();
        ports.record(at(0), 10, "a".into(), None);
        ports.record(at(4_000), 10, "b".into(), None);
        for (ms, expected) in [(13_999, "10 by b"), (14_000, "")] {
            ports.forget(at(ms), |_| true);
            assert_eq!(shown(&ports, ms), expected, "after {ms} ms");
        }
    }

    #[test]
    fn ports_of_an_ending_task_count_only_if_it_survives() {
        let mut ports = Ports::default();
        let incarnation = |generation: u32| format!("1-0-{generation}").parse::<InstanceId>().ok();
        for ms in [0, 1_000, 4_999] {
            ports.record(at(ms), 10, "ana/hog/0".into(), incarnation(1));
            assert_eq!(shown(&ports, ms), "", "after {ms} ms");
        }
        ports.record(at(5_000), 10, "ana/hog/0".into(), incarnation(1));
        assert_eq!(shown(&ports, 5_000), "10 by ana/hog/0");
        ports.forget(at(5_001), |_| false);
        assert_eq!(shown(&ports, 5_001), "", "it has ended");
    }

    #[test]
    fn tasks_that_are_ended_one_after_the_other_hold_nothing_for_long() {
        let mut ports = Ports::default();
        for second in 0..60 {
            let incarnation = format!("1-0-{second}").parse::<InstanceId>().ok();
            ports.record(at(second * 1_000), 10, "ana/hog/0".into(), incarnation);
            ports.forget(at(second * 1_000 + 900), |_| second % 2 == 0);
            assert_eq!(shown(&ports, second * 1_000 + 900), "", "after {second} s");
        }
    }

    #[test]
    fn the_report_has_an_end() {
        let mut ports = Ports::default();
        (1..2_000_u16).for_each(|port| ports.record(at(0), port * 2, "a".into(), None));
        let all = PortRange { first: 1, last: u16::MAX };
        assert_eq!(ports.reported(at(0), all).len(), REPORTED_MAX);
    }
}

//! Ports of the machine's range that something holds which they were not given to.
//!
//! The kernel lets every task bind every port. So the Borglet checks which task holds which port, and ends
//! a task that holds one that is not its own. It leaves other programs alone: it reports their ports with
//! what holds them, and the cell gives those ports to no task.

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;

use model::{End, FinalUsage, HeldPorts, InstanceId, PortRange, Span, Time};

use super::{Borglet, Effect, Local, Phase};

/// How long after it was last seen a port still counts as held: what opens and closes it again and
/// again would change the report each time.
const KEPT_FOR: Span = Span::from_secs(10);
/// How long a task that is being ended for it may hold a port before that is reported.
const ENDING_FOR: Span = Span::from_secs(5);
/// How many groups of neighbouring ports are reported.
const REPORTED_MAX: usize = 256;

/// A port of the machine's range, and what holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPort {
    /// The port.
    pub port: u16,
    /// What holds it.
    pub by: Holder,
}

/// What holds a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// An instance of this Borglet.
    Instance(InstanceId),
    /// Something else, as people read it: its control group and its program.
    Other(Arc<str>),
}

/// The ports that were seen held, and by whom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports {
    seen: BTreeMap<u16, Seen>,
}

#[derive(Clone, Debug)]
struct Seen {
    by: Arc<str>,
    since: Time,
    last: Time,
    /// It is a task, which is being ended.
    ends: Option<InstanceId>,
}

impl Ports {
    /// Something holds a port that it was not given: a task, which is ended for it, or something else.
    /// Each task has its own time to end: one after the other is not one that does not end.
    pub(crate) fn see(&mut self, now: Time, port: u16, by: Arc<str>, ends: Option<InstanceId>) {
        let new = Seen { by, since: now, last: now, ends };
        let before = self.seen.get(&port).filter(|before| before.ends == ends);
        let since = before.map_or(now, |before| before.since);
        self.seen.insert(port, Seen { since, ..new });
    }

    /// What nobody was seen to hold for long enough is free again; what a task held, as soon as that has
    /// ended.
    pub(crate) fn forget(&mut self, now: Time, is_here: impl Fn(InstanceId) -> bool) {
        self.seen.retain(|_, seen| {
            let is_gone = seen.last < now && seen.ends.is_some_and(|task| !is_here(task));
            !is_gone && now.since(seen.last) < KEPT_FOR
        });
    }

    /// What of a range is to be reported.
    pub(crate) fn reported(&self, now: Time, range: PortRange) -> Vec<HeldPorts> {
        let counts = |seen: &Seen| seen.ends.is_none() || now.since(seen.since) >= ENDING_FOR;
        let within = self.seen.iter().filter(|(port, seen)| range.contains(**port) && counts(seen));
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
    /// An instance was not started, as one of its ports is taken. It waits for the end of a task that
    /// holds it; what else holds it may do so for long: the cell gives the next life another port.
    pub(super) fn port_taken(
        &mut self,
        now: Time,
        instance: InstanceId,
        held: &HeldPort,
        effects: &mut Vec<Effect>,
    ) {
        let port = held.port;
        self.see_ports(now, slice::from_ref(held), effects);
        let ends = |local: &Local| local.grabbed(now).contains(&port);
        let holder = match &held.by {
            Holder::Instance(id) if self.tasks.get(id).is_some_and(ends) => {
                // The holder is being ended, and it is started then.
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

    /// Ends tasks that hold ports of others, and records ports that other programs hold.
    pub(super) fn see_ports(&mut self, now: Time, held: &[HeldPort], effects: &mut Vec<Effect>) {
        let mut offenders: BTreeMap<InstanceId, Vec<u16>> = BTreeMap::new();
        for HeldPort { port, by } in held {
            let id = match by {
                Holder::Other(name) => {
                    self.ports.see(now, *port, Arc::clone(name), None);
                    continue;
                }
                Holder::Instance(id) => id,
            };
            let local = self.tasks.get(id);
            if local.is_none_or(|local| local.port_name(*port).is_none()) {
                let name = self.name_of(*id).into();
                self.ports.see(now, *port, name, local.map(|local| local.launch.instance));
                offenders.entry(*id).or_default().push(*port);
            }
        }
        for (id, ports) in offenders {
            let reason = self.rule_about(id, &ports);
            if let Some(local) = self.tasks.get_mut(&id) {
                let since = local.grabbed.as_ref().map_or(now, |(since, _)| *since);
                local.grabbed = Some((since, ports));
                local.broke_rule(now, self.settings.kill_again, reason, effects);
            }
        }
        let tasks = &self.tasks;
        self.ports.forget(now, |task| tasks.get(&task).is_some_and(Local::is_here));
    }

    /// What an instance is told that holds these ports; one that is another's is named first.
    fn rule_about(&self, offender: InstanceId, ports: &[u16]) -> String {
        let owner = |port: &u16| {
            let mut others = self.tasks.values().filter(|local| local.launch.instance != offender);
            let owner = others.find(|local| local.is_here() && local.port_name(*port).is_some())?;
            Some((*port, self.name_of(owner.launch.instance)))
        };
        let what = match (ports.iter().find_map(owner), ports.first()) {
            (Some((port, owner)), _) => format!("port {port}, which is given to {owner}"),
            (None, first) => {
                format!("port {}, which it was not given", first.copied().unwrap_or_default())
            }
        };
        let more = match ports.len() {
            0 | 1 => String::new(),
            count => format!(", and {} more", count - 1),
        };
        format!("it held {what}{more}: a task may hold only ports that it was given")
    }

    /// `ana/web/3`, or what else there is to call it by.
    fn name_of(&self, instance: InstanceId) -> String {
        match self.tasks.get(&instance).map(|local| &local.launch.desired) {
            Some(desired) => format!("{}/{}/{}", desired.user, desired.job, instance.index),
            None => format!("what is left of {instance}"),
        }
    }
}

impl Local {
    /// What a port of its own is called; none where it was not given it.
    fn port_name(&self, port: u16) -> Option<&str> {
        let mut ports = self.launch.desired.ports.iter();
        ports.find(|(_, own)| *own == port).map(|(name, _)| name.as_str())
    }

    /// The ports of others that will be free when it has ended, as it will have at once.
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
            ports.see(at(0), port, by.into(), None);
        }
        assert_eq!(shown(&ports, 0), "10-11 by a, 12 by b, 14 by b, 19 by a");
    }

    #[test]
    fn a_port_is_free_again_when_nobody_was_seen_to_hold_it_for_a_while() {
        let mut ports = Ports::default();
        ports.see(at(0), 10, "a".into(), None);
        ports.see(at(4_000), 10, "b".into(), None);
        for (ms, expected) in [(13_999, "10 by b"), (14_000, "")] {
            ports.forget(at(ms), |_| true);
            assert_eq!(shown(&ports, ms), expected, "after {ms} ms");
        }
    }

    #[test]
    fn what_a_task_holds_that_is_being_ended_counts_only_if_it_lives_on() {
        let mut ports = Ports::default();
        let incarnation = |generation: u32| format!("1-0-{generation}").parse::<InstanceId>().ok();
        for ms in [0, 1_000, 4_999] {
            ports.see(at(ms), 10, "ana/hog/0".into(), incarnation(1));
            assert_eq!(shown(&ports, ms), "", "after {ms} ms");
        }
        ports.see(at(5_000), 10, "ana/hog/0".into(), incarnation(1));
        assert_eq!(shown(&ports, 5_000), "10 by ana/hog/0");
        ports.forget(at(5_001), |_| false);
        assert_eq!(shown(&ports, 5_001), "", "it has ended");
    }

    #[test]
    fn tasks_that_are_ended_one_after_the_other_hold_nothing_for_long() {
        let mut ports = Ports::default();
        for second in 0..60 {
            let incarnation = format!("1-0-{second}").parse::<InstanceId>().ok();
            ports.see(at(second * 1_000), 10, "ana/hog/0".into(), incarnation);
            ports.forget(at(second * 1_000 + 900), |_| second % 2 == 0);
            assert_eq!(shown(&ports, second * 1_000 + 900), "", "after {second} s");
        }
    }

    #[test]
    fn the_report_has_an_end() {
        let mut ports = Ports::default();
        (1..2_000_u16).for_each(|port| ports.see(at(0), port * 2, "a".into(), None));
        let all = PortRange { first: 1, last: u16::MAX };
        assert_eq!(ports.reported(at(0), all).len(), REPORTED_MAX);
    }
}

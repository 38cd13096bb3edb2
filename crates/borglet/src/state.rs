//! The state of a Borglet and its one step.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{End, InstanceId, MachineReport, Span, Stamp, Time};

use crate::health::{Verdict, Watch};
use crate::{Desired, Launch, Order, OrderRefused, Report, TaskReport, TaskStatus};

/// What a Borglet is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The first of the user ids that tasks run as; each instance has its own.
    pub first_uid: u32,
    /// How many user ids there are, and so how many instances can be here at once.
    pub uids: u32,
    /// How long after SIGKILL a task that is still there is killed again.
    pub kill_again: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self { first_uid: 200_000, uids: 10_000, kill_again: Span::from_secs(5) }
    }
}

/// Something that happened on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The moment alone: whatever is due by now is done.
    Tick,
    /// An instance's program runs.
    Started(InstanceId),
    /// An instance has ended, with everything it started.
    Ended(InstanceId, End),
    /// A health check was answered well, or not, with what was said.
    Checked(InstanceId, Result<(), String>),
    /// The machine is found to be something else than before.
    Machine(Arc<MachineReport>),
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write the stamp of the newest order to disk, before anything that follows.
    PersistStamp(Stamp),
    /// Start an instance; [`Input::Started`] or [`Input::Ended`] must follow.
    Start(Box<Launch>),
    /// Send SIGTERM.
    Terminate(InstanceId),
    /// Send SIGKILL to all of it.
    Kill(InstanceId),
    /// Ask an instance's health check; [`Input::Checked`] must follow, at the latest after the
    /// check's timeout.
    Check {
        /// Whose.
        instance: InstanceId,
        /// The port's number.
        port: u16,
        /// The path.
        path: String,
        /// How long the answer may take.
        timeout: Span,
    },
    /// Nobody needs an instance's record any more; its logs are kept for a while.
    Retire(InstanceId),
}

/// An instance that was found when the Borglet started: it outlived the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// How it had been started.
    pub launch: Launch,
    /// How it is.
    pub status: RecoveredStatus,
}

/// How an instance was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveredStatus {
    /// Being started; its start or end will be reported.
    Starting,
    /// Running since a moment; its end will be reported.
    Running(Time),
    /// Ended while nobody looked.
    Ended(End),
}

#[derive(Clone, Debug)]
struct Local {
    launch: Launch,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    /// It waits for somebody else's end, whose port it is to have.
    Waiting,
    Starting,
    Running(Watch),
    Stopping {
        next: Time,
        why: StopCause,
    },
    Ended(End),
}

#[derive(Clone, Debug)]
enum StopCause {
    NotDesired,
    Unhealthy(String),
}

/// A Borglet.
#[derive(Clone, Debug)]
pub struct Borglet {
    settings: Settings,
    machine: Arc<MachineReport>,
    stamp: Stamp,
    tasks: BTreeMap<InstanceId, Local>,
}

impl Borglet {
    /// A Borglet with what it finds on its machine: the newest order it had obeyed, and the
    /// instances that are still there.
    #[must_use]
    pub fn new(
        settings: Settings,
        machine: Arc<MachineReport>,
        stamp: Stamp,
        recovered: Vec<Recovered>,
    ) -> Self {
        let local = |found: Recovered| {
            let check = found.launch.desired.spec.health_check.as_ref();
            let phase = match found.status {
                RecoveredStatus::Starting => Phase::Starting,
                RecoveredStatus::Running(since) => Phase::Running(Watch::new(check, since)),
                RecoveredStatus::Ended(end) => Phase::Ended(end),
            };
            (found.launch.instance, Local { launch: found.launch, phase })
        };
        let tasks = recovered.into_iter().map(local).collect();
        Self { settings, machine, stamp, tasks }
    }

    /// Obeys an order: starts what is new in it, stops what is no longer in it.
    ///
    /// # Errors
    /// Where an order with a higher stamp has been obeyed; nothing is changed then.
    pub fn obey(
        &mut self,
        now: Time,
        order: Order,
        effects: &mut Vec<Effect>,
    ) -> Result<(), OrderRefused> {
        if order.stamp < self.stamp {
            return Err(OrderRefused { given: order.stamp, obeyed: self.stamp });
        }
        if order.stamp > self.stamp {
            self.stamp = order.stamp;
            effects.push(Effect::PersistStamp(order.stamp));
        }
        let desired: BTreeMap<InstanceId, Desired> =
            order.tasks.into_iter().map(|desired| (desired.instance, desired)).collect();
        self.retire_ended(&desired, effects);
        for (instance, local) in &mut self.tasks {
            if !desired.contains_key(instance) {
                local.stop(now, StopCause::NotDesired, effects);
            }
        }
        for (instance, desired) in desired {
            if !self.tasks.contains_key(&instance) {
                let launch = Launch::new(desired, self.free_uid());
                self.tasks.insert(instance, Local { launch, phase: Phase::Waiting });
            }
        }
        self.start_waiting(effects);
        Ok(())
    }

    /// Takes in what happened, and says what is to be done.
    pub fn step(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Tick => {}
            Input::Machine(report) => self.machine = report,
            Input::Started(instance) => self.started(now, instance),
            Input::Ended(instance, end) => self.ended(instance, end),
            Input::Checked(instance, answer) => self.checked(now, instance, answer, effects),
        }
        self.do_what_is_due(now, effects);
        self.start_waiting(effects);
    }

    /// Everything it knows.
    #[must_use]
    pub fn report(&self) -> Report {
        let task = |(instance, local): (&InstanceId, &Local)| {
            let status = match &local.phase {
                Phase::Waiting | Phase::Starting => TaskStatus::Starting,
                Phase::Running(watch) => TaskStatus::Running { healthy: watch.healthy },
                Phase::Stopping { .. } => TaskStatus::Stopping,
                Phase::Ended(end) => TaskStatus::Ended(end.clone()),
            };
            TaskReport { instance: *instance, status }
        };
        let tasks = self.tasks.iter().map(task).collect();
        Report { stamp: self.stamp, machine: Arc::clone(&self.machine), tasks }
    }

    /// When the next [`Input::Tick`] is due, if nothing else happens before.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        let due = |local: &Local| match &local.phase {
            Phase::Running(watch) => watch.next(),
            Phase::Stopping { next, .. } => Some(*next),
            _ => None,
        };
        self.tasks.values().filter_map(due).min()
    }

    /// How an instance here had been started; none where it is not here.
    #[must_use]
    pub fn launch(&self, instance: InstanceId) -> Option<&Launch> {
        self.tasks.get(&instance).map(|local| &local.launch)
    }

    fn retire_ended(&mut self, desired: &BTreeMap<InstanceId, Desired>, effects: &mut Vec<Effect>) {
        let gone = |local: &Local| matches!(local.phase, Phase::Waiting | Phase::Ended(_));
        self.tasks.retain(|instance, local| {
            let keep = desired.contains_key(instance) || !gone(local);
            if !keep && matches!(local.phase, Phase::Ended(_)) {
                effects.push(Effect::Retire(*instance));
            }
            keep
        });
    }

    /// A user id that no instance here has. When all are in use the last is shared, which the
    /// bound on instances of a machine keeps from happening.
    fn free_uid(&self) -> u32 {
        let first = self.settings.first_uid;
        let last = first.saturating_add(self.settings.uids.saturating_sub(1));
        let mut taken: Vec<u32> = self.tasks.values().map(|local| local.launch.uid).collect();
        taken.sort_unstable();
        (first..last).find(|uid| taken.binary_search(uid).is_err()).unwrap_or(last)
    }

    /// Starts those that waited for a port whose last owner has ended.
    fn start_waiting(&mut self, effects: &mut Vec<Effect>) {
        let in_use = |local: &&Local| !matches!(local.phase, Phase::Waiting | Phase::Ended(_));
        let mut taken: Vec<u16> =
            self.tasks.values().filter(in_use).flat_map(Local::ports).collect();
        for local in self.tasks.values_mut() {
            if matches!(local.phase, Phase::Waiting)
                && !local.ports().any(|port| taken.contains(&port))
            {
                taken.extend(local.ports());
                local.phase = Phase::Starting;
                effects.push(Effect::Start(Box::new(local.launch.clone())));
            }
        }
    }

    fn started(&mut self, now: Time, instance: InstanceId) {
        let Some(local) = self.tasks.get_mut(&instance) else { return };
        if let Phase::Starting = local.phase {
            let check = local.launch.desired.spec.health_check.as_ref();
            local.phase = Phase::Running(Watch::new(check, now));
        }
    }

    fn ended(&mut self, instance: InstanceId, end: End) {
        let Some(local) = self.tasks.get_mut(&instance) else { return };
        let end = match &local.phase {
            Phase::Waiting | Phase::Ended(_) => return,
            Phase::Stopping { why: StopCause::Unhealthy(reason), .. } => {
                End::Unhealthy { reason: reason.clone() }
            }
            // A program that finishes its work within its notice has finished.
            Phase::Stopping { why: StopCause::NotDesired, .. } => match end {
                End::Exited { code: 0 } => end,
                _ => End::Stopped,
            },
            Phase::Starting | Phase::Running(_) => end,
        };
        local.phase = Phase::Ended(end);
    }

    fn checked(
        &mut self,
        now: Time,
        instance: InstanceId,
        answer: Result<(), String>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(local) = self.tasks.get_mut(&instance) else { return };
        let Phase::Running(watch) = &mut local.phase else { return };
        let Some(check) = &local.launch.desired.spec.health_check else { return };
        let verdict = watch.answered(check, now, answer.is_ok());
        if let (Verdict::Hopeless, Err(said)) = (verdict, answer) {
            let reason = format!("GET {} → {said}", check.path);
            local.stop(now, StopCause::Unhealthy(reason), effects);
        }
    }

    fn do_what_is_due(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for (instance, local) in &mut self.tasks {
            match &mut local.phase {
                Phase::Running(watch) if watch.next().is_some_and(|next| next <= now) => {
                    let Some(check) = &local.launch.desired.spec.health_check else { continue };
                    let port = local.launch.desired.ports.iter();
                    let Some((_, port)) = port.clone().find(|(name, _)| *name == check.port) else {
                        continue;
                    };
                    watch.asked();
                    effects.push(Effect::Check {
                        instance: *instance,
                        port: *port,
                        path: check.path.clone(),
                        timeout: check.timeout,
                    });
                }
                Phase::Stopping { next, .. } if *next <= now => {
                    *next = now + self.settings.kill_again;
                    effects.push(Effect::Kill(*instance));
                }
                _ => {}
            }
        }
    }
}

impl Local {
    fn ports(&self) -> impl Iterator<Item = u16> {
        self.launch.desired.ports.iter().map(|(_, port)| *port)
    }

    /// Tells it to stop, once: SIGTERM now, SIGKILL when its notice is over.
    fn stop(&mut self, now: Time, why: StopCause, effects: &mut Vec<Effect>) {
        if let Phase::Starting | Phase::Running(_) = self.phase {
            effects.push(Effect::Terminate(self.launch.instance));
            let next = now + self.launch.desired.spec.notice;
            self.phase = Phase::Stopping { next, why };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{
        Appclass, Band, CellName, CollectionId, Generation, JobName, LogIndex, PortName, TaskIndex,
        Term, UserName,
    };
    use spec::{HealthCheck, TaskSpec};

    fn instance(index: u32) -> InstanceId {
        InstanceId {
            collection: CollectionId(1),
            index: TaskIndex(index),
            generation: Generation(1),
        }
    }

    fn desired(index: u32, port: u16) -> Desired {
        let name = PortName::new("http").expect("a name");
        let cmd = vec!["serve".to_owned(), "${port.http}".to_owned(), "${task.index}".to_owned()];
        let mut spec = TaskSpec::of(cmd);
        spec.health_check = Some(HealthCheck::on(name.clone()));
        Desired {
            instance: instance(index),
            cell: CellName::new("dev").expect("a name"),
            user: UserName::new("ana").expect("a name"),
            job: JobName::new("web").expect("a name"),
            priority: Band::Production.usual(),
            appclass: Appclass::LatencySensitive,
            spec: Arc::new(spec),
            ports: vec![(name, port)],
        }
    }

    fn order(index: u64, tasks: &[(u32, u16)]) -> Order {
        let stamp = Stamp { restore_epoch: 0, term: Term(1), index: LogIndex(index) };
        Order { stamp, tasks: tasks.iter().map(|(index, port)| desired(*index, *port)).collect() }
    }

    /// A Borglet and a clock, with effects and states written as words.
    struct World {
        borglet: Borglet,
        now: Time,
    }

    impl World {
        fn new() -> Self {
            let machine = Arc::default();
            let borglet = Borglet::new(Settings::default(), machine, Stamp::default(), vec![]);
            Self { borglet, now: Time(1_000_000) }
        }

        fn order(&mut self, index: u64, tasks: &[(u32, u16)]) -> String {
            let mut effects = Vec::new();
            match self.borglet.obey(self.now, order(index, tasks), &mut effects) {
                Ok(()) => words(&effects),
                Err(_) => "refused".to_owned(),
            }
        }

        fn input(&mut self, input: Input) -> String {
            let mut effects = Vec::new();
            self.borglet.step(self.now, input, &mut effects);
            words(&effects)
        }

        fn after(&mut self, ms: u64) -> String {
            self.now = self.now + Span::from_millis(ms);
            self.input(Input::Tick)
        }

        fn state(&self) -> String {
            let task = |task: TaskReport| format!("{}: {:?}", task.instance.index, task.status);
            self.borglet.report().tasks.into_iter().map(task).collect::<Vec<_>>().join(", ")
        }
    }

    fn words(effects: &[Effect]) -> String {
        let word = |effect: &Effect| match effect {
            Effect::PersistStamp(stamp) => format!("persist {}", stamp.index),
            Effect::Start(launch) => {
                format!("start {} [{}] as {}", launch.instance, launch.argv.join(" "), launch.uid)
            }
            Effect::Terminate(instance) => format!("terminate {instance}"),
            Effect::Kill(instance) => format!("kill {instance}"),
            Effect::Check { instance, port, path, .. } => format!("check {instance} {port}{path}"),
            Effect::Retire(instance) => format!("retire {instance}"),
        };
        effects.iter().map(word).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_task_is_started_checked_stopped_and_retired() {
        let mut world = World::new();
        let started = world.order(5, &[(0, 31000)]);
        assert_eq!(started, "persist 5, start 1-0-1 [serve 31000 0] as 200000");
        assert_eq!(world.order(5, &[(0, 31000)]), "", "an order is not executed twice");
        assert_eq!(world.input(Input::Started(instance(0))), "");
        assert_eq!(world.state(), "0: Running { healthy: None }");
        assert_eq!(world.after(10), "check 1-0-1 31000/");
        assert_eq!(world.after(10_000), "", "one check at a time");
        assert_eq!(world.input(Input::Checked(instance(0), Ok(()))), "");
        assert_eq!(world.state(), "0: Running { healthy: Some(true) }");
        assert_eq!(world.order(6, &[]), "persist 6, terminate 1-0-1");
        assert_eq!(world.after(9_999), "");
        assert_eq!(world.after(1), "kill 1-0-1");
        assert_eq!(world.after(5_000), "kill 1-0-1", "and again while it is still there");
        assert_eq!(world.input(Input::Ended(instance(0), End::Signalled { signal: 9 })), "");
        assert_eq!(world.state(), "0: Ended(Stopped)");
        assert_eq!(world.order(7, &[]), "persist 7, retire 1-0-1");
        assert_eq!(world.state(), "");
    }

    #[test]
    fn an_older_order_is_refused_and_changes_nothing() {
        let mut world = World::new();
        world.order(5, &[(0, 31000)]);
        assert_eq!(world.order(4, &[(1, 31001)]), "refused");
        assert_eq!(world.state(), "0: Starting");
    }

    #[test]
    fn an_unhealthy_task_is_stopped_and_says_why() {
        let mut world = World::new();
        world.order(5, &[(0, 31000)]);
        world.input(Input::Started(instance(0)));
        world.after(10);
        world.input(Input::Checked(instance(0), Ok(())));
        for failure in 1..=3 {
            assert_eq!(world.after(1_000), "check 1-0-1 31000/");
            let stopped = world.input(Input::Checked(instance(0), Err("500".to_owned())));
            assert_eq!(stopped, if failure == 3 { "terminate 1-0-1" } else { "" });
        }
        world.input(Input::Ended(instance(0), End::Exited { code: 0 }));
        assert_eq!(world.state(), "0: Ended(Unhealthy { reason: \"GET / → 500\" })");
    }

    #[test]
    fn a_task_waits_for_its_port_until_the_last_owner_has_ended() {
        let mut world = World::new();
        world.order(5, &[(0, 31000)]);
        world.input(Input::Started(instance(0)));
        assert_eq!(world.order(6, &[(1, 31000)]), "persist 6, terminate 1-0-1");
        let ended = world.input(Input::Ended(instance(0), End::Exited { code: 0 }));
        assert_eq!(ended, "start 1-1-1 [serve 31000 1] as 200001");
    }

    #[test]
    fn one_that_still_waits_is_dropped_without_having_been_started() {
        let mut world = World::new();
        world.order(5, &[(0, 31000)]);
        world.order(6, &[(1, 31000)]);
        assert_eq!(world.order(7, &[]), "persist 7");
        assert_eq!(world.state(), "0: Stopping");
    }

    #[test]
    fn what_outlived_the_last_borglet_is_adopted() {
        let launch = |index| Launch::new(desired(index, 31000), 200_000 + index);
        let recovered = vec![
            Recovered { launch: launch(0), status: RecoveredStatus::Running(Time::ZERO) },
            Recovered {
                launch: launch(1),
                status: RecoveredStatus::Ended(End::Exited { code: 7 }),
            },
        ];
        let stamp = Stamp { restore_epoch: 0, term: Term(1), index: LogIndex(9) };
        let settings = Settings::default();
        let borglet = Borglet::new(settings, Arc::default(), stamp, recovered);
        let mut world = World { borglet, now: Time(1_000_000) };
        assert_eq!(world.state(), "0: Running { healthy: None }, 1: Ended(Exited { code: 7 })");
        assert_eq!(world.order(8, &[]), "refused", "the newest stamp outlived it too");
        let next = world.order(9, &[(0, 31000), (2, 31002)]);
        assert_eq!(next, "retire 1-1-1, start 1-2-1 [serve 31002 2] as 200001");
    }

    #[test]
    fn the_environment_names_the_task_and_its_ports() {
        let mut desired = desired(3, 31000);
        Arc::make_mut(&mut desired.spec).env.insert("PORT".to_owned(), "mine".to_owned());
        let env = Launch::new(desired, 1).env;
        let lines: Vec<String> =
            env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = [
            "BORG_CELL=dev",
            "BORG_USER=ana",
            "BORG_JOB=web",
            "BORG_TASK=3",
            "PORT_HTTP=31000",
            "PORT=mine",
        ];
        assert_eq!(lines, expected);
    }
}

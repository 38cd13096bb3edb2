//! The environment of scenario scripts: a world, and the measurements in it.

use std::sync::Arc;

use cell::{Cell, EventKind, EvictionCause, Job, TaskState};
use model::{InstanceId, Span, Time, UserName};
use replica::Codec;
use script::Request;

use super::{Figure, Played, Scenario};
use crate::injected_bug::InjectedBug;
use crate::load::Nothing;
use crate::log_observer::Checking;
use crate::network::{Disturbance, Nodes, Trouble};
use crate::program::{Commands, Programs};
use crate::world::{Setting, World, capacity, machines};

/// The parameters of a scenario run.
pub(super) struct Parameters<C> {
    pub(super) seed: u64,
    pub(super) injected_bug: Option<InjectedBug>,
    pub(super) codec: C,
}

/// The parameters of a scenario's world.
pub(super) struct WorldSetup {
    pub(super) machines: usize,
    pub(super) settings: replica::Settings,
    pub(super) programs: Box<dyn Programs>,
}

impl WorldSetup {
    /// This many machines of [`SLOTS`] slots each, in racks of four, and defaults for everything
    /// else.
    pub(super) fn of(machines: usize) -> Self {
        Self { machines, settings: replica::Settings::default(), programs: Box::new(Commands) }
    }
}

/// Number of slots per machine: a slot is a core and 4 GiB.
pub(super) const SLOTS: u64 = 8;
/// The resolution of waiting.
const LOOK: Span = Span::from_millis(100);

/// A world with a script.
pub(super) struct Stage<C: Codec> {
    pub(super) world: World<C>,
    figures: Vec<Figure>,
    failure: Option<String>,
    disturbances: usize,
}

impl<C: Codec> Stage<C> {
    /// Sets up the world and waits until all its machines are up.
    pub(super) fn new(parameters: Parameters<C>, setup: WorldSetup) -> Self {
        let users = ["root", "ana", "bob"];
        let setting = Setting {
            seed: parameters.seed,
            machines: machines(setup.machines, 4, capacity(SLOTS, SLOTS * 4)),
            replicas: 1,
            replica: setup.settings,
            checking: Checking::Every { full: 1_000 },
            checkpoint_every: 500,
            injected_bug: parameters.injected_bug,
            users: users.iter().filter_map(|name| UserName::new(name).ok()).collect(),
        };
        let world =
            World::new(setting, parameters.codec, Box::new(Nothing), setup.programs, Vec::new());
        let mut stage = Self { world, figures: Vec::new(), failure: None, disturbances: 0 };
        stage.world.invariants.keep_events();
        let up = |cell: &Cell| {
            cell.machines().filter(|machine| machine.state == cell::MachineState::Up).count()
        };
        let count = setup.machines;
        stage.wait_until("seconds until every machine is up", 60, move |cell| up(cell) == count);
        stage
    }

    /// The result of the scenario.
    pub(super) fn finish(self, scenario: Scenario) -> Played {
        let judged = self.world.violation().map(str::to_owned);
        let beyond = self.figures.iter().find(|figure| figure.is > figure.most);
        let beyond = beyond.map(ToString::to_string);
        Played {
            scenario,
            digest: self.world.digest(),
            counts: self.world.counts(),
            age: self.world.age(),
            figures: self.figures,
            failure: judged.or(self.failure).or(beyond),
        }
    }

    /// Records a measured value and its maximum.
    pub(super) fn figure(&mut self, what: &'static str, is: u64, most: u64) {
        self.figures.push(Figure { what, is, most });
    }

    /// Asserts a condition.
    pub(super) fn require(&mut self, is: bool, else_what: impl FnOnce() -> String) {
        if !is && self.failure.is_none() {
            self.failure = Some(else_what());
        }
    }

    pub(super) fn passes(&mut self, span: Span) {
        let end = self.world.age() + span;
        self.world.run_to(end);
    }

    /// Waits until the cell satisfies a condition, for at most a number of seconds; the time it
    /// took is recorded.
    pub(super) fn wait_until(&mut self, what: &'static str, most: u64, is: impl Fn(&Cell) -> bool) {
        self.comes_in_world(what, most, |world| world.cell().is_some_and(&is));
    }

    /// Waits until the world has settled, for at most a number of seconds.
    pub(super) fn wait_until_settled(&mut self, what: &'static str, most: u64) {
        self.comes_in_world(what, most, |world| world.unsettled().is_none());
        if let Some(unrest) = self.world.unsettled() {
            self.require(false, || format!("{what}: {unrest}"));
        }
    }

    fn comes_in_world(
        &mut self,
        what: &'static str,
        most: u64,
        mut is: impl FnMut(&mut World<C>) -> bool,
    ) {
        let begin = self.world.now();
        let took = |now: Time| now.since(begin);
        while !is(&mut self.world) {
            if self.world.violation().is_some() || took(self.world.now()) > Span::from_secs(most) {
                break;
            }
            self.passes(LOOK);
        }
        let took = took(self.world.now()).as_millis().div_ceil(1_000);
        self.figure(what, took, most);
    }

    /// Sends a user's request, given as a line of the script language.
    pub(super) fn ask(&mut self, line: &str) {
        match script::request(line) {
            Ok(Request { by, mutation }) => {
                let is_client = self.world.ask_as(&by, mutation);
                self.require(is_client, || format!("'{line}': {by} is no client"));
            }
            Err(error) => self.require(false, || format!("'{line}': {error}")),
        }
    }

    /// Submits a job of ana's, given the number of slots per task and the behaviour of its program.
    pub(super) fn submit(
        &mut self,
        name: &str,
        priority: u16,
        tasks: u32,
        slots: u64,
        words: &str,
    ) {
        let (cpu, ram) = (slots * 1_000, slots * 4_096);
        self.ask(&format!(
            "submit ana/{name} {tasks} priority={priority} cpu={cpu} ram={ram} failures=10 \
             cmd=\"run {words}\""
        ));
    }

    /// Disturbs the network between the master and others; returns the number that ends it.
    pub(super) fn disturb(&mut self, others: Nodes, trouble: Trouble) -> usize {
        self.disturbances += 1;
        let from = Nodes::MASTERS;
        let disturbance = Disturbance { from, to: others, both_ways: true, trouble };
        self.world.disturb(self.disturbances, disturbance);
        self.disturbances
    }

    /// Number of matching task events since a given time.
    pub(super) fn task_events(
        &self,
        since: Time,
        is: impl Fn(InstanceId, &EventKind) -> bool,
    ) -> u64 {
        let told = self.world.invariants.told();
        let told = told.iter().skip_while(|(at, _)| *at < since);
        let of_task = |event: &cell::Event| match event.subject {
            cell::Subject::Task(id) => is(id, &event.kind),
            _ => false,
        };
        told.filter(|(_, event)| of_task(event)).count() as u64
    }

    /// Number of matching other events since a given time.
    pub(super) fn other_events(&self, since: Time, is: impl Fn(&EventKind) -> bool) -> u64 {
        let told = self.world.invariants.told();
        let told = told.iter().skip_while(|(at, _)| *at < since);
        let of_others = |event: &cell::Event| {
            !matches!(event.subject, cell::Subject::Task(_)) && is(&event.kind)
        };
        told.filter(|(_, event)| of_others(event)).count() as u64
    }

    /// Number of tasks that left their machines since a given time without being killed.
    pub(super) fn moved(&self, since: Time) -> u64 {
        self.task_events(since, |_, kind| {
            matches!(
                kind,
                EventKind::Evict { .. } | EventKind::Lost { .. } | EventKind::Fail { .. }
            )
        })
    }
}

/// The newest job of a name.
pub(super) fn named<'a>(cell: &'a Cell, name: &str) -> Option<&'a Arc<Job>> {
    cell.jobs().filter(|job| job.spec.name.as_str() == name).last()
}

/// Number of tasks of a job that run and are not being stopped.
pub(super) fn running(cell: &Cell, name: &str) -> usize {
    let runs = |state: &TaskState| match state {
        TaskState::Running(placed) => {
            placed.stop.is_none() && matches!(placed.phase, cell::Phase::Started { .. })
        }
        _ => false,
    };
    let job = named(cell, name);
    job.map_or(0, |job| job.tasks().filter(|(_, task)| runs(&task.state)).count())
}

/// Whether a task was preempted.
pub(super) fn preempted(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Evict { cause: EvictionCause::Preempted { .. } })
}

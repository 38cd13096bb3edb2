//! What scripts are played on: a world, and what is looked at in it.

use std::sync::Arc;

use cell::{Cell, EventKind, EvictionCause, Job, TaskState};
use model::{InstanceId, Span, Time, UserName};
use replica::Codec;
use script::Request;

use super::{Figure, Played, Scenario};
use crate::injected_bug::InjectedBug;
use crate::load::Nothing;
use crate::network::{Disturbance, Nodes, Trouble};
use crate::program::{Commands, Programs};
use crate::tap::Checking;
use crate::world::{Setting, World, capacity, machines};

/// With what a scenario is played.
pub(super) struct Cast<C> {
    pub(super) seed: u64,
    pub(super) injected_bug: Option<InjectedBug>,
    pub(super) codec: C,
}

/// How a world is furnished.
pub(super) struct Scene {
    pub(super) machines: usize,
    pub(super) settings: replica::Settings,
    pub(super) programs: Box<dyn Programs>,
}

impl Scene {
    /// So many machines of [`SLOTS`] slots each, in racks of four, and everything else as usual.
    pub(super) fn of(machines: usize) -> Self {
        Self { machines, settings: replica::Settings::default(), programs: Box::new(Commands) }
    }
}

/// How many slots a machine has: a slot is a core and 4 GiB.
pub(super) const SLOTS: u64 = 8;
/// How finely it is looked when something has come to pass.
const LOOK: Span = Span::from_millis(100);

/// A world with a script.
pub(super) struct Stage<C: Codec> {
    pub(super) world: World<C>,
    figures: Vec<Figure>,
    failure: Option<String>,
    disturbances: usize,
}

impl<C: Codec> Stage<C> {
    /// The world, once all its machines are up.
    pub(super) fn set(cast: Cast<C>, scene: Scene) -> Self {
        let users = ["root", "ana", "bob"];
        let setting = Setting {
            seed: cast.seed,
            machines: machines(scene.machines, 4, capacity(SLOTS, SLOTS * 4)),
            replicas: 1,
            replica: scene.settings,
            checking: Checking::Every { full: 1_000 },
            checkpoint_every: 500,
            injected_bug: cast.injected_bug,
            users: users.iter().filter_map(|name| UserName::new(name).ok()).collect(),
        };
        let world = World::new(setting, cast.codec, Box::new(Nothing), scene.programs, Vec::new());
        let mut stage = Self { world, figures: Vec::new(), failure: None, disturbances: 0 };
        stage.world.invariants.keep_events();
        let up = |cell: &Cell| {
            cell.machines().filter(|machine| machine.state == cell::MachineState::Up).count()
        };
        let count = scene.machines;
        stage.comes("seconds until every machine is up", 60, move |cell| up(cell) == count);
        stage
    }

    /// What became of it.
    pub(super) fn curtain(self, scenario: Scenario) -> Played {
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

    /// Something that was counted, and may be so much at most.
    pub(super) fn figure(&mut self, what: &'static str, is: u64, most: u64) {
        self.figures.push(Figure { what, is, most });
    }

    /// Something that must be so.
    pub(super) fn must(&mut self, is: bool, else_what: impl FnOnce() -> String) {
        if !is && self.failure.is_none() {
            self.failure = Some(else_what());
        }
    }

    pub(super) fn passes(&mut self, span: Span) {
        let end = self.world.age() + span;
        self.world.run_to(end);
    }

    /// Waits until the cell is so, at most so many seconds; how many it took is a figure.
    pub(super) fn comes(&mut self, what: &'static str, most: u64, is: impl Fn(&Cell) -> bool) {
        self.comes_in_world(what, most, |world| world.cell().is_some_and(&is));
    }

    /// Waits until the world has come to rest, at most so many seconds.
    pub(super) fn rests(&mut self, what: &'static str, most: u64) {
        self.comes_in_world(what, most, |world| world.unsettled().is_none());
        if let Some(unrest) = self.world.unsettled() {
            self.must(false, || format!("{what}: {unrest}"));
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

    /// A user's request, as a line of the script language.
    pub(super) fn ask(&mut self, line: &str) {
        match script::request(line) {
            Ok(Request { by, mutation }) => {
                let is_client = self.world.ask_as(&by, mutation);
                self.must(is_client, || format!("'{line}': {by} is no client"));
            }
            Err(error) => self.must(false, || format!("'{line}': {error}")),
        }
    }

    /// Ana submits a job of tasks that take so many slots each, and run with these words.
    pub(super) fn submit(
        &mut self,
        name: &str,
        priority: u16,
        (tasks, slots): (u32, u64),
        words: &str,
    ) {
        let (cpu, ram) = (slots * 1_000, slots * 4_096);
        self.ask(&format!(
            "submit ana/{name} {tasks} priority={priority} cpu={cpu} ram={ram} failures=10 \
             cmd=\"run {words}\""
        ));
    }

    /// Disturbs the network between the master and others; gives by what that ends.
    pub(super) fn disturb(&mut self, others: Nodes, trouble: Trouble) -> usize {
        self.disturbances += 1;
        let from = Nodes::MASTERS;
        let disturbance = Disturbance { from, to: others, both_ways: true, trouble };
        self.world.disturb(self.disturbances, disturbance);
        self.disturbances
    }

    /// How often something happened to tasks since a moment.
    pub(super) fn happened(&self, since: Time, is: impl Fn(InstanceId, &EventKind) -> bool) -> u64 {
        let told = self.world.invariants.told();
        let told = told.iter().skip_while(|(at, _)| *at < since);
        let of_task = |event: &cell::Event| match event.subject {
            cell::Subject::Task(id) => is(id, &event.kind),
            _ => false,
        };
        told.filter(|(_, event)| of_task(event)).count() as u64
    }

    /// How often something happened to anything else since a moment.
    pub(super) fn befell(&self, since: Time, is: impl Fn(&EventKind) -> bool) -> u64 {
        let told = self.world.invariants.told();
        let told = told.iter().skip_while(|(at, _)| *at < since);
        let of_others = |event: &cell::Event| {
            !matches!(event.subject, cell::Subject::Task(_)) && is(&event.kind)
        };
        told.filter(|(_, event)| of_others(event)).count() as u64
    }

    /// How many tasks left their machines since a moment though nobody killed them.
    pub(super) fn moved(&self, since: Time) -> u64 {
        self.happened(since, |_, kind| {
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

/// How many tasks of a job run and are not being stopped.
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

/// Whether a task had to make room for another one.
pub(super) fn preempted(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Evict { cause: EvictionCause::Preempted { .. } })
}

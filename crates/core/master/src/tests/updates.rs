//! Updates from their opening to their end, with a machine whose tasks do as their programs say.

use cell::{ControlUpdate, Death, Job, Phase, ResizeJob, TaskState, UpdateAction, UpdateState};
use model::Appclass;

use super::*;

/// How often the machine and the leader have their turn.
const TURN: Span = Span::from_millis(100);
const WEB: CollectionId = CollectionId(1);

/// A service whose tasks run a program: `good` runs, `bad` ends with exit code 1.
fn service(tasks: u32, program: &str) -> JobSpec {
    let name = model::JobName::new("web").expect("a name");
    let mut spec = JobSpec::of(
        name,
        model::Band::Production.usual(),
        tasks,
        TaskSpec::of(program.split(' ').map(str::to_owned).collect()),
    );
    spec.appclass = Appclass::LatencySensitive;
    spec.update.healthy_for = Span::from_secs(1);
    spec.update.healthy_within = Span::from_secs(5);
    spec.restart.failures_max = None;
    spec
}

/// The same with three tasks, one of which may be down in an update.
fn stops_first(program: &str) -> JobSpec {
    let mut spec = service(3, program);
    spec.disruptions.at_once = Some(1);
    spec
}

impl World {
    /// A cell with a machine that is up and runs this service.
    fn serving(spec: JobSpec) -> Self {
        let mut world = Self::new();
        world.tick();
        world.answer(true, 3, &[]);
        world.submit_spec(spec);
        world.passes(Span::from_secs(3));
        world
    }

    fn web(&self) -> &Job {
        self.cell.job(WEB).expect("the job")
    }

    fn state(&self) -> &UpdateState {
        &self.web().update.as_ref().expect("an update").state
    }

    /// Time passes: pending tasks are placed, and the machine does as it is told.
    fn passes(&mut self, time: Span) {
        let until = self.now + time;
        while self.now < until {
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.now = self.now + TURN;
        self.lead();
        self.said();
        let job = Arc::clone(self.cell.job(WEB).expect("the job"));
        for (index, task) in job.tasks() {
            let instance = job.instance(index).expect("its instance");
            match &task.state {
                TaskState::Pending { not_before, .. } if *not_before <= self.now => {
                    let (machine, ports, victims) = (M1, Vec::new(), Vec::new());
                    let (address, alloc) = (None, None);
                    let assign = Assignment { address, instance, alloc, machine, ports, victims };
                    // It may not fit.
                    self.apply(&Op::assign(vec![assign]));
                }
                TaskState::Running(placement) => {
                    let usage = model::FinalUsage::UNMEASURED;
                    let ended = |end| Observation::Ended { instance, end, usage };
                    let program = &job.described(index).task(index).cmd[0];
                    let seen = match placement.phase {
                        _ if placement.stop.is_some() => ended(End::Stopped),
                        Phase::Starting => Observation::started(instance),
                        _ if program == "bad" => ended(End::Exited { code: 1 }),
                        Phase::Started { at, health: cell::Health::Unknown, .. }
                            if self.now.since(at) >= Span::from_secs(1) =>
                        {
                            let (healthy, check) = (true, String::new());
                            Observation::Health { instance, healthy, check }
                        }
                        _ => continue,
                    };
                    self.apply(&Op::Observe { machine: M1, observations: vec![seen] });
                }
                _ => {}
            }
        }
    }

    /// Waits for the end of the update.
    fn ends(&mut self) -> &UpdateState {
        let until = self.now + Span::from_secs(300);
        while matches!(self.state(), UpdateState::Rolling | UpdateState::Undoing { .. }) {
            assert!(self.now < until, "it never ends: {:?}", self.web());
            self.turn();
        }
        // What was removed has ended.
        self.passes(Span::from_secs(1));
        self.state()
    }

    fn succeeds(&mut self) {
        let state = self.ends().clone();
        assert!(matches!(state, UpdateState::Succeeded { .. }), "{state:?}");
    }

    fn is_undone(&mut self) {
        let state = self.ends().clone();
        assert!(matches!(state, UpdateState::Undone { .. }), "{state:?}");
    }

    fn resize(&mut self, tasks: u32) {
        let owner = UserName::new("ana").expect("a name");
        let job = model::JobName::new("web").expect("a name");
        self.request(ResizeJob { owner, job, tasks, expected: None }.into());
    }

    fn control(&mut self, action: UpdateAction) {
        let owner = UserName::new("ana").expect("a name");
        let job = model::JobName::new("web").expect("a name");
        self.request(ControlUpdate { owner, job, action, to: None, expected: None }.into());
    }

    /// The programs of the tasks that are not dead, each with whether it is up.
    fn programs(&self) -> Vec<(String, bool)> {
        let job = self.web();
        let alive = |task: &cell::Task| !matches!(task.state, TaskState::Dead { .. });
        let tasks = job.tasks().filter(|(_, task)| alive(task));
        tasks
            .map(|(index, task)| {
                let program = job.described(index).task(index).cmd.join(" ");
                (program, task.up_since().is_some())
            })
            .collect()
    }

    #[track_caller]
    fn all_run(&self, tasks: usize, program: &str) {
        assert_eq!(self.programs(), vec![(program.to_owned(), true); tasks], "{:?}", self.web());
    }

    /// The version of each task that is not dead.
    fn versions(&self) -> BTreeSet<u32> {
        let dead = |task: &cell::Task| matches!(task.state, TaskState::Dead { .. });
        let tasks = self.web().tasks().filter(|(_, task)| !dead(task));
        tasks.map(|(_, task)| task.version.0).collect()
    }
}

/// It is known after a second that it serves, and then it has served since it began: a second of
/// `healthyFor` has passed.
#[test]
fn a_task_without_a_health_check_is_up_since_it_began() {
    let world = World::serving(service(1, "good"));
    let task = world.web().task(TaskIndex(0)).expect("its task");
    let TaskState::Running(placement) = &task.state else { panic!("{task:?}") };
    let Phase::Started { at, health, .. } = placement.phase else { panic!("{placement:?}") };
    assert_eq!(health, cell::Health::Healthy);
    assert_eq!(task.up_since(), Some(at));
}

#[test]
fn an_undo_goes_to_the_last_version_that_succeeded() {
    for first in ["good 1", "bad"] {
        let mut world = World::serving(service(3, first));
        for second in ["good 2", "good 3"] {
            world.submit_spec(service(3, second));
            world.succeeds();
            for failing in ["bad", "bad 2"] {
                world.submit_spec(service(3, failing));
                world.is_undone();
                world.all_run(3, second);
            }
        }
        // Not to one that was replaced before it had succeeded.
        world.submit_spec(service(3, "good 4"));
        world.turn();
        world.submit_spec(service(3, "bad"));
        world.is_undone();
        world.all_run(3, "good 3");
    }
}

#[test]
fn an_undo_skips_versions_that_succeeded_on_some_tasks_only() {
    let mut world = World::serving(service(3, "good 1"));
    let some = |program: &str, tasks| cell::UpdateJob {
        owner: UserName::new("ana").expect("a name"),
        spec: Arc::new(service(3, program)),
        tasks,
        policy: None,
        expected: None,
    };
    world.request(some("good 2", TaskSelection::Some(vec![(TaskIndex(0), TaskIndex(0))])).into());
    world.succeeds();
    world.submit_spec(service(3, "bad"));
    world.is_undone();
    world.all_run(3, "good 1");
    let all = TaskSelection::Some(vec![(TaskIndex(0), TaskIndex(2))]);
    world.request(some("good 2", all).into());
    world.succeeds();
    world.submit_spec(service(3, "bad"));
    world.is_undone();
    world.all_run(3, "good 2");
}

#[test]
fn an_update_that_fails_leaves_the_number_of_tasks() {
    for (size, resized) in [(2, 6), (6, 2)] {
        let mut world = World::serving(service(size, "good 1"));
        world.resize(resized);
        world.succeeds();
        world.submit_spec(service(resized, "bad"));
        world.is_undone();
        world.all_run(resized as usize, "good 1");
        // A number that somebody else's update of some tasks had before.
        let owner = UserName::new("ana").expect("a name");
        let tasks = TaskSelection::Some(vec![(TaskIndex(0), TaskIndex(0))]);
        let spec = Arc::new(service(resized, "good 2"));
        world.request(cell::UpdateJob { owner, spec, tasks, policy: None, expected: None }.into());
        world.succeeds();
        world.resize(size);
        world.succeeds();
        world.submit_spec(service(size, "bad"));
        world.is_undone();
        world.all_run(size as usize, "good 1");
    }
}

/// At every moment, up and down, and whether or not the version works.
#[test]
fn an_update_goes_on_with_another_number_of_tasks() {
    for moment in 0..40 {
        for (size, program) in [(7, "good 2"), (3, "good 2"), (7, "bad"), (3, "bad")] {
            for by_file in [false, true] {
                let mut world = World::serving(service(5, "good 1"));
                world.submit_spec(service(5, program));
                world.passes(Span(TURN.0 * moment));
                let rolls = *world.state() == UpdateState::Rolling;
                match by_file {
                    true => world.submit_spec(service(size, program)),
                    false => world.resize(size),
                }
                let ended = world.ends().clone();
                let succeeded = matches!(ended, UpdateState::Succeeded { .. });
                let what = format!("{moment} {size} {program} {by_file} {rolls} {ended:?}");
                let good = program != "bad" || !by_file && !rolls;
                assert_eq!(succeeded, good, "{what}");
                assert_eq!(world.versions().len(), 1, "{what}: {:?}", world.web());
                let runs = if program == "bad" { "good 1" } else { program };
                // What a file says is undone with it.
                let tasks = if by_file && !good { 5 } else { size };
                world.all_run(tasks as usize, runs);
            }
        }
    }
}

#[test]
fn a_paused_update_stays_paused_with_another_number_of_tasks() {
    let mut world = World::serving(stops_first("good 1"));
    world.submit_spec(stops_first("good 2"));
    world.passes(Span::from_millis(500));
    world.control(UpdateAction::Pause);
    world.resize(5);
    assert!(matches!(world.state(), UpdateState::Paused { .. }), "{:?}", world.state());
    world.passes(Span::from_secs(10));
    let before = world.programs().iter().filter(|(program, _)| program == "good 1").count();
    assert_eq!(before, 2, "{:?}", world.programs());
    world.control(UpdateAction::Resume);
    world.succeeds();
    world.all_run(5, "good 2");
}

#[test]
fn an_undo_continues_without_a_task_that_stays_unhealthy() {
    for at_once in [None, Some(0), Some(2)] {
        let with_budget = |program: &str| {
            let mut spec = service(3, program);
            spec.disruptions.at_once = at_once;
            spec
        };
        let mut world = World::serving(with_budget("bad"));
        let mut spec = with_budget("good 2");
        spec.update.healthy_within = Span::from_secs(8);
        world.submit_spec(spec);
        world.succeeds();
        world.control(UpdateAction::Undo);
        world.is_undone();
        let job = world.web();
        let update = job.update.as_ref().expect("an update");
        for (index, task) in job.tasks().filter(|(index, _)| index.0 < 3) {
            assert_eq!(job.described(index).task(index).cmd, ["bad"], "{task:?}");
            let left = update.changing.contains_key(&index) || job.is_to_change(index);
            assert!(!left && task.up_since().is_none(), "{task:?}");
        }
    }
}

#[test]
fn another_description_replaces_an_undo() {
    let mut world = World::serving(service(3, "bad"));
    world.submit_spec(service(3, "good 2"));
    world.succeeds();
    world.control(UpdateAction::Undo);
    world.passes(Span::from_secs(1));
    assert!(matches!(world.state(), UpdateState::Undoing { .. }), "{:?}", world.web());
    world.submit_spec(service(3, "good 3"));
    world.succeeds();
    world.all_run(3, "good 3");
    // Another number of tasks, too.
    world.submit_spec(stops_first("bad"));
    while *world.state() == UpdateState::Rolling {
        world.turn();
    }
    assert!(matches!(world.state(), UpdateState::Undoing { .. }));
    world.resize(4);
    world.succeeds();
    world.all_run(4, "good 3");
    assert!(
        !world.web().tasks().any(|(_, task)| {
            matches!(task.state, TaskState::Dead { death: Death::Failed, .. })
        })
    );
}

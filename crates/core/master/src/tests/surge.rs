//! How many tasks of a job are up while an update restarts them all, and whether a further one is
//! started first.

use cell::{Health, Phase, Placement, TaskState, UpdateState};
use model::{Appclass, FinalUsage};

use super::*;

/// What happens to tasks of the new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum New {
    Runs,
    Crashes,
    /// A task beyond those of the job has no room.
    HasNoRoom,
}

/// What was seen of an update.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    least_up: u32,
    has_further: bool,
    ended: &'static str,
    failed: Option<u32>,
}

impl World {
    fn job(&self) -> &Arc<cell::Job> {
        self.cell.job(CollectionId(1)).expect("it was submitted")
    }

    /// What the leader wants of the update is done, and then what follows for the tasks.
    fn goes_on(&mut self, tasks: u32, new: New) {
        let mut actions = Vec::new();
        self.master.tick(self.now, &self.cell, &mut actions);
        for action in actions {
            if let Action::Propose(
                op @ (Op::StepUpdate { .. }
                | Op::StartReplacement { .. }
                | Op::RemoveReplacements { .. }),
            ) = action
            {
                self.apply(&op);
            }
        }
        let job = Arc::clone(self.job());
        let mut observations = Vec::new();
        for (index, task) in job.tasks() {
            let instance = job.instance(index).expect("it is there");
            let has_room = index.0 < tasks || new != New::HasNoRoom;
            match &task.state {
                TaskState::Pending { not_before, .. } if has_room && *not_before <= self.now => {
                    let (machine, ports, victims) = (M1, vec![], vec![]);
                    let (address, alloc) = (None, None);
                    let assigned = Assignment { address, instance, alloc, machine, ports, victims };
                    self.apply(&Op::assign(vec![assigned]));
                }
                TaskState::Running(placed) if placed.stop.is_some() => {
                    let (end, usage) = (End::Stopped, FinalUsage::UNMEASURED);
                    observations.push(Observation::Ended { instance, end, usage });
                }
                TaskState::Running(placed) if placed.phase == Phase::Starting => {
                    let crashes = new == New::Crashes && task.version.0 > 1;
                    let (end, usage) = (End::Exited { code: 3 }, FinalUsage::UNMEASURED);
                    observations.push(match crashes {
                        true => Observation::Ended { instance, end, usage },
                        false => Observation::started(instance),
                    });
                }
                // It has no health check.
                TaskState::Running(Placement {
                    phase: Phase::Started { at, health: Health::Unknown, .. },
                    ..
                }) if self.now.since(*at) >= Span::from_secs(1) => {
                    let (healthy, check) = (true, String::new());
                    observations.push(Observation::Health { instance, healthy, check });
                }
                _ => {}
            }
        }
        if !observations.is_empty() {
            self.apply(&Op::Observe { machine: M1, observations });
        }
        self.now = self.now + Span::from_millis(100);
    }
}

fn updated(tasks: u32, new: New, describe: impl Fn(&mut JobSpec)) -> Seen {
    let mut world = World::new();
    world.apply(&Op::DescribeMachine { machine: M1, report: machine() });
    let name = model::JobName::new("web").expect("a name");
    let mut task = TaskSpec::of(vec!["x".to_owned()]);
    task.limit = Resources { cpu: MilliCores(10), ram: Bytes(4 << 20), ..Resources::default() };
    let mut spec = JobSpec::of(name, model::Band::Production.usual(), tasks, task);
    spec.appclass = Appclass::LatencySensitive;
    describe(&mut spec);
    world.submit_spec(spec.clone());
    for _ in 0..20 {
        world.goes_on(tasks, New::Runs);
    }
    assert_eq!(world.job().counts().up, tasks);
    spec.task.cmd.push("y".to_owned());
    world.submit_spec(spec);
    let (mut least_up, mut has_further) = (u32::MAX, false);
    for _ in 0..2_000 {
        world.goes_on(tasks, new);
        least_up = least_up.min(world.job().counts().up);
        has_further |= world.job().rows() > tasks;
    }
    let job = world.job();
    assert_eq!((job.counts().up, job.size()), (tasks, tasks), "nothing is left of it");
    let update = job.update.as_ref().expect("it was updated");
    let ended = match update.state {
        UpdateState::Succeeded { .. } => "succeeded",
        UpdateState::Undone { .. } => "undone",
        _ => "goes on",
    };
    let failed = update.failure.as_ref().map(|failure| failure.instance.index.0);
    Seen { least_up, has_further, ended, failed }
}

#[test]
fn an_update_of_a_service_starts_a_further_task_first() {
    let seen = |least_up, has_further, ended, failed| Seen { least_up, has_further, ended, failed };
    for tasks in [1, 2, 5] {
        let expected = seen(tasks, true, "succeeded", None);
        assert_eq!(updated(tasks, New::Runs, |_| {}), expected, "{tasks} tasks");
    }
    // A tenth and one are down at once, and the further one makes up for one.
    assert_eq!(updated(20, New::Runs, |_| {}), seen(18, true, "succeeded", None));
    // One that fails fails the update, and no other is touched.
    assert_eq!(updated(2, New::Crashes, |_| {}), seen(2, true, "undone", Some(2)));
    // Without room it goes on as the budget allows.
    assert_eq!(updated(2, New::HasNoRoom, |_| {}), seen(1, true, "succeeded", None));
}

#[test]
fn tasks_stop_first_where_the_job_says_so() {
    let seen =
        |least_up, has_further| Seen { least_up, has_further, ended: "succeeded", failed: None };
    let one_down = |spec: &mut JobSpec| spec.disruptions.at_once = Some(1);
    assert_eq!(updated(2, New::Runs, one_down), seen(1, false));
    assert_eq!(updated(2, New::Runs, |spec| spec.appclass = Appclass::Batch), seen(0, false));
    // Where none may be down there is a further one in any case.
    let none_down = |spec: &mut JobSpec| spec.disruptions.at_once = Some(0);
    assert_eq!(updated(2, New::Runs, none_down), seen(2, true));
}

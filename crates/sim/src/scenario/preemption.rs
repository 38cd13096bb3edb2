//! Tasks that have to make room for others: none is forgotten, and it has an end.

use std::sync::Arc;

use cell::{Assignment, Cell, Death, EventKind, Job, KillReason, TaskState};
use model::{Span, TaskIndex, TaskSelection};
use replica::Codec;

use super::stage::{Cast, SLOTS, Scene, Stage, named, preempted, running};
use crate::disk::Crash;
use crate::scheduling::victims as victims_of;

/// What is known of forgotten victims.
pub(super) const VICTIMS: &str = "In Kubernetes a preempted pod is deleted, and whether anything \
takes its place is up to whoever made it: one that was made by itself is gone. Here sixteen tasks \
have to make room, and while they have their notice the master loses power, one of their machines \
dies, and one of them is killed by its owner. Each has to be pending again, or dead for that reason; \
and when there is room, all of them run again.";

/// What is known of preemption without an end.
pub(super) const LOOP: &str = "A task evicts another one, which is placed by evicting a third: the \
Borg paper (section 2.5) calls that a preemption cascade, and forbids tasks of production to preempt \
one another to end most of it. Here ten jobs of all bands, each as large as the cell, want the same \
four machines, while a second scheduler evicts whomever it may, ten minutes long. Each eviction has to \
take a machine up: the number of them is bounded by that of the steps from free to monitoring.";

const MACHINES: usize = 8;

pub(super) fn victims<C: Codec>(cast: Cast<C>) -> Stage<C> {
    let mut stage = Stage::set(cast, Scene::of(MACHINES));
    stage.submit("low", 100, (32, 2), "heeds=3000");
    stage.comes("seconds until the cell is full", 30, |cell| running(cell, "low") == 32);
    stage.submit("high", 200, (8, 4), "");
    stage.passes(Span::from_secs(5));
    let begin = stage.world.now();
    let proposal = stage.world.cell().map(one_on_each_machine).unwrap_or_default();
    stage.must(proposal.len() == MACHINES, || format!("{} of 8 proposed", proposal.len()));
    let killed = proposal.get(1).and_then(|assignment| assignment.victims.first()).copied();
    stage.world.proposed(None, 0, proposal);
    // They have ten seconds of notice, and take three.
    stage.passes(Span::from_millis(500));
    stage.world.crash_master(Crash::PowerLost, Span::from_secs(1));
    stage.passes(Span::from_millis(500));
    stage.world.power_off(0);
    stage.passes(Span::from_secs(1));
    let tasks: Vec<_> = killed.iter().map(|id| (id.index, id.index)).collect();
    stage.kill("low", TaskSelection::Some(tasks));
    stage.comes("seconds until all victims but those of the dead machine have left", 10, |cell| {
        left(cell) == 14
    });
    stage.comes("seconds until those of the dead machine have as well", 60, |cell| {
        left(cell) == 18 && cell.jobs_with_pending_tasks().count() == 2
    });
    let evicted = stage.happened(begin, |_, kind| preempted(kind));
    stage.figure("victims that were evicted", evicted, 13);
    stage.must(evicted == 13, || format!("{evicted} victims were evicted, 13 should have been"));
    stage.world.boot(0);
    stage.passes(Span::from_secs(10));
    stage.kill("high", TaskSelection::All);
    stage.comes("seconds from room to every victim running", 10, |cell| {
        running(cell, "low") + killed_by_owner(cell) == 32
    });
    stage.must(stage.world.cell().map(killed_by_owner) == Some(1), || {
        "the victim that its owner killed is not dead for that reason".to_owned()
    });
    stage.rests("seconds until all is quiet", 10);
    stage
}

/// Every task of the job, each on a machine of its own, with whom it evicts there.
fn one_on_each_machine(cell: &Cell) -> Vec<Assignment> {
    let Some(job) = named(cell, "high") else { return Vec::new() };
    let assignment = |(index, machine): (TaskIndex, &Arc<cell::Machine>)| {
        let instance = job.instance(index)?;
        let victims = victims_of(cell, job, index, machine);
        Some(Assignment { instance, machine: machine.id, ports: Vec::new(), victims })
    };
    (0..job.spec.tasks).map(TaskIndex).zip(cell.machines()).filter_map(assignment).collect()
}

fn killed_by_owner(cell: &Cell) -> usize {
    let dead = |job: &Arc<Job>| {
        let killed = |state: &TaskState| {
            matches!(state, TaskState::Dead { death: Death::Killed(KillReason::User(_)), .. })
        };
        job.tasks().filter(|(_, task)| killed(&task.state)).count()
    };
    named(cell, "low").map_or(0, dead)
}

/// How many tasks of the lower job have no machine.
fn left(cell: &Cell) -> usize {
    let placed = |job: &Arc<Job>| {
        job.tasks().filter(|(_, task)| !matches!(task.state, TaskState::Running(_))).count()
    };
    named(cell, "low").map_or(0, placed)
}

/// The priorities, lowest first; those that may evict one another are seven steps.
const PRIORITIES: [u16; 10] = [0, 25, 100, 110, 118, 120, 200, 359, 360, 450];
const SLOTS_OF_ALL: usize = 4;
/// From free at 0 over 25, 100, 110 and 118 to production and monitoring: six times up.
const UP: u64 = 6;

pub(super) fn endless<C: Codec>(cast: Cast<C>) -> Stage<C> {
    let mut stage = Stage::set(cast, Scene::of(SLOTS_OF_ALL));
    let begin = stage.world.now();
    stage.world.rival_begins(Span::from_millis(200));
    for priority in PRIORITIES {
        stage.submit(&format!("p{priority}"), priority, (4, SLOTS), "heeds=200");
        stage.passes(Span::from_secs(20));
    }
    stage.passes(Span::from_secs(400));
    let evictions = stage.happened(begin, |_, kind| preempted(kind));
    stage.figure("evictions of four machines' tasks", evictions, UP * SLOTS_OF_ALL as u64);
    stage.must(evictions >= UP, || format!("only {evictions} evictions: nothing was tried"));
    stage.comes("seconds until monitoring has all of them", 60, |cell| {
        running(cell, "p360") + running(cell, "p450") == SLOTS_OF_ALL
    });
    stage.world.rival_ends();
    stage.passes(Span::from_secs(5));
    let (from, quiet) = (stage.world.age(), stage.world.now());
    stage.passes(Span::from_secs(60));
    let operations = stage.world.operations.all(from, stage.world.age());
    stage.figure("operations in a minute after that", operations, 0);
    let moved = stage.happened(quiet, |_, kind| matches!(kind, EventKind::Evict { .. }));
    stage.figure("evictions in it", moved, 0);
    stage.rests("seconds until all is quiet", 5);
    stage
}

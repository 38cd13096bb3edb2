//! Preempted tasks: none is forgotten, and preemption terminates.

use std::sync::Arc;

use cell::{Cell, Death, EventKind, Job, KillReason, TaskState};
use model::{InstanceId, Span, Time};
use replica::Codec;

use super::stage::{Parameters, SLOTS, Stage, WorldSetup, named, preempted, running};
use crate::disk::Crash;
use crate::world::number_of;

/// The known failure of forgotten victims.
pub(super) const VICTIMS: &str = "In Kubernetes a preempted pod is deleted, and whether anything \
replaces it is up to its controller: a pod without one is gone. Here sixteen tasks are preempted, \
and during their notice the master loses power, one of their machines dies, and one of them is \
killed by its owner. Each has to become pending again, or dead if it was killed; and when there is \
room, all of them run again.";

/// The known failure of endless preemption.
pub(super) const LOOP: &str = "A task evicts another one, which is placed by evicting a third: the \
Borg paper (section 2.5) calls that a preemption cascade, and forbids tasks of production to \
preempt one another to end most of it. Here ten jobs of all bands, each as large as the cell, want \
the same four machines for ten minutes, while a second scheduler makes all evictions it may; for \
every other job the first one is frozen, so that both have an effect. Each eviction has to raise \
the priority on a machine: the number of evictions is bounded by that of the steps from free to \
monitoring.";

const MACHINES: usize = 8;

pub(super) fn victims<C: Codec>(parameters: Parameters<C>) -> Stage<C> {
    let mut stage = Stage::new(parameters, WorldSetup::of(MACHINES));
    stage.submit("low", 100, 32, 2, "heeds=3000");
    stage.wait_until("seconds until the cell is full", 30, |cell| running(cell, "low") == 32);
    let begin = stage.world.now();
    // Half of the cell, which is full of tasks half as large: wherever they go, sixteen have to
    // leave.
    stage.submit("high", 200, 8, 4, "");
    stage.wait_until("seconds until sixteen have notice", 5, |cell| noticed(cell).len() == 16);
    let victims = stage.world.cell().map(noticed).unwrap_or_default();
    let Some((_, dies)) = victims.first().copied() else { return stage };
    let on_it = |(_, machine): &&(InstanceId, usize)| *machine == dies;
    let there = victims.iter().filter(on_it).count() as u64;
    let killed = victims.iter().find(|victim| !on_it(victim)).map(|(id, _)| *id);
    // They have ten seconds of notice, and take three.
    stage.passes(Span::from_millis(500));
    stage.world.crash_master(0, Crash::PowerLost, Span::from_secs(1));
    stage.passes(Span::from_millis(500));
    stage.world.power_off(dies);
    stage.passes(Span::from_secs(1));
    killed.iter().for_each(|id| stage.ask(&format!("kill ana/low/{}", id.index)));
    stage.wait_until(
        "seconds until all victims except those on the dead machine have left",
        10,
        |cell| victims.iter().filter(|victim| !on_it(victim)).all(|(id, _)| has_left(cell, *id)),
    );
    stage.wait_until("seconds until those on the dead machine have left", 60, |cell| {
        victims.iter().all(|(id, _)| has_left(cell, *id))
    });
    // Those whose machine died, or that could not be started, need room once more.
    stage.wait_until("seconds until the preemptors run", 30, |cell| running(cell, "high") == 8);
    let first = |id: InstanceId| victims.iter().any(|(victim, _)| *victim == id);
    let evicted = stage.task_events(begin, |id, kind| first(id) && preempted(kind));
    // One was killed, and those on the dead machine were lost with it.
    stage.require(evicted + there + 1 == 16, || {
        format!("{evicted} victims were evicted, of sixteen of which {there} died with a machine")
    });
    let others = stage.task_events(begin, |id, kind| !first(id) && preempted(kind));
    let again = stage.again(begin, "high");
    stage.figure("other tasks that were preempted", others, 2 * again);
    stage.world.boot(dies);
    stage.passes(Span::from_secs(10));
    stage.ask("kill ana/high");
    stage.wait_until("seconds from free room until every victim runs", 10, |cell| {
        running(cell, "low") + killed_by_owner(cell) == 32
    });
    stage.require(stage.world.cell().map(killed_by_owner) == Some(1), || {
        "the victim that its owner killed is not dead for that reason".to_owned()
    });
    stage.wait_until_settled("seconds until the cell has settled", 10);
    stage
}

/// The tasks that are being stopped, and the world's machine that each is on.
fn noticed(cell: &Cell) -> Vec<(InstanceId, usize)> {
    let on = |machine: &Arc<cell::Machine>| {
        let number = number_of(&machine.address)?;
        let stops =
            |id: &&InstanceId| cell.placement(**id).is_some_and(|placed| placed.stop.is_some());
        let stopped = machine.instances().iter().filter(stops);
        Some(stopped.map(|id| (*id, number)).collect::<Vec<_>>())
    };
    cell.machines().filter_map(on).flatten().collect()
}

/// Whether an instance no longer has a machine: its task is pending, dead, or has a new
/// incarnation.
fn has_left(cell: &Cell, id: InstanceId) -> bool {
    cell.placement(id).is_none()
}

impl<C: Codec> Stage<C> {
    /// How often a task of a job needed a machine again since a given time.
    fn again(&self, since: Time, name: &str) -> u64 {
        let job = self.world.cell().and_then(|cell| named(cell, name)).map(|job| job.id);
        self.task_events(since, |id, kind| {
            let lost = matches!(
                kind,
                EventKind::Evict { .. } | EventKind::Lost { .. } | EventKind::Fail { .. }
            );
            lost && Some(id.collection) == job
        })
    }
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

/// The priorities, lowest first; preemption is possible across seven steps.
const PRIORITIES: [u16; 10] = [0, 25, 100, 110, 118, 120, 200, 359, 360, 450];
const SLOTS_OF_ALL: usize = 4;
/// From free at 0 over 25, 100, 110 and 118 to production and monitoring: six times up.
const UP: u64 = 6;

pub(super) fn endless<C: Codec>(parameters: Parameters<C>) -> Stage<C> {
    let mut stage = Stage::new(parameters, WorldSetup::of(SLOTS_OF_ALL));
    let begin = stage.world.now();
    stage.world.rival_begins(Span::from_millis(200));
    // By both schedulers, and by the second alone.
    let mut found = [0; 2];
    for (turn, priority) in PRIORITIES.into_iter().enumerate() {
        let from = stage.world.now();
        stage.world.freeze_scheduler(turn % 2 == 1);
        stage.submit(&format!("p{priority}"), priority, 4, SLOTS, "heeds=200");
        stage.passes(Span::from_secs(20));
        found[turn % 2] += stage.task_events(from, |_, kind| preempted(kind));
    }
    stage.world.freeze_scheduler(false);
    stage.passes(Span::from_secs(400));
    let evictions = stage.task_events(begin, |_, kind| preempted(kind));
    stage.figure("evictions of four machines' tasks", evictions, UP * SLOTS_OF_ALL as u64);
    let [both, second] = found;
    stage.require(both >= UP && second >= UP, || {
        format!(
            "{both} evictions of both schedulers, {second} of the second: one of them never tried"
        )
    });
    stage.wait_until("seconds until monitoring has all of them", 60, |cell| {
        running(cell, "p360") + running(cell, "p450") == SLOTS_OF_ALL
    });
    stage.world.rival_ends();
    stage.passes(Span::from_secs(5));
    let (from, quiet) = (stage.world.age(), stage.world.now());
    stage.passes(Span::from_secs(60));
    let operations = stage.world.operations.all(from, stage.world.age());
    stage.figure("operations in a minute after that", operations, 0);
    let moved = stage.task_events(quiet, |_, kind| matches!(kind, EventKind::Evict { .. }));
    stage.figure("evictions in that minute", moved, 0);
    stage.wait_until_settled("seconds until the cell has settled", 5);
    stage
}

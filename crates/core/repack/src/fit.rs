//! Moves after which a pending task fits that fits nowhere.

use std::cmp::Reverse;
use std::sync::Arc;

use cell::feasibility::Request;
use cell::{Cell, Job, Machine, TaskState};
use model::{InstanceId, TaskIndex, Time};

use crate::rooms::PackingRooms;
use crate::{PackingGain, PackingMove, PackingProposal, PackingSettings, total, worth};

/// How many jobs with pending tasks that nothing helps are examined by a plan.
pub(crate) const EXAMINED: usize = 64;
/// How many of these may be of one user: the others have their share.
pub(crate) const EXAMINED_OF_A_USER: usize = 8;
/// On how many machines the tasks are looked at for one pending task: those that lack least.
const MACHINES: usize = 64;
/// How many tasks of a machine are moved together at most.
const TOGETHER: usize = 4;

/// What moves do for a pending task.
pub(crate) enum Help {
    /// It fits somewhere already, or will as soon as what is being stopped has left.
    Fits,
    /// It fits after these moves.
    Moves(PackingProposal),
    /// No moves are worth it.
    None,
}

/// The tasks that have waited for long enough: those of the highest priority first, then those that wait longest.
pub(crate) fn waiting<'a>(
    cell: &'a Cell,
    now: Time,
    settings: &PackingSettings,
) -> Vec<(&'a Arc<Job>, TaskIndex)> {
    // A gang is placed whole: room for one of its tasks gains nothing.
    let helped = |job: &&Arc<Job>| job.alloc_set.is_none() && !job.is_gang();
    let jobs = cell.jobs_with_pending_tasks().filter(helped);
    let mut waiting: Vec<_> = jobs
        .flat_map(|job| {
            job.tasks().filter_map(move |(index, task)| match task.state {
                TaskState::Pending { since, not_before, .. } => {
                    let since = since.max(not_before);
                    let long = since <= now && now.since(since) >= settings.waited;
                    let priority = job.described(index).priority;
                    long.then_some((Reverse(priority), since, job, index))
                }
                _ => None,
            })
        })
        .collect();
    waiting.sort_by_key(|(priority, since, job, index)| (*priority, *since, job.id, *index));
    waiting.into_iter().map(|(_, _, job, index)| (job, index)).collect()
}

/// What moves do for a pending task of a job.
pub(crate) fn help(rooms: &mut PackingRooms<'_>, job: &Job, index: TaskIndex) -> Help {
    let Some(task) = job.instance(index) else { return Help::None };
    let cell = rooms.cell;
    let ask = Request::of(cell, job, index);
    let mut machines: Vec<(u64, &Arc<Machine>)> = Vec::new();
    for machine in cell.machines() {
        if rooms.is_exhausted() {
            return Help::None;
        }
        if rooms.is_used(machine.id) {
            continue;
        }
        if rooms.fits(&ask, job, machine) || rooms.fits_without(&ask, job, machine, &[]) {
            return Help::Fits;
        }
        // Whatever leaves, what it asks for beyond the amounts is not there.
        let all: Vec<InstanceId> = machine.instances().to_vec();
        if rooms.fits_without(&ask, job, machine, &all) {
            let free = machine.capacity().minus(machine.reserved());
            let lacks = ask.demand.reservation.minus(free);
            machines.push((worth::share(lacks, rooms.largest), machine));
        }
    }
    machines.sort_by_key(|(lacks, machine)| (*lacks, machine.id));
    machines.truncate(MACHINES);
    let gain = worth::of_task(job, index, rooms.largest);
    let mut best: Option<Vec<PackingMove>> = None;
    let mut candidates = Vec::new();
    for (_, machine) in machines {
        let movable = rooms.movable(machine);
        for one in &movable {
            // The others of this machine cost as much or more.
            let limit = best.as_ref().map_or(gain, |best| total(best));
            if one.0 >= limit || rooms.is_exhausted() {
                break;
            }
            if !rooms.fits_without(&ask, job, machine, &[one.1]) {
                continue;
            }
            if let Some(moves) = rooms.moves(machine, &[*one], false) {
                best = Some(moves);
                break;
            }
        }
        candidates.push((machine, movable));
    }
    if best.is_none() {
        for (machine, movable) in candidates {
            let limit = best.as_ref().map_or(gain, |best| total(best));
            let Some(several) = several(rooms, (&ask, job), machine, &movable) else { continue };
            let cost = several.iter().fold(0u64, |sum, (cost, _)| sum.saturating_add(*cost));
            if cost < limit
                && let Some(moves) = rooms.moves(machine, &several, false)
            {
                best = Some(moves);
            }
        }
    }
    match best {
        Some(moves) => {
            let on = moves.first().map(|step| step.from);
            let Some(on) = on else { return Help::None };
            let gain_of = PackingGain::Fits { task, on };
            Help::Moves(PackingProposal { gain: gain_of, worth: gain, moves })
        }
        None => Help::None,
    }
}

/// Several tasks of a machine without which a pending task fits there: the cheapest, without those that turn out not
/// to be needed.
fn several(
    rooms: &mut PackingRooms<'_>,
    asking: (&Request<'_>, &Job),
    machine: &Machine,
    movable: &[(u64, InstanceId)],
) -> Option<Vec<(u64, InstanceId)>> {
    let (ask, job) = asking;
    let mut leave: Vec<(u64, InstanceId)> = Vec::new();
    let ids = |tasks: &[(u64, InstanceId)]| tasks.iter().map(|(_, id)| *id).collect::<Vec<_>>();
    for one in movable {
        if rooms.moves(machine, &[*one], false).is_none() {
            continue;
        }
        leave.push(*one);
        if !rooms.fits_without(ask, job, machine, &ids(&leave)) {
            continue;
        }
        // The dearest that is not needed stays.
        for at in (0..leave.len()).rev() {
            let mut fewer = leave.clone();
            fewer.remove(at);
            if rooms.fits_without(ask, job, machine, &ids(&fewer)) {
                leave = fewer;
            }
        }
        return (leave.len() <= TOGETHER).then_some(leave);
    }
    None
}

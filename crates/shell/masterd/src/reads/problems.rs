//! What needs attention in a cell: jobs whose tasks end again and again, updates that stand still, pending
//! production, quota that is oversold, certificates that end, and backups that are missing.
//!
//! The list is bounded, and users share it: each has as many places as another before any has more.

use std::collections::BTreeMap;

use api::v1;
use cell::{Cell, Job, MachineState, PendingCause, Task, TaskState, Total, Update, UpdateState};
use model::{Band, Span, TaskIndex, Time};

/// The maximum number of problems in an answer.
const PROBLEMS_MAX: usize = 100;
/// From so many ends in a row on a task fails again and again.
const ENDS: u32 = 3;
/// A task that runs for so long does not fail again and again any more.
const RECOVERED: Span = Span::from_secs(300);
/// A task of production that is pending for so long is a problem.
const PENDING: Span = Span::from_secs(30);
/// An update without progress for so long is stuck.
const STUCK: Span = Span::from_secs(900);
/// An update that was undone for so long is history.
const UNDONE: Span = Span::from_secs(3_600);
/// Certificates that end sooner are named.
const CERTIFICATE: Span = Span::from_secs(7 * 86_400);

/// A backup that is older than this is a problem: the packaged timer saves one each day.
const BACKUP: Span = Span::from_secs(2 * 86_400);
/// A job of production that lives for so long in a cell of which no backup was ever saved is a problem.
const UNSAVED: Span = Span::from_secs(86_400);

/// The problems of a cell, the worst kinds first, and how many there are in all.
pub(crate) fn problems(cell: &Cell, now: Time) -> (Vec<v1::Problem>, u32) {
    let mut of_users: BTreeMap<&str, Vec<v1::Problem>> = BTreeMap::new();
    for job in cell.named_jobs().filter(|job| job.is_alive()) {
        let found = of_job(job, now);
        if !found.is_empty() {
            of_users.entry(job.owner.as_str()).or_default().extend(found);
        }
    }
    let of_cell: Vec<_> =
        of_machines(cell, now).chain(of_quota(cell)).chain(of_backups(cell, now)).collect();
    if !of_cell.is_empty() {
        of_users.insert("", of_cell);
    }
    let all: usize = of_users.values().map(Vec::len).sum();
    let mut some = shared(of_users.into_values().collect(), PROBLEMS_MAX);
    some.sort_by(|a, b| {
        let key = |of: &v1::Problem| (of.kind, of.user.clone(), of.job.clone(), of.machine.clone());
        key(a).cmp(&key(b))
    });
    (some, u32::try_from(all).unwrap_or(u32::MAX))
}

/// At most so many of all, one of each list after the other.
fn shared(lists: Vec<Vec<v1::Problem>>, most: usize) -> Vec<v1::Problem> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut some = Vec::new();
    while some.len() < most {
        let before = some.len();
        let left = most - some.len();
        some.extend(lists.iter_mut().filter_map(Iterator::next).take(left));
        if some.len() == before {
            break;
        }
    }
    some
}

fn of_job(job: &Job, now: Time) -> Vec<v1::Problem> {
    let (mut failing, mut pending) = (Vec::new(), Vec::new());
    let prod = job.spec.priority.is_prod();
    for (index, task) in job.tasks() {
        if let Some(since) = fails(task, now) {
            failing.push((index, since));
        }
        match task.state {
            TaskState::Pending { since, cause: PendingCause::StartLost { tries }, .. }
                if prod && tries >= ENDS =>
            {
                pending.push((index, since));
            }
            // One that waits for its next start is failing.
            TaskState::Pending { since, not_before, .. }
                if prod && not_before <= now && now.since(since) >= PENDING =>
            {
                pending.push((index, since));
            }
            _ => {}
        }
    }
    let problem = |kind: v1::ProblemKind, tasks: &[(TaskIndex, Time)]| {
        let (first, _) = tasks.first()?;
        let since = tasks.iter().map(|(_, since)| *since).min()?;
        Some(v1::Problem {
            tasks: u32::try_from(tasks.len()).unwrap_or(u32::MAX),
            task: first.0,
            ..of(job, kind, since)
        })
    };
    let mut found = Vec::new();
    found.extend(problem(v1::ProblemKind::Failing, &failing));
    found.extend(problem(v1::ProblemKind::ProductionPending, &pending));
    if let Some((kind, since)) =
        job.update.as_deref().and_then(|update| of_update(job, update, now))
    {
        found.push(of(job, kind, since));
    }
    found
}

fn of(job: &Job, kind: v1::ProblemKind, since: Time) -> v1::Problem {
    v1::Problem {
        kind: kind.into(),
        user: job.owner.to_string(),
        job: job.spec.name.to_string(),
        since: since.0,
        ..v1::Problem::default()
    }
}

/// Since when a task fails again and again: its present state.
pub(super) fn fails(task: &Task, now: Time) -> Option<Time> {
    if task.ends_in_row < ENDS || task.failures == 0 {
        return None;
    }
    match &task.state {
        TaskState::Pending { since, .. } => Some(*since),
        TaskState::Running(placement) if now.since(placement.since) < RECOVERED => {
            Some(placement.since)
        }
        _ => None,
    }
}

fn of_update(job: &Job, update: &Update, now: Time) -> Option<(v1::ProblemKind, Time)> {
    use v1::ProblemKind::{UpdateStopped, UpdateStuck, UpdateUndone};

    match &update.state {
        UpdateState::Paused { at, by: None } => Some((UpdateStopped, *at)),
        UpdateState::Undoing { since, by: None } => Some((UpdateUndone, *since)),
        // Until its tasks are up again with the description from before.
        UpdateState::Undone { at, by: None } if now.since(*at) < UNDONE && job.down() > 0 => {
            Some((UpdateUndone, *at))
        }
        UpdateState::Rolling => {
            let begun = update.changing.values().map(|changing| changing.since).max();
            let last = update.last_passed.max(begun).unwrap_or(update.opened);
            (now.since(last) >= STUCK).then_some((UpdateStuck, last))
        }
        _ => None,
    }
}

fn of_machines(cell: &Cell, now: Time) -> impl Iterator<Item = v1::Problem> {
    let soon = now + CERTIFICATE;
    cell.machines().filter_map(move |machine| {
        let said = machine.credentials.as_ref()?;
        let ends = said.certificates.iter().map(|known| known.expires).max()?;
        let down = matches!(machine.state, MachineState::Down { .. });
        (ends < soon && said.revoked.is_none() && !down).then(|| v1::Problem {
            kind: v1::ProblemKind::CertificateEnds.into(),
            machine: machine.name.to_string(),
            since: ends.0,
            ..v1::Problem::default()
        })
    })
}

fn of_quota(cell: &Cell) -> impl Iterator<Item = v1::Problem> {
    let oversold = |band: &Band| {
        let allowed = cell.capacity().percent(cell.metering().percent(*band));
        cell.metering().on && cell.most_granted(*band).minus(allowed) != Total::default()
    };
    let bands = [Band::Mid, Band::Production].into_iter().filter(oversold);
    let found: Vec<_> = bands
        .map(|band| v1::Problem {
            kind: v1::ProblemKind::QuotaOversold.into(),
            band: v1::Band::from(band).into(),
            ..v1::Problem::default()
        })
        .collect();
    found.into_iter()
}

fn of_backups(cell: &Cell, now: Time) -> Option<v1::Problem> {
    let (kind, since) = match cell.last_backup() {
        Some(last) => {
            (v1::ProblemKind::BackupOld, Some(last.at).filter(|at| now.since(*at) > BACKUP))
        }
        None => {
            let live = cell.named_jobs().filter(|job| job.is_alive());
            let oldest =
                live.filter(|job| job.spec.priority.is_prod()).map(|job| job.submitted).min();
            (v1::ProblemKind::NoBackup, oldest.filter(|at| now.since(*at) > UNSAVED))
        }
    };
    let since = since?;
    Some(v1::Problem { kind: kind.into(), since: since.0, ..v1::Problem::default() })
}

#[cfg(test)]
mod tests {
    use cell::{Image, LastBackup, Mutation, Op, RequestId};
    use model::{LogIndex, SessionId, UserName};
    use spec::{JobSpec, TaskSpec};

    use super::*;

    const HOUR: u64 = 3_600_000_000;

    /// A cell, bootstrapped at hour 1000, with a job of a band that is submitted an hour later.
    fn saved(band: Option<Band>, backup: Option<u64>) -> Cell {
        let root = UserName::new("root").expect("a name");
        let mut cell = Cell::empty();
        let (name, administrator) = ("lab".parse().expect("a name"), root.clone());
        cell.apply(Time(1_000 * HOUR), &Op::Bootstrap { name, administrator });
        cell.apply(Time(1_000 * HOUR), &Op::OpenSession { user: root.clone() });
        if let Some(band) = band {
            let task = TaskSpec::of(vec!["true".to_owned()]);
            let spec = JobSpec::of("web".parse().expect("a name"), band.usual(), 1, task);
            let id = RequestId { session: SessionId(1), sequence: 1 };
            let mutation = Mutation::Submit(spec.into());
            cell.apply(Time(1_001 * HOUR), &Op::Request { id, by: root.clone(), mutation });
            assert_eq!(cell.job_count(), 1);
        }
        let last_backup =
            backup.map(|hour| LastBackup { index: LogIndex(1), at: Time(hour * HOUR), by: root });
        Cell::from_image(Image { last_backup, ..cell.image() }).expect("it is sound")
    }

    #[test]
    fn a_missing_backup_is_a_problem_after_a_while() {
        use v1::ProblemKind::{BackupOld, NoBackup};

        let production = Some(Band::Production);
        for (band, backup, hour, expected) in [
            (production, None, 1_024, None),
            (production, None, 1_026, Some((NoBackup, 1_001))),
            (Some(Band::BestEffortBatch), None, 1_100, None),
            (None, None, 1_100, None),
            (production, Some(1_002), 1_050, None),
            (production, Some(1_002), 1_051, Some((BackupOld, 1_002))),
            (None, Some(1_002), 1_051, Some((BackupOld, 1_002))),
        ] {
            let found = of_backups(&saved(band, backup), Time(hour * HOUR));
            let found = found.map(|problem| (problem.kind(), problem.since / HOUR));
            assert_eq!(found, expected, "{band:?}, backup at {backup:?}, at {hour}");
        }
    }

    #[test]
    fn users_share_the_places() {
        let of = |user: &str, count: usize| -> Vec<v1::Problem> {
            let one = |_| v1::Problem { user: user.to_owned(), ..v1::Problem::default() };
            (0..count).map(one).collect()
        };
        for (lists, most, expected) in [
            (vec![of("ana", 50), of("bo", 2)], 4, [2, 2]),
            (vec![of("ana", 50), of("bo", 1)], 4, [3, 1]),
            (vec![of("ana", 1), of("bo", 1)], 4, [1, 1]),
            (vec![of("ana", 0), of("bo", 9)], 4, [0, 4]),
            (vec![of("ana", 3), of("bo", 3)], 3, [2, 1]),
        ] {
            let some = shared(lists, most);
            let count = |user: &str| some.iter().filter(|one| one.user == user).count();
            assert_eq!([count("ana"), count("bo")], expected);
        }
    }
}

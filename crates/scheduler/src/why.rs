//! "Why is it pending?" (paper, section 2.6): for each pending task how many machines fail which
//! check, the nearest miss, and the least change that would let it start now. The checks are those
//! of a pass, and their reasons are its text.

use std::collections::BTreeMap;

use cell::feasibility::{Ask, Misfit, Offer, fits};
use cell::{Cell, Job, Machine, TaskState};
use model::{Dimension, End, MachineId, MachineName, Resources, TaskIndex, TaskSelection, Time};

/// Pending tasks that ask for the same and wait for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Which, as inclusive ranges.
    pub tasks: Vec<(TaskIndex, TaskIndex)>,
    /// Since when the longest of them waits.
    pub since: Time,
    /// What each of them asks.
    pub ask: Ask,
    /// They are not placed before this moment, where it is in the future.
    pub not_before: Option<Time>,
    /// How the last life of the first of them ended.
    pub last_end: Option<End>,
    /// How many machines the cell has.
    pub machines: usize,
    /// On how many machines one of them fits now.
    pub fits: usize,
    /// Why it does not fit on the others, most frequent first.
    pub reasons: Vec<Reason>,
    /// The least change of the request that would let one of them start now.
    pub smallest_change: Option<Change>,
}

/// Why a task does not fit on some machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// On how many.
    pub machines: usize,
    /// What they fail, as people read it: `lack RAM`.
    pub text: String,
    /// The one of them that misses least, and by how much.
    pub nearest: Option<(MachineName, Misfit)>,
}

/// A change of one dimension of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// In which dimension.
    pub dimension: Dimension,
    /// What is asked now.
    pub from: u64,
    /// What would fit now.
    pub to: u64,
}

/// What kind of misfit it is: machines that fail alike are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Lacks(Dimension),
    LacksPorts,
    TooSmall(Dimension),
    NotUp,
}

/// Explains the pending tasks among those chosen of a job.
#[must_use]
pub fn why(cell: &Cell, job: &Job, chosen: &TaskSelection, now: Time) -> Vec<Group> {
    type Key = (Resources, usize, Option<Time>);
    let mut groups: Vec<(Key, Group)> = Vec::new();
    for (index, task) in job.tasks().filter(|(index, _)| chosen.contains(*index)) {
        let TaskState::Pending { since, not_before, .. } = task.state else { continue };
        let ask = Ask::of(job, index);
        let not_before = (not_before > now).then_some(not_before);
        let key = (ask.limit, ask.ports, not_before);
        if let Some((_, group)) = groups.iter_mut().find(|(other, _)| *other == key) {
            group.since = group.since.min(since);
            add(&mut group.tasks, index);
            continue;
        }
        let last_end = task.last_life.as_ref().map(|life| life.end.clone());
        let group = explain(cell, ask, index, since, not_before, last_end);
        groups.push((key, group));
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn add(ranges: &mut Vec<(TaskIndex, TaskIndex)>, index: TaskIndex) {
    match ranges.last_mut() {
        Some((_, last)) if last.next() == index => *last = index,
        _ => ranges.push((index, index)),
    }
}

fn explain(
    cell: &Cell,
    ask: Ask,
    index: TaskIndex,
    since: Time,
    not_before: Option<Time>,
    last_end: Option<End>,
) -> Group {
    let mut kinds: BTreeMap<Kind, (usize, Option<(MachineId, Misfit)>)> = BTreeMap::new();
    let (mut fitting, mut change) = (0, None);
    for machine in cell.machines() {
        let Err(misfit) = fits(&ask, &Offer::of(machine)) else {
            fitting += 1;
            continue;
        };
        let (count, nearest) = kinds.entry(kind(misfit)).or_default();
        *count += 1;
        if nearest.is_none_or(|(_, nearest)| missing(misfit) < missing(nearest)) {
            *nearest = Some((machine.id, misfit));
        }
        change = smaller(change, only_change(&ask, machine));
    }
    let mut reasons: Vec<Reason> = kinds
        .into_iter()
        .map(|(kind, (machines, nearest))| reason(cell, kind, machines, nearest))
        .collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.machines));
    Group {
        tasks: vec![(index, index)],
        since,
        ask,
        not_before,
        last_end,
        machines: cell.machine_count(),
        fits: fitting,
        reasons,
        smallest_change: change.filter(|_| fitting == 0),
    }
}

fn kind(misfit: Misfit) -> Kind {
    match misfit {
        Misfit::NotUp => Kind::NotUp,
        Misfit::TooSmall { dimension, .. } => Kind::TooSmall(dimension),
        Misfit::Lacks { dimension, .. } => Kind::Lacks(dimension),
        Misfit::LacksPorts { .. } => Kind::LacksPorts,
    }
}

fn missing(misfit: Misfit) -> u64 {
    match misfit {
        Misfit::NotUp => u64::MAX,
        Misfit::TooSmall { asked, has, .. } => asked - has,
        Misfit::Lacks { asked, free, .. } => asked - free,
        Misfit::LacksPorts { asked, free } => (asked - free) as u64,
    }
}

fn reason(
    cell: &Cell,
    kind: Kind,
    machines: usize,
    nearest: Option<(MachineId, Misfit)>,
) -> Reason {
    let one = machines == 1;
    let text = match kind {
        Kind::NotUp if one => "is not up".to_owned(),
        Kind::NotUp => "are not up".to_owned(),
        Kind::TooSmall(dimension) if one => format!("is too small ({dimension})"),
        Kind::TooSmall(dimension) => format!("are too small ({dimension})"),
        Kind::Lacks(dimension) if one => format!("lacks {dimension}"),
        Kind::Lacks(dimension) => format!("lack {dimension}"),
        Kind::LacksPorts if one => "lacks ports".to_owned(),
        Kind::LacksPorts => "lack ports".to_owned(),
    };
    let nearest = nearest
        .filter(|_| kind != Kind::NotUp)
        .and_then(|(machine, misfit)| Some((cell.machine(machine)?.name.clone(), misfit)));
    Reason { machines, text, nearest }
}

/// The change of one dimension alone that would make the task fit on the machine now.
fn only_change(ask: &Ask, machine: &Machine) -> Option<Change> {
    let mut offer = Offer::of(machine);
    let dimension = ask.limit.first_above(&offer.free)?;
    let (from, to) = (ask.limit.get(dimension), offer.free.get(dimension));
    offer.free = more(offer.free, dimension, from);
    // The rest fits: only the free room of this dimension stands in the way.
    let others =
        Dimension::ALL.into_iter().all(|other| ask.limit.get(other) <= offer.free.get(other));
    let up = matches!(machine.state, cell::MachineState::Up);
    (to > 0 && up && others && ask.ports <= offer.free_ports).then_some(Change {
        dimension,
        from,
        to,
    })
}

fn more(mut free: Resources, dimension: Dimension, amount: u64) -> Resources {
    match dimension {
        Dimension::Cpu => free.cpu.0 = amount,
        Dimension::Ram => free.ram.0 = amount,
        Dimension::Disk => free.disk.0 = amount,
        Dimension::DiskRate => free.disk_rate.0 = amount,
    }
    free
}

/// The change that takes the smaller share of what is asked.
fn smaller(one: Option<Change>, other: Option<Change>) -> Option<Change> {
    let kept = |change: &Change| u128::from(change.to) * 1_000_000 / u128::from(change.from.max(1));
    match (one, other) {
        (Some(one), Some(other)) => Some(if kept(&other) > kept(&one) { other } else { one }),
        (one, other) => one.or(other),
    }
}

impl Reason {
    /// The nearest miss as people read it: `61 GiB asked; the nearest miss has 60.2 GiB free, on
    /// m214`; empty where there is none.
    #[must_use]
    pub fn nearest_text(&self) -> String {
        let Some((machine, misfit)) = &self.nearest else { return String::new() };
        let (asked, has) = match misfit {
            Misfit::NotUp => return String::new(),
            Misfit::TooSmall { dimension, asked, has } => {
                (dimension.show(*asked), format!("{} in all", dimension.show(*has)))
            }
            Misfit::Lacks { dimension, asked, free } => {
                (dimension.show(*asked), format!("{} free", dimension.show(*free)))
            }
            Misfit::LacksPorts { asked, free } => (asked.to_string(), format!("{free} free")),
        };
        match self.machines {
            1 => format!("{asked} asked; {machine} has {has}"),
            _ => format!("{asked} asked; the nearest miss has {has}, on {machine}"),
        }
    }
}

impl std::fmt::Display for Change {
    /// `ram 61 GiB → 60.2 GiB`, in the words of a job description.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let field = match self.dimension {
            Dimension::Cpu => "cpu",
            Dimension::Ram => "ram",
            Dimension::Disk => "disk",
            Dimension::DiskRate => "diskRate",
        };
        write!(f, "{field} {} → {}", self.dimension.show(self.from), self.dimension.show(self.to))
    }
}

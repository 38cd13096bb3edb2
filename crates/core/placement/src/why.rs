//! "Why is it pending?" (paper, section 2.6): for each distinct request of pending tasks, how many
//! machines fail which check, the nearest miss, and the smallest change that would let it start
//! now. The checks are those of a pass.

mod ahead;
mod change;
mod checks;
mod preemption;
mod rules;
mod smallest;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use cell::feasibility::{
    CountedAt, PortUse, Request, UnschedulableReason, VariantsOfPackage, fits,
};
use cell::{Cell, Job, NoVolume, PendingCause, TaskState, VolumeAsk};
use model::{
    Dimension, End, InstanceId, MachineId, MachineName, PackageKind, Resources, TaskIndex,
    TaskSelection, Time,
};
use spec::Constraint;

use self::change::{better, only_change};
use self::checks::EveryFailure;
use crate::Kept;
use crate::room::{OpenPlace, places};

pub use self::ahead::{Ahead, AheadJob, ahead};
pub use self::change::Change;
pub use self::checks::FailedCheck;
pub use self::preemption::{Preemption, preemption};
pub use self::rules::{MaximumRule, maximum_rules};
pub use self::smallest::{ForAll, for_all};

mod gang;

pub use gang::{WaitingGang, gang};

/// Maximum number of groups that are explained: for each of them every machine is checked.
const GROUPS_MAX: usize = 100;

/// Why tasks are pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why<'a> {
    /// Groups with the same request: the first hundred.
    pub groups: Vec<Group<'a>>,
    /// Number of pending tasks in no listed group.
    pub more: u32,
}

/// Pending tasks with the same request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// The tasks, as inclusive ranges.
    pub tasks: Vec<(TaskIndex, TaskIndex)>,
    /// Since when the longest-waiting of them is pending.
    pub since: Time,
    /// Why the first of them is pending.
    pub cause: PendingCause,
    /// What each of them requests.
    pub ask: Request<'a>,
    /// None of them is placed before this time, if it is in the future.
    pub not_before: Option<Time>,
    /// How the previous incarnation of the first of them ended.
    pub last_end: Option<End>,
    /// Number of machines in the cell; or of allocs in the alloc set in which they run.
    pub machines: usize,
    /// Number of machines, or allocs, on which one of them fits now.
    pub fits: usize,
    /// Why it does not fit on the others, most frequent first.
    pub reasons: Vec<Reason>,
    /// The smallest change of the request that would let one of them start now.
    pub smallest_change: Option<Change>,
    /// Every check that fails on some machine, most frequent first: a machine counts under each that it fails.
    pub failed: Vec<FailedCheck>,
    /// The only machine on which the task may run, if its job has one task on every machine: nothing was compared with
    /// others.
    pub own_machine: Option<MachineName>,
}

/// Why a task does not fit on some machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Number of machines.
    pub machines: usize,
    /// The failed check as text: `lack RAM`.
    pub text: String,
    /// The machine that misses least, if that can be measured.
    pub nearest: Option<MachineName>,
    /// The requested and available amounts as text; may be empty.
    pub nearest_text: String,
}

/// The kind of an unschedulable reason: machines that fail alike are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Lacks(Dimension),
    LacksPorts,
    LacksAddresses,
    LacksCores,
    TooFewCores,
    NoWholeCores,
    NoTaskNetwork,
    AllocNetwork(bool),
    AllocPort(u16),
    PortTaken(u16),
    PortOfMachine(u16),
    PortOfProgram(u16),
    Maximum(CountedAt),
    TooSmall(Dimension),
    Short(Dimension),
    LatelyShort(Dimension),
    Constraint(Box<Constraint>),
    NoVariant {
        /// The package, with what it is called: `image ana/web@1`.
        package: String,
        architecture: Box<str>,
    },
    Volume(Box<NoVolume>),
    /// The task is that of another machine.
    OtherMachine,
    Draining,
    Unreachable,
    NotUp,
    NotReady,
    /// An alloc is on no machine, or about to leave it.
    NotPlaced,
    /// The room is kept for tasks of higher priority that wait for their retry.
    Kept,
}

/// The key of a request: limits and reservations in the order of [`Dimension::ALL`], ports, static ports,
/// whether its network is its own, constraints, packages that are only for some architectures, volumes, the only machine.
type Key<'a> = (
    [u64; 4],
    [u64; 4],
    usize,
    Vec<u16>,
    bool,
    &'a [Constraint],
    Vec<VariantsOfPackage>,
    Option<Box<VolumeAsk>>,
    Option<MachineId>,
);

/// Explains the pending tasks among the selected ones of a job; groups are ordered by their first
/// task.
#[must_use]
pub fn why<'a>(cell: &Cell, job: &'a Job, chosen: &TaskSelection, now: Time) -> Why<'a> {
    grouped(cell, job, chosen, now, |state| match *state {
        TaskState::Pending { since, not_before, cause } => {
            Some(WaitingTask { since, not_before, cause })
        }
        _ => None,
    })
}

/// The same of tasks whose job waits for other jobs: what they would meet if it started now.
#[must_use]
pub fn why_queued<'a>(cell: &Cell, job: &'a Job, chosen: &TaskSelection, now: Time) -> Why<'a> {
    grouped(cell, job, chosen, now, |state| match *state {
        TaskState::Queued { since } => {
            Some(WaitingTask { since, not_before: now, cause: PendingCause::Submitted })
        }
        _ => None,
    })
}

/// How a task waits.
struct WaitingTask {
    since: Time,
    not_before: Time,
    cause: PendingCause,
}

fn grouped<'a>(
    cell: &Cell,
    job: &'a Job,
    chosen: &TaskSelection,
    now: Time,
    waits: impl Fn(&TaskState) -> Option<WaitingTask>,
) -> Why<'a> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut more = 0;
    let mut places: BTreeMap<Key<'_>, usize> = BTreeMap::new();
    let kept = Kept::in_cell(cell, now);
    for index in chosen.of(job.size()) {
        let Some(task) = job.task(index) else { continue };
        let Some(WaitingTask { since, not_before, cause }) = waits(&task.state) else { continue };
        let not_before = (not_before > now).then_some(not_before);
        let ask = Request::of(cell, job, index);
        let amounts = |of: &Resources| Dimension::ALL.map(|dimension| of.get(dimension));
        let (limit, reservation) = (amounts(&ask.demand.limit), amounts(&ask.demand.reservation));
        let (own, limited) = (ask.network.is_own(), ask.variants.to_vec());
        let (volumes, own_machine) = (ask.volumes.clone(), ask.machine);
        let fixed: Vec<u16> = ask.static_ports.values().copied().collect();
        let key = (
            limit,
            reservation,
            ask.ports,
            fixed,
            own,
            ask.constraints,
            limited,
            volumes,
            own_machine,
        );
        if groups.len() >= GROUPS_MAX && !places.contains_key(&key) {
            more += 1;
            continue;
        }
        let place = *places.entry(key).or_insert(groups.len());
        if let Some(group) = groups.get_mut(place) {
            group.since = group.since.min(since);
            // `None` sorts first: one task that need not wait is enough.
            group.not_before = group.not_before.min(not_before);
            add(&mut group.tasks, index);
            continue;
        }
        let last_end = task.last_incarnation.as_ref().map(|incarnation| incarnation.end.clone());
        let own_machine = ask.machine.and_then(|id| cell.machine(id));
        let own_machine = own_machine.map(|machine| machine.name.clone());
        let found = explain(cell, job, index, &ask, &kept);
        groups.push(Group {
            tasks: vec![(index, index)],
            since,
            cause,
            ask,
            not_before,
            last_end,
            machines: found.places,
            fits: found.fits,
            reasons: found.reasons,
            smallest_change: found.change,
            failed: found.failed,
            own_machine,
        });
    }
    Why { groups, more }
}

fn add(ranges: &mut Vec<(TaskIndex, TaskIndex)>, index: TaskIndex) {
    match ranges.last_mut() {
        Some((_, last)) if last.next() == index => *last = index,
        _ => ranges.push((index, index)),
    }
}

/// The result of checking a request against every machine, or every alloc.
struct Explanation {
    places: usize,
    fits: usize,
    reasons: Vec<Reason>,
    change: Option<Change>,
    failed: Vec<FailedCheck>,
}

/// Machines that fail the same check, or have no room beside what is kept.
#[derive(Default)]
struct SameFailure {
    machines: usize,
    nearest: Option<(MachineId, UnschedulableReason)>,
    /// The values they have instead of what a constraint requires, with their counts.
    values: BTreeMap<Box<str>, usize>,
    /// A task for which the room of one of them is kept.
    kept: Option<Kept>,
}

fn explain(
    cell: &Cell,
    job: &Job,
    index: TaskIndex,
    ask: &Request<'_>,
    kept: &BTreeMap<MachineId, Vec<Kept>>,
) -> Explanation {
    let mut found = ByKind::default();
    let priority = job.described(index).priority;
    let there = places(cell, job, ask, priority, kept);
    if there.unplaced_allocs > 0 {
        found.places += there.unplaced_allocs;
        found.failed.add_alone(Kind::NotPlaced, there.unplaced_allocs);
        found.kinds.entry(Kind::NotPlaced).or_default().machines += there.unplaced_allocs;
    }
    for place in &there.all {
        found.add(ask, place);
    }
    let ByKind { places, fitting, kinds, change, failed } = found;
    let failed = failed.into_listed();
    let mut reasons: Vec<Reason> =
        kinds.into_iter().map(|(kind, alike)| reason(cell, &kind, alike)).collect();
    reasons.sort_by_key(|reason| Reverse(reason.machines));
    let change = change.filter(|_| fitting == 0);
    Explanation { places, fits: fitting, reasons, change, failed }
}

/// The machines or allocs by failed check, and the smallest change that would suffice.
#[derive(Default)]
struct ByKind {
    places: usize,
    fitting: usize,
    kinds: BTreeMap<Kind, SameFailure>,
    change: Option<Change>,
    failed: EveryFailure,
}

impl ByKind {
    fn add(&mut self, ask: &Request<'_>, place: &OpenPlace<'_>) {
        let OpenPlace { offer, kept } = place;
        self.places += 1;
        let Err(unschedulable_reason) = fits(ask, offer) else {
            if fits(ask, &place.left()).is_ok() {
                self.fitting += 1;
            } else {
                self.failed.add_alone(Kind::Kept, 1);
                let alike = self.kinds.entry(Kind::Kept).or_default();
                alike.machines += 1;
                alike.kept = alike.kept.take().or(kept.first().map(|kept| (**kept).clone()));
            }
            return;
        };
        self.failed.add(ask, offer);
        let alike = self.kinds.entry(kind(&unschedulable_reason)).or_default();
        alike.machines += 1;
        if let UnschedulableReason::Constraint { has: Some(has), .. } = &unschedulable_reason {
            *alike.values.entry(has.clone()).or_default() += 1;
        }
        if alike
            .nearest
            .as_ref()
            .is_none_or(|(_, nearest)| missing(&unschedulable_reason) < missing(nearest))
        {
            alike.nearest = Some((offer.machine.id, unschedulable_reason));
        }
        self.change = better(self.change.take(), only_change(ask, offer));
    }
}

fn kind(unschedulable_reason: &UnschedulableReason) -> Kind {
    match unschedulable_reason {
        UnschedulableReason::OtherMachine => Kind::OtherMachine,
        UnschedulableReason::NotUp => Kind::NotUp,
        UnschedulableReason::Unreachable => Kind::Unreachable,
        UnschedulableReason::Draining => Kind::Draining,
        UnschedulableReason::NotReady => Kind::NotReady,
        UnschedulableReason::Constraint { constraint, .. } => Kind::Constraint(constraint.clone()),
        UnschedulableReason::NoVariant { package, kind, architecture } => {
            let what = if *kind == PackageKind::Image { "image" } else { "package" };
            let architecture = architecture.clone();
            Kind::NoVariant { package: format!("{what} {package}"), architecture }
        }
        UnschedulableReason::Volume(why) => Kind::Volume(why.clone()),
        UnschedulableReason::TooSmall { dimension, .. } => Kind::TooSmall(*dimension),
        UnschedulableReason::Lacks { dimension, .. } => Kind::Lacks(*dimension),
        UnschedulableReason::LacksPorts { .. } => Kind::LacksPorts,
        UnschedulableReason::LacksAddresses { range: None } => Kind::NoTaskNetwork,
        UnschedulableReason::LacksAddresses { range: Some(_) } => Kind::LacksAddresses,
        UnschedulableReason::LacksCores { all: 0, .. } => Kind::NoWholeCores,
        UnschedulableReason::LacksCores { asked, all, .. } if asked > all => Kind::TooFewCores,
        UnschedulableReason::LacksCores { .. } => Kind::LacksCores,
        UnschedulableReason::AllocNetwork { own } => Kind::AllocNetwork(*own),
        UnschedulableReason::AllocPort { number, .. } => Kind::AllocPort(*number),
        UnschedulableReason::StaticPort { number, by, .. } => match by {
            PortUse::Task => Kind::PortTaken(*number),
            PortUse::Range(_) => Kind::PortOfMachine(*number),
            PortUse::Borglet | PortUse::Program(_) => Kind::PortOfProgram(*number),
        },
        UnschedulableReason::Maximum { place, .. } => Kind::Maximum(*place),
        UnschedulableReason::Short { of } => Kind::Short(*of),
        UnschedulableReason::LatelyShort { of, .. } => Kind::LatelyShort(*of),
    }
}

/// The missing amount; a reason that cannot be measured counts as the largest.
fn missing(unschedulable_reason: &UnschedulableReason) -> u64 {
    match unschedulable_reason {
        UnschedulableReason::OtherMachine
        | UnschedulableReason::NotUp
        | UnschedulableReason::Unreachable
        | UnschedulableReason::Draining
        | UnschedulableReason::NotReady
        | UnschedulableReason::Short { .. }
        | UnschedulableReason::NoVariant { .. }
        | UnschedulableReason::Volume(_)
        | UnschedulableReason::Constraint { .. } => u64::MAX,
        UnschedulableReason::TooSmall { asked, has, .. } => asked - has,
        UnschedulableReason::Lacks { asked, free, .. }
        | UnschedulableReason::LatelyShort { asked, free, .. } => asked - free,
        UnschedulableReason::LacksPorts { asked, free, .. } => (asked - free) as u64,
        UnschedulableReason::LacksCores { asked, free, all: 1.. } => asked - free,
        UnschedulableReason::Maximum { has, most, .. } => u64::from(has - most).saturating_add(1),
        UnschedulableReason::LacksCores { all: 0, .. }
        | UnschedulableReason::AllocNetwork { .. }
        | UnschedulableReason::AllocPort { .. }
        | UnschedulableReason::StaticPort { .. }
        | UnschedulableReason::LacksAddresses { range: None } => u64::MAX,
        UnschedulableReason::LacksAddresses { range: Some(_) } => 1,
    }
}

/// The failed check as text, of one machine or several: `lack RAM`.
fn words(kind: &Kind, one: bool) -> String {
    let verb = |single: &str, plural: &str| if one { single.to_owned() } else { plural.to_owned() };
    match kind {
        Kind::NotPlaced => format!("{} on no machine", verb("is", "are")),
        Kind::OtherMachine => format!("{} not its machine", verb("is", "are")),
        Kind::NotUp => format!("{} not up", verb("is", "are")),
        Kind::Unreachable => format!("{} unreachable", verb("is", "are")),
        Kind::Draining => format!("{} draining", verb("is", "are")),
        Kind::NotReady => format!("{} not ready: no task can run there", verb("is", "are")),
        Kind::Constraint(constraint) => format!("{} not match {constraint}", verb("does", "do")),
        Kind::NoVariant { package, architecture } => {
            format!("{} {architecture}, for which {package} has no variant", verb("is", "are"))
        }
        Kind::Volume(why) => match (&**why, one) {
            (why, true) => why.to_string(),
            (NoVolume::Missing { asked }, false) => format!("have no volume {asked}"),
            (NoVolume::Elsewhere { bound }, false) => {
                format!("have not its data, which is in {bound}")
            }
            (why, false) => format!("each {why}"),
        },
        Kind::TooSmall(dimension) => format!("{} too small ({dimension})", verb("is", "are")),
        Kind::Short(dimension) => format!(
            "{} short of {dimension}, and no task below production is added",
            verb("is", "are")
        ),
        Kind::LatelyShort(dimension) => format!(
            "{} short of {dimension} lately, and an eighth of it is kept free",
            verb("was", "were")
        ),
        Kind::Lacks(dimension) => format!("{} {dimension}", verb("lacks", "lack")),
        Kind::LacksPorts => format!("{} ports", verb("lacks", "lack")),
        Kind::LacksAddresses => format!("{} addresses", verb("lacks", "lack")),
        Kind::LacksCores => format!("{} whole cores", verb("lacks", "lack")),
        Kind::TooFewCores => format!("{} too few whole cores for tasks", verb("has", "have")),
        Kind::NoWholeCores => format!(
            "{} no whole cores: see the attributes cpu-isolation and exclusive-cores",
            verb("offers", "offer")
        ),
        Kind::NoTaskNetwork => format!(
            "{} no network for tasks: start the Borglet with --task-network RANGE",
            verb("has", "have")
        ),
        Kind::AllocNetwork(own) => {
            let is = match own {
                true => format!("{} in the network of the host", verb("is", "are")),
                false => verb("has a network of its own", "have networks of their own"),
            };
            let wants = if *own { "one of its own" } else { "that of the host" };
            format!("{is}, and the job wants {wants}: give it and its alloc set the same network")
        }
        Kind::AllocPort(number) => {
            format!("{} port {number} taken by another task in the alloc", verb("has", "have"))
        }
        Kind::PortTaken(number) => {
            format!("{} port {number} taken by another task", verb("has", "have"))
        }
        Kind::PortOfMachine(number) => format!(
            "{} port {number} {} to tasks without a static number",
            verb("gives", "give"),
            verb("itself", "themselves")
        ),
        Kind::PortOfProgram(number) => {
            format!("{} port {number} taken by a program that is not its task", verb("has", "have"))
        }
        Kind::Maximum(place) => {
            let (has, place) = (verb("has", "have"), place.to_string());
            format!("{has} the maximum number of tasks of the job {place}")
        }
        Kind::Kept => format!(
            "{} the room for a task of higher priority that is retried soon",
            verb("keeps", "keep")
        ),
    }
}

fn reason(cell: &Cell, kind: &Kind, alike: SameFailure) -> Reason {
    let SameFailure { machines, nearest, values, kept } = alike;
    let one = machines == 1;
    let text = words(kind, one);
    let user = nearest.as_ref().and_then(|(id, reason)| port_user(cell, *id, reason, one));
    let measured =
        nearest.filter(|(_, unschedulable_reason)| missing(unschedulable_reason) < u64::MAX);
    let nearest = measured.and_then(|(id, unschedulable_reason)| {
        Some((&cell.machine(id)?.name, unschedulable_reason))
    });
    let nearest_text = match &nearest {
        Some((machine, unschedulable_reason)) => miss(unschedulable_reason, machines, machine),
        None => match kept
            .and_then(|kept| Some((cell.job(kept.instance.collection)?, kept.instance)))
        {
            Some((job, instance)) => format!("{}/{}/{}", job.owner, job.spec.name, instance.index),
            None => match kind {
                Kind::Constraint(constraint) if values.is_empty() => {
                    let attribute = constraint.attribute.escape_debug();
                    match one {
                        true => format!("it has no attribute {attribute}"),
                        false => format!("none of them has the attribute {attribute}"),
                    }
                }
                _ => user.unwrap_or_else(|| others(&values)),
            },
        },
    };
    Reason { machines, text, nearest: nearest.map(|(name, _)| name.clone()), nearest_text }
}

/// Who has a static port on a machine: `ana/web/0 on m1, …`.
fn port_user(
    cell: &Cell,
    id: MachineId,
    unschedulable_reason: &UnschedulableReason,
    one: bool,
) -> Option<String> {
    let UnschedulableReason::StaticPort { number, by, .. } = unschedulable_reason else {
        return None;
    };
    let machine = cell.machine(id)?;
    let who = match by {
        PortUse::Task => {
            let has = |instance: &&InstanceId| {
                let placed = cell.placement(**instance);
                placed.is_some_and(|placed| placed.machine_ports().contains(number))
            };
            let instance = machine.instances().iter().find(has)?;
            let job = cell.job(instance.collection)?;
            format!("{}/{}/{}", job.owner, job.spec.name, instance.index)
        }
        PortUse::Range(range) => return Some(format!("{} has the range {range}", machine.name)),
        PortUse::Borglet => "the Borglet".to_owned(),
        PortUse::Program(name) => name.to_string(),
    };
    let more = if one { "" } else { ", …" };
    Some(format!("{who} on {}{more}", machine.name))
}

/// The most frequent value that machines have instead of what a constraint requires.
fn others(values: &BTreeMap<Box<str>, usize>) -> String {
    let most = values.iter().max_by_key(|(value, count)| (**count, Reverse(*value)));
    let Some((value, count)) = most else { return String::new() };
    let (value, has) = (value.escape_debug(), if *count == 1 { "has" } else { "have" });
    format!("{count} of them {has} \"{value}\"")
}

/// The requested amount, and what the nearest miss has.
fn miss(
    unschedulable_reason: &UnschedulableReason,
    machines: usize,
    machine: &MachineName,
) -> String {
    let (asked, has) = match unschedulable_reason {
        UnschedulableReason::OtherMachine
        | UnschedulableReason::NotUp
        | UnschedulableReason::Unreachable
        | UnschedulableReason::Draining
        | UnschedulableReason::NotReady
        | UnschedulableReason::Short { .. }
        | UnschedulableReason::Constraint { .. }
        | UnschedulableReason::NoVariant { .. }
        | UnschedulableReason::Volume(_)
        | UnschedulableReason::AllocNetwork { .. }
        | UnschedulableReason::AllocPort { .. }
        | UnschedulableReason::StaticPort { .. }
        | UnschedulableReason::LacksCores { all: 0, .. }
        | UnschedulableReason::LacksAddresses { range: None } => return String::new(),
        UnschedulableReason::Maximum { has, most, .. } => {
            return match machines {
                1 => format!("{most} allowed; {machine} has {has}"),
                _ => format!("{most} allowed; the nearest miss has {has}, on {machine}"),
            };
        }
        UnschedulableReason::LacksCores { asked, all, .. } if asked > all => {
            (asked.to_string(), format!("{all} in all"))
        }
        UnschedulableReason::LacksCores { asked, free, all } => {
            (asked.to_string(), format!("{free} free of the {all} that tasks can have"))
        }
        UnschedulableReason::LacksAddresses { range: Some(range) } => {
            ("1".to_owned(), format!("0 free of the {} in {range}", range.task_count()))
        }
        UnschedulableReason::TooSmall { dimension, asked, has } => {
            (dimension.show(*asked), format!("{} in all", dimension.show(*has)))
        }
        UnschedulableReason::Lacks { dimension, asked, free }
        | UnschedulableReason::LatelyShort { of: dimension, asked, free } => {
            (dimension.show(*asked), format!("{} free", dimension.show(*free)))
        }
        UnschedulableReason::LacksPorts { asked, free, held: None } => {
            (asked.to_string(), format!("{free} free"))
        }
        UnschedulableReason::LacksPorts { asked, free, held: Some(held) } => {
            (asked.to_string(), format!("{free} free, {held}"))
        }
    };
    match machines {
        1 => format!("{asked} asked; {machine} has {has}"),
        _ => format!("{asked} asked; the nearest miss has {has}, on {machine}"),
    }
}

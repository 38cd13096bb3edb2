//! "Why is it pending?" (paper, section 2.6): for each distinct request of pending tasks, how many
//! machines fail which check, the nearest miss, and the smallest change that would let it start
//! now. The checks are those of a pass.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use cell::feasibility::{
    Colocated, CountedAt, Offer, PortUse, Request, UnschedulableReason, VariantsOfPackage, fits,
    maxima, static_ports, variants,
};
use cell::{Cell, Job, MachineState, NoVolume, PendingCause, TaskState, VolumeAsk};
use model::{
    Dimension, End, InstanceId, MachineId, MachineName, PackageKind, Resources, TaskIndex,
    TaskSelection, Time,
};
use spec::Constraint;

use crate::Kept;

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

/// A change of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Request less in one dimension.
    Less {
        /// The dimension.
        dimension: Dimension,
        /// The amount requested now.
        from: u64,
        /// The amount that would fit now.
        to: u64,
    },
    /// Drop a constraint.
    Without(Constraint),
    /// Allow more tasks of the job in one place.
    HigherMaximum {
        /// Where they are counted.
        place: CountedAt,
        /// The maximum now.
        from: u32,
        /// One that would do.
        to: u32,
    },
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
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut more = 0;
    let mut places: BTreeMap<Key<'_>, usize> = BTreeMap::new();
    let kept = Kept::in_cell(cell, now);
    for index in chosen.of(job.size()) {
        let Some(task) = job.task(index) else { continue };
        let TaskState::Pending { since, not_before, cause } = task.state else { continue };
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
    match job.alloc_set.and_then(|set| cell.job(set)) {
        None => {
            let own = ask.machine;
            for machine in cell.machines().filter(|it| own.is_none_or(|own| own == it.id)) {
                let kept = kept.get(&machine.id).into_iter().flatten();
                let kept: Vec<_> = kept.filter(|kept| kept.is_from(priority)).collect();
                found.add(ask, &Offer::to(cell, job, machine), &kept);
            }
        }
        Some(set) => {
            for (index, alloc) in set.tasks() {
                let placed = match &alloc.state {
                    TaskState::Running(placed) if placed.stop.is_none() => {
                        cell.machine(placed.machine)
                    }
                    _ => None,
                };
                let (Some(machine), Some(alloc)) = (placed, set.instance(index)) else {
                    found.places += 1;
                    found.kinds.entry(Kind::NotPlaced).or_default().machines += 1;
                    continue;
                };
                let colocated = Colocated::of(cell, job, machine);
                found.add(ask, &Offer { colocated, ..Offer::within(cell, machine, alloc) }, &[]);
            }
        }
    }
    let ByKind { places, fitting, kinds, change } = found;
    let mut reasons: Vec<Reason> =
        kinds.into_iter().map(|(kind, alike)| reason(cell, &kind, alike)).collect();
    reasons.sort_by_key(|reason| Reverse(reason.machines));
    Explanation { places, fits: fitting, reasons, change: change.filter(|_| fitting == 0) }
}

/// The machines or allocs by failed check, and the smallest change that would suffice.
#[derive(Default)]
struct ByKind {
    places: usize,
    fitting: usize,
    kinds: BTreeMap<Kind, SameFailure>,
    change: Option<Change>,
}

impl ByKind {
    fn add(&mut self, ask: &Request<'_>, offer: &Offer<'_>, kept: &[&Kept]) {
        self.places += 1;
        let Err(unschedulable_reason) = fits(ask, offer) else {
            let left = kept.iter().fold(*offer, |offer, kept| kept.taken_from(offer));
            if fits(ask, &left).is_ok() {
                self.fitting += 1;
            } else {
                let alike = self.kinds.entry(Kind::Kept).or_default();
                alike.machines += 1;
                alike.kept = alike.kept.take().or(kept.first().map(|kept| (*kept).clone()));
            }
            return;
        };
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

fn reason(cell: &Cell, kind: &Kind, alike: SameFailure) -> Reason {
    let SameFailure { machines, nearest, values, kept } = alike;
    let one = machines == 1;
    let verb = |single: &str, plural: &str| if one { single.to_owned() } else { plural.to_owned() };
    let text = match kind {
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
    };
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

/// The single change that would make the task fit on a machine now.
fn only_change(ask: &Request<'_>, offer: &Offer<'_>) -> Option<Change> {
    let machine = offer.machine;
    // No other change gives it an address, or another network of the alloc.
    if offer.alloc.is_some_and(|alloc| alloc.own_network != ask.network.is_own())
        || offer.alloc.is_none() && ask.network.is_own() && offer.free_addresses == 0
    {
        return None;
    }
    // Nor does it get a port that another has.
    if static_ports::check(ask, offer).is_err() {
        return None;
    }
    if let Err(UnschedulableReason::Maximum { place, has, most }) = maxima::check(ask, offer) {
        let change = Change::HigherMaximum { place, from: most, to: has.saturating_add(1) };
        return fits(&with_higher_maximum(ask, place), offer).is_ok().then_some(change);
    }
    let whole = machine.whole_cores(ask.demand.limit.cpu);
    let volumes = ask.volumes.as_ref();
    if volumes.is_some_and(|volumes| volumes.find(machine).is_err())
        || ask.demand.exclusive && whole > offer.free_cores
        || machine.state != MachineState::Up
        || machine.is_set_aside()
        || machine.drain.is_some()
    {
        return None;
    }
    // Neither less nor fewer constraints make a variant for its architecture.
    if variants::check(ask, offer).is_err() {
        return None;
    }
    // Less would help only on a machine that was short and is not any more, until it has forgotten it.
    if !ask.demand.prod && offer.alloc.is_none() && machine.report.shortage.is_some() {
        return None;
    }
    let mut unmatched = ask
        .constraints
        .iter()
        .filter(|constraint| constraint.hard && !constraint.matches(machine.attributes()));
    let (constraint, another) = (unmatched.next(), unmatched.next().is_some());
    // Production is also limited by its limits, and by what they leave.
    let room = |dimension: Dimension| {
        let (demand, free) = (&ask.demand, offer.free.get(dimension));
        match demand.prod {
            true => (demand.limit.get(dimension), free.min(offer.free_for_prod.get(dimension))),
            false => (demand.reservation.get(dimension), free),
        }
    };
    let above = |dimension: &Dimension| {
        let (asked, free) = room(*dimension);
        asked > free
    };
    let mut lacking = Dimension::ALL.into_iter().filter(above);
    match (constraint, lacking.next(), ask.ports <= offer.free_ports) {
        (Some(constraint), None, true) if !another => Some(Change::Without(constraint.clone())),
        (None, Some(dimension), true) if lacking.next().is_none() => {
            let (from, to) = room(dimension);
            (to > 0).then_some(Change::Less { dimension, from, to })
        }
        _ => None,
    }
}

/// The request without the maximum there.
fn with_higher_maximum<'a>(ask: &Request<'a>, place: CountedAt) -> Request<'a> {
    let ask = ask.clone();
    match place {
        CountedAt::Machine => Request { max_per_machine: None, ..ask },
        CountedAt::Switch => Request { max_per_switch: None, ..ask },
    }
}

/// Requesting less is better than dropping a constraint or raising a maximum, keeping more is better than
/// keeping less, and of maxima the lowest is best.
fn better(one: Option<Change>, other: Option<Change>) -> Option<Change> {
    let kept = |change: &Change| match change {
        Change::Less { from, to, .. } => {
            (1 + u128::from(*to) * 1_000_000 / u128::from(*from.max(&1)), Reverse(0))
        }
        Change::Without(_) => (0, Reverse(0)),
        Change::HigherMaximum { to, .. } => (0, Reverse(*to)),
    };
    match (one, other) {
        (Some(one), Some(other)) => Some(if kept(&other) > kept(&one) { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// `ram 61 GiB → 60 GiB`, `without gpu = "h200"`, `maxPerMachine 1 → 2`.
impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (dimension, from, to) = match self {
            Self::Less { dimension, from, to } => (dimension, from, to),
            Self::Without(constraint) => return write!(f, "without {constraint}"),
            Self::HigherMaximum { place, from, to } => {
                let field = match place {
                    CountedAt::Machine => "maxPerMachine",
                    CountedAt::Switch => "maxPerSwitch",
                };
                return write!(f, "{field} {from} → {to}");
            }
        };
        let field = match dimension {
            Dimension::Cpu => "cpu",
            Dimension::Ram => "ram",
            Dimension::Disk => "disk",
            Dimension::DiskRate => "diskRate",
        };
        write!(f, "{field} {} → {}", dimension.show(*from), dimension.show(*to))
    }
}

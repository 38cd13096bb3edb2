//! Faults and when they happen: a list that follows from the seed, and of which any subset can be
//! run again.

use std::fmt;
use std::ops::Range;

use model::{Random, Span};

use crate::disk::Crash;
use crate::network::{Disturbance, Node, Nodes, Trouble};

/// A fault of a given duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it begins, since the beginning of the world.
    pub after: Span,
    /// Its duration; ignored by faults without one.
    pub lasts: Span,
    /// Its kind.
    pub kind: FaultKind,
}

/// The kinds of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A disturbance of part of the network.
    Network(Disturbance),
    /// Machines lose power: one, or a rack.
    Off(Range<usize>),
    /// Machines freeze.
    Frozen(Range<usize>),
    /// A Borglet is killed.
    Borglet(usize),
    /// A Borglet freezes while its tasks keep running.
    BorgletFrozen(usize),
    /// A machine reports half of its memory.
    Smaller(usize),
    /// A program beside the tasks of a machine takes so many thousandths of its memory.
    MemoryTaken(usize, u64),
    /// A task is killed together with its shim: the machine, and the task on it.
    Task(usize, usize),
    /// A master crashes, and is restarted when the fault ends; several masters crash at random
    /// times until then.
    Master(Who, Crash),
    /// A master freezes.
    MasterFrozen(Who),
    /// The scheduler is killed, and restarted when the fault ends.
    Scheduler,
    /// The scheduler freezes.
    SchedulerFrozen,
    /// Every write takes up to this much longer.
    SlowDisk(Who, Span),
    /// A master's disk is full.
    FullDisk(Who),
    /// A master's disk claims to have synced but has not, and loses power in the end. A single
    /// replica's cell is restored from the older checkpoint; one of several replicas is replaced.
    LyingDisk(Who),
    /// The newest checkpoint becomes unreadable, and the master's machine loses power.
    RottenCheckpoint(Who),
    /// A master's machine loses power and restarts with an empty disk, unnoticed. No effect with a
    /// single replica, or if the cell could not replace it.
    EmptyDisk(Who),
    /// An operator restores the older checkpoint.
    Restore,
    /// A rival scheduler makes arbitrary proposals, with any allowed evictions.
    Rival,
    /// A replica is added.
    MoreReplicas,
    /// A replica is removed, and another one added when the fault ends.
    FewerReplicas(Who),
    /// A replica is removed, and another one added at once.
    Replaced(Who),
    /// Leadership is transferred again and again.
    Transfers,
    /// A quarter of the messages between replicas are lost, and half of the time a replica loses
    /// power right after it has voted, and restarts at once.
    Unlucky,
}

/// Selects replicas of the Borgmaster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The leader; the first replica if there is none.
    Elected,
    /// The replica at that position, from 0, among the present ones.
    Nth(usize),
    /// All replicas.
    All,
}

/// A family of faults, for selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Cuts, loss, delay, duplication.
    Network,
    /// Machines and racks that fail, freeze and return; Borglets; tasks.
    Machines,
    /// The master's process.
    Master,
    /// The scheduler's process, and a rival scheduler.
    Scheduler,
    /// The master's disk, and backups.
    Disk,
    /// Membership and leadership of replicas: no effect with one replica.
    Replicas,
    /// Machines that run out of memory.
    Memory,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 7] = [
        Self::Network,
        Self::Machines,
        Self::Master,
        Self::Scheduler,
        Self::Disk,
        Self::Replicas,
        Self::Memory,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Machines => "machines",
            Self::Master => "master",
            Self::Scheduler => "scheduler",
            Self::Disk => "disk",
            Self::Replicas => "replicas",
            Self::Memory => "memory",
        }
    }
}

/// Mean time between faults.
const MEAN_GAP: Span = Span::from_secs(75);
/// Mean duration of a fault.
const MEAN_LENGTH: Span = Span::from_secs(40);
/// Mean duration of a shortage of memory.
const SHORT_LENGTH: Span = Span::from_secs(10);
/// Maximum duration of a fault.
const LENGTH_MAX: Span = Span::from_secs(600);
/// Number of machines in a rack.
pub(crate) const RACK: usize = 4;

/// The faults of a seed within a period. They depend only on the arguments.
#[must_use]
pub fn faults(
    random: &mut Random,
    families: &[Family],
    machines: usize,
    replicas: usize,
    within: Span,
) -> Vec<Fault> {
    let there = |family: &Family| match family {
        Family::Replicas => replicas > 1,
        // They have random numbers of their own.
        Family::Memory => false,
        _ => true,
    };
    let families: Vec<Family> = families.iter().copied().filter(there).collect();
    let mut faults = Vec::new();
    let mut after = Span::from_secs(20);
    loop {
        after = after + random.wait(MEAN_GAP);
        let lasts = random.wait(MEAN_LENGTH).min(LENGTH_MAX);
        if after + lasts > within {
            return faults;
        }
        if let Some(family) = random.one_of(&families) {
            let kind = kind(random, *family, machines, replicas);
            faults.push(Fault { after, lasts, kind });
        }
    }
}

/// Machines that run out of memory within a period, for a short time each.
#[must_use]
pub(crate) fn memory_faults(random: &mut Random, machines: usize, within: Span) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut after = Span::from_secs(60);
    loop {
        after = after + random.wait(MEAN_GAP);
        let lasts = random.wait(SHORT_LENGTH).min(LENGTH_MAX);
        if after + lasts > within {
            return faults;
        }
        let kind = FaultKind::MemoryTaken(random.index(machines), random.within(300..1_001));
        faults.push(Fault { after, lasts, kind });
    }
}

fn kind(random: &mut Random, family: Family, machines: usize, replicas: usize) -> FaultKind {
    let machine = random.index(machines);
    let rack = machine / RACK * RACK;
    let some =
        if random.chance(250) { rack..(rack + RACK).min(machines) } else { machine..machine + 1 };
    let number = random.below(10);
    match family {
        Family::Network if replicas > 1 && number < 5 => {
            FaultKind::Network(between_replicas(random, replicas))
        }
        Family::Network => FaultKind::Network(disturbance(random, some, replicas)),
        Family::Machines => match number {
            0..3 => FaultKind::Off(some),
            3..5 => FaultKind::Frozen(some),
            5..7 => FaultKind::Borglet(machine),
            7 => FaultKind::Task(machine, random.index(4)),
            8 => FaultKind::BorgletFrozen(machine),
            _ => FaultKind::Smaller(machine),
        },
        Family::Scheduler => match number {
            0..2 => FaultKind::Scheduler,
            2..4 => FaultKind::SchedulerFrozen,
            _ => FaultKind::Rival,
        },
        Family::Memory => FaultKind::MemoryTaken(machine, 1_000),
        Family::Master | Family::Disk | Family::Replicas => {
            let who = who(random, replicas);
            of_masters(random, family, number, who, replicas > 1)
        }
    }
}

fn of_masters(
    random: &mut Random,
    family: Family,
    number: u64,
    who: Who,
    several: bool,
) -> FaultKind {
    match family {
        Family::Master => match number {
            0..4 => FaultKind::Master(who, Crash::Killed),
            4..8 => FaultKind::Master(who, Crash::PowerLost),
            _ => FaultKind::MasterFrozen(who),
        },
        Family::Disk => match number {
            0..3 => FaultKind::SlowDisk(who, Span::from_millis(1 << random.below(12))),
            3..6 => FaultKind::FullDisk(who),
            6 => FaultKind::LyingDisk(who),
            7 => FaultKind::Restore,
            8 if several => FaultKind::EmptyDisk(who),
            _ => FaultKind::RottenCheckpoint(who),
        },
        _ => match number {
            0..2 => FaultKind::MoreReplicas,
            2..4 => FaultKind::FewerReplicas(who),
            4..6 => FaultKind::Replaced(who),
            6..8 => FaultKind::Transfers,
            _ => FaultKind::Unlucky,
        },
    }
}

/// The leader about as often as any replica, and sometimes all.
fn who(random: &mut Random, replicas: usize) -> Who {
    if replicas == 1 {
        return Who::Elected;
    }
    match random.below(10) {
        0..4 => Who::Elected,
        4..9 => Who::Nth(random.index(replicas)),
        _ => Who::All,
    }
}

fn trouble(random: &mut Random) -> Trouble {
    match random.below(6) {
        0..3 => Trouble::Cut,
        3 => Trouble::Loss(1 << random.below(9)),
        4 => Trouble::Delay(Span::from_millis(1 << random.below(13))),
        _ => Trouble::Twice(8 << random.below(7)),
    }
}

fn disturbance(random: &mut Random, some: Range<usize>, replicas: usize) -> Disturbance {
    let trouble = trouble(random);
    let both_ways = random.chance(500);
    let other = match random.below(6) {
        0 => Nodes::One(Node::Scheduler),
        1 => Nodes::One(Node::Clients),
        2 => Nodes::All,
        _ => Nodes::Machines(some),
    };
    let swapped = !random.chance(500);
    let master = match replicas {
        1 => Nodes::MASTERS,
        _ if random.chance(300) => Nodes::MASTERS,
        _ => Nodes::One(Node::Master(random.index(replicas))),
    };
    let (from, to) = if swapped { (other, master) } else { (master, other) };
    Disturbance { from, to, both_ways, trouble }
}

/// A disturbance between one replica and the others, or between two groups.
fn between_replicas(random: &mut Random, replicas: usize) -> Disturbance {
    let (trouble, both_ways) = (trouble(random), random.chance(500));
    let part = random.index(replicas.saturating_sub(1)) + 1;
    let one = Nodes::One(Node::Master(random.index(replicas)));
    let (from, to) = match random.below(4) {
        0 => (Nodes::Masters(0..part), Nodes::Masters(part..usize::MAX)),
        1 => (Nodes::MASTERS, one),
        _ => (one, Nodes::MASTERS),
    };
    Disturbance { from, to, both_ways, trouble }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {}, for {}: {}", self.after, self.lasts, self.kind)
    }
}

/// One machine, or the first and last of a range.
struct Machines<'a>(&'a Range<usize>);

impl fmt::Display for Machines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.0.start, self.0.end.saturating_sub(1));
        match first == last {
            true => write!(f, "m{first}"),
            false => write!(f, "m{first} to m{last}"),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(disturbance) => disturbance.fmt(f),
            Self::Off(range) => write!(f, "{} off", Machines(range)),
            Self::Frozen(range) => write!(f, "{} frozen", Machines(range)),
            Self::Borglet(machine) => write!(f, "the Borglet of m{machine} killed"),
            Self::BorgletFrozen(machine) => write!(f, "the Borglet of m{machine} frozen"),
            Self::Smaller(machine) => write!(f, "m{machine} with half of its memory"),
            Self::MemoryTaken(machine, permille) => {
                write!(f, "{permille} ‰ of the memory of m{machine} taken")
            }
            Self::Task(machine, which) => write!(f, "task {which} on m{machine} lost"),
            Self::Master(who, Crash::Killed) => write!(f, "{who} killed"),
            Self::Master(who, Crash::PowerLost) => write!(f, "the machine of {who} off"),
            Self::MasterFrozen(who) => write!(f, "{who} frozen"),
            Self::Scheduler => f.write_str("the scheduler killed"),
            Self::SchedulerFrozen => f.write_str("the scheduler frozen"),
            Self::SlowDisk(who, by) => write!(f, "each write of {who} takes up to {by}"),
            Self::FullDisk(who) => write!(f, "the disk of {who} full"),
            Self::LyingDisk(who) => write!(f, "the disk of {who} lies about syncs"),
            Self::RottenCheckpoint(who) => write!(f, "the newest checkpoint of {who} unreadable"),
            Self::EmptyDisk(who) => write!(f, "the disk of {who} empty"),
            Self::Restore => f.write_str("the older checkpoint loaded"),
            Self::Rival => f.write_str("another scheduler"),
            Self::MoreReplicas => f.write_str("a replica added"),
            Self::FewerReplicas(who) => write!(f, "{who} removed for a while"),
            Self::Replaced(who) => write!(f, "{who} replaced"),
            Self::Transfers => f.write_str("leadership transferred again and again"),
            Self::Unlucky => f.write_str(
                "messages between replicas are often lost, and replicas that have voted often lose power",
            ),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elected => f.write_str("the master"),
            Self::Nth(number) => write!(f, "replica {}", number + 1),
            Self::All => f.write_str("every replica"),
        }
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.both_ways { "and back" } else { "one way" };
        write!(f, "{} from {} to {}, {way}", self.trouble, self.from, self.to)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("nothing arrives"),
            Self::Loss(permille) => write!(f, "{permille} ‰ lost"),
            Self::Delay(most) => write!(f, "up to {most} late"),
            Self::Twice(permille) => write!(f, "{permille} ‰ twice"),
        }
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(Node::Master(number)) => write!(f, "replica {}", number + 1),
            Self::One(Node::Scheduler) => f.write_str("the scheduler"),
            Self::One(Node::Clients) => f.write_str("the clients"),
            Self::One(Node::Machine(number)) => write!(f, "m{number}"),
            Self::Machines(range) => Machines(range).fmt(f),
            Self::Masters(Range { start: 0, end: usize::MAX }) => f.write_str("the master"),
            Self::Masters(Range { start, end: usize::MAX }) => {
                write!(f, "replicas from {} on", start + 1)
            }
            Self::Masters(Range { start, end }) => write!(f, "replicas {} to {end}", start + 1),
            Self::All => f.write_str("everybody"),
        }
    }
}

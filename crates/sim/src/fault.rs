//! What goes wrong, and when: a list that follows from the seed, and of which any part can be played
//! again alone.

use std::fmt;
use std::ops::Range;

use model::{Random, Span};
use replica::Codec;

use crate::disk::Crash;
use crate::network::{Disturbance, Node, Nodes, Trouble};
use crate::world::{Event, World};

/// Something that goes wrong for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How long after the beginning of the world.
    pub after: Span,
    /// How long it lasts; what does not last takes no notice.
    pub lasts: Span,
    /// What.
    pub kind: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A part of the network.
    Network(Disturbance),
    /// Machines lose power: one, or a rack.
    Off(Range<usize>),
    /// Machines stand still.
    Frozen(Range<usize>),
    /// A Borglet is killed.
    Borglet(usize),
    /// A Borglet stands still, and its tasks run on.
    BorgletFrozen(usize),
    /// A machine says that it has half of the memory that it had.
    Smaller(usize),
    /// A task's shim is killed with it: which task, of which machine.
    Task(usize, usize),
    /// The master comes to an end, and is started again when the fault ends.
    Master(Crash),
    /// The master stands still.
    MasterFrozen,
    /// The scheduler is killed, and started again when the fault ends.
    Scheduler,
    /// The scheduler stands still.
    SchedulerFrozen,
    /// Every write takes up to so long.
    SlowDisk(Span),
    /// The master's disk is full.
    FullDisk,
    /// The master's disk says that it has synced, and has not; in the end it loses power, and the
    /// cell goes on from the older checkpoint that is kept.
    LyingDisk,
    /// The newest checkpoint cannot be read, and the master's machine loses power.
    RottenCheckpoint,
    /// Somebody loads the older checkpoint that is kept.
    Restore,
    /// Another scheduler proposes whatever it likes, and evicts whom it may.
    Rival,
}

/// A family of faults, to choose by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Cuts, loss, delay, repetition.
    Network,
    /// Machines and racks that die, freeze, return; Borglets; tasks.
    Machines,
    /// The master's process.
    Master,
    /// The scheduler's process, and another scheduler.
    Scheduler,
    /// The master's disk, and backups.
    Disk,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Network, Self::Machines, Self::Master, Self::Scheduler, Self::Disk];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Machines => "machines",
            Self::Master => "master",
            Self::Scheduler => "scheduler",
            Self::Disk => "disk",
        }
    }
}

/// The mean time between faults.
const MEAN_GAP: Span = Span::from_secs(75);
/// The mean of how long one lasts.
const MEAN_LENGTH: Span = Span::from_secs(40);
/// The longest that one lasts.
const LENGTH_MAX: Span = Span::from_secs(600);
/// Machines in a rack.
pub(crate) const RACK: usize = 4;

/// The faults of a seed, within a time. They depend on nothing but the arguments.
#[must_use]
pub fn faults(
    random: &mut Random,
    families: &[Family],
    machines: usize,
    within: Span,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut after = Span::from_secs(20);
    loop {
        after = after + random.wait(MEAN_GAP);
        let lasts = random.wait(MEAN_LENGTH).min(LENGTH_MAX);
        if after + lasts > within {
            return faults;
        }
        if let Some(family) = random.one_of(families) {
            let kind = kind(random, *family, machines);
            faults.push(Fault { after, lasts, kind });
        }
    }
}

fn kind(random: &mut Random, family: Family, machines: usize) -> FaultKind {
    let machine = random.index(machines);
    let rack = machine / RACK * RACK;
    let some =
        if random.chance(250) { rack..(rack + RACK).min(machines) } else { machine..machine + 1 };
    match (family, random.below(10)) {
        (Family::Network, _) => FaultKind::Network(disturbance(random, some)),
        (Family::Machines, 0..3) => FaultKind::Off(some),
        (Family::Machines, 3..5) => FaultKind::Frozen(some),
        (Family::Machines, 5..7) => FaultKind::Borglet(machine),
        (Family::Machines, 7) => FaultKind::Task(machine, random.index(4)),
        (Family::Machines, 8) => FaultKind::BorgletFrozen(machine),
        (Family::Machines, _) => FaultKind::Smaller(machine),
        (Family::Master, 0..4) => FaultKind::Master(Crash::Killed),
        (Family::Master, 4..8) => FaultKind::Master(Crash::PowerLost),
        (Family::Master, _) => FaultKind::MasterFrozen,
        (Family::Scheduler, 0..2) => FaultKind::Scheduler,
        (Family::Scheduler, 2..4) => FaultKind::SchedulerFrozen,
        (Family::Scheduler, _) => FaultKind::Rival,
        (Family::Disk, 0..3) => FaultKind::SlowDisk(Span::from_millis(1 << random.below(12))),
        (Family::Disk, 3..6) => FaultKind::FullDisk,
        (Family::Disk, 6) => FaultKind::LyingDisk,
        (Family::Disk, 7) => FaultKind::Restore,
        (Family::Disk, _) => FaultKind::RottenCheckpoint,
    }
}

fn disturbance(random: &mut Random, some: Range<usize>) -> Disturbance {
    let trouble = match random.below(6) {
        0..3 => Trouble::Cut,
        3 => Trouble::Loss(1 << random.below(9)),
        4 => Trouble::Delay(Span::from_millis(1 << random.below(13))),
        _ => Trouble::Twice(8 << random.below(7)),
    };
    let (master, both_ways) = (Nodes::One(Node::Master), random.chance(500));
    let other = match random.below(6) {
        0 => Nodes::One(Node::Scheduler),
        1 => Nodes::One(Node::Clients),
        2 => Nodes::All,
        _ => Nodes::Machines(some),
    };
    let (from, to) = if random.chance(500) { (master, other) } else { (other, master) };
    Disturbance { from, to, both_ways, trouble }
}

impl<C: Codec> World<C> {
    pub(crate) fn fault(&mut self, number: usize, begins: bool) {
        let Fault { kind, lasts, .. } = self.faults[number].clone();
        match (kind, begins) {
            (FaultKind::Network(disturbance), true) => self.disturb(number, disturbance),
            (FaultKind::Network(_), false) => self.network.calm(number),
            (FaultKind::Off(range), true) => range.for_each(|machine| self.power_off(machine)),
            (FaultKind::Off(range), false) => range.for_each(|machine| self.boot(machine)),
            (FaultKind::Frozen(range), true) => range.for_each(|machine| self.freeze(machine)),
            (FaultKind::Frozen(range), false) => range.for_each(|machine| self.thaw(machine)),
            (FaultKind::Borglet(machine), true) => self.kill_borglet(machine),
            (FaultKind::BorgletFrozen(machine), true) => self.freeze_borglet(machine),
            (FaultKind::BorgletFrozen(machine), false) => self.thaw_borglet(machine),
            (FaultKind::Smaller(machine), begins) => self.shrink(machine, begins),
            (FaultKind::Task(machine, which), true) => self.lose_task(machine, which),
            (FaultKind::Master(how), true) => self.crash_master(how, lasts),
            (FaultKind::MasterFrozen, begins) => self.freeze_master(begins),
            (FaultKind::Scheduler, true) => self.restart_scheduler(lasts),
            (FaultKind::SchedulerFrozen, begins) => self.freeze_scheduler(begins),
            (FaultKind::SlowDisk(slow), true) => self.master.disk.slow = slow,
            (FaultKind::SlowDisk(_), false) => self.master.disk.slow = Span::ZERO,
            (FaultKind::FullDisk, true) => self.master.disk.full = true,
            (FaultKind::FullDisk, false) => self.disk_has_room(),
            // Without a backup there would be no way back, and nothing to be learned.
            (FaultKind::LyingDisk, true) => {
                self.master.disk.lies = self.master.disk.has_checkpoint();
            }
            (FaultKind::LyingDisk, false) if self.master.disk.lies => {
                self.crash_master(Crash::PowerLost, Span::from_secs(2));
            }
            (FaultKind::RottenCheckpoint, true) => {
                self.master.disk.newest_checkpoint_rots();
                self.crash_master(Crash::PowerLost, Span::from_secs(2));
            }
            (FaultKind::Restore, true) => {
                self.crash_master(Crash::Killed, Span::from_secs(2));
                self.restore();
            }
            (FaultKind::Rival, begins) => {
                self.rival.active = begins;
                if begins {
                    self.agenda.at(self.now, Event::RivalTurn);
                }
            }
            (
                FaultKind::Borglet(_)
                | FaultKind::Task(..)
                | FaultKind::Master(_)
                | FaultKind::Scheduler
                | FaultKind::LyingDisk
                | FaultKind::RottenCheckpoint
                | FaultKind::Restore,
                false,
            ) => {}
        }
    }

    /// A part of the network is disturbed; the number is that by which it ends.
    pub(crate) fn disturb(&mut self, number: usize, disturbance: Disturbance) {
        let stream = self.network.is_cut(Node::Master, Node::Scheduler);
        self.network.disturb(number, disturbance);
        if !stream && self.network.is_cut(Node::Master, Node::Scheduler) {
            self.stream_breaks(Span::from_secs(5));
        }
    }

    /// Nothing is wrong any more: every fault that lasts ends now.
    pub(crate) fn heal(&mut self) {
        for number in 0..self.faults.len() {
            self.network.calm(number);
        }
        for machine in 0..self.machines.len() {
            self.thaw(machine);
            self.thaw_borglet(machine);
            self.boot(machine);
            self.shrink(machine, false);
        }
        self.freeze_master(false);
        self.freeze_scheduler(false);
        self.rival.active = false;
        self.master.disk.slow = Span::ZERO;
        self.disk_has_room();
        self.add_machines();
    }

    /// The operator loads the older checkpoint, where there is one and no master runs.
    pub(crate) fn restore(&mut self) {
        if self.master.is_up() {
            return;
        }
        if let Some(cell) = self.master.disk.restore() {
            self.judge.restored(&cell);
            self.clients.forget_sessions();
            // Of machines that joined since, the cell does not know.
            self.add_machines();
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {}, for {}: {}", self.after, self.lasts, self.kind)
    }
}

/// One machine, or the first and last of several.
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
            Self::Task(machine, which) => write!(f, "task {which} on m{machine} lost"),
            Self::Master(Crash::Killed) => f.write_str("the master killed"),
            Self::Master(Crash::PowerLost) => f.write_str("the master's machine off"),
            Self::MasterFrozen => f.write_str("the master frozen"),
            Self::Scheduler => f.write_str("the scheduler killed"),
            Self::SchedulerFrozen => f.write_str("the scheduler frozen"),
            Self::SlowDisk(by) => write!(f, "each write of the master takes up to {by}"),
            Self::FullDisk => f.write_str("the master's disk full"),
            Self::LyingDisk => f.write_str("the master's disk lies about syncs"),
            Self::RottenCheckpoint => f.write_str("the newest checkpoint unreadable"),
            Self::Restore => f.write_str("the older checkpoint loaded"),
            Self::Rival => f.write_str("another scheduler"),
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
            Self::One(Node::Master) => f.write_str("the master"),
            Self::One(Node::Scheduler) => f.write_str("the scheduler"),
            Self::One(Node::Clients) => f.write_str("the clients"),
            Self::One(Node::Machine(number)) => write!(f, "m{number}"),
            Self::Machines(range) => Machines(range).fmt(f),
            Self::All => f.write_str("everybody"),
        }
    }
}

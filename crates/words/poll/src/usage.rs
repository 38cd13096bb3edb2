//! What instances and the machine use, in the form in which an answer to a poll has it (trace v3,
//! `InstanceUsage`).

use model::{Bytes, InstanceId, MilliCores, Permille, Span, Time};

use crate::CpuDistribution;

/// How many samples one answer has at most: as many as instances can be on a machine, the machine,
/// and its system.
pub const SAMPLES_MAX: usize = 10_002;
/// How many windows one answer has at most.
pub const WINDOWS_MAX: usize = 1_000;
/// The length of a window; windows begin at its multiples.
pub const WINDOW: Span = Span::from_secs(300);

/// What is sent with one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The newest samples: [`SAMPLES_MAX`] at most.
    pub samples: Vec<UsageSample>,
    /// Windows that have closed, the oldest first: [`WINDOWS_MAX`] at most.
    pub windows: Vec<UsageWindow>,
    /// The cursor of the last of the windows.
    pub cursor: u64,
}

impl Usage {
    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.windows.is_empty()
    }
}

/// Whose usage it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UsageSubject {
    /// A task, or an alloc: what the tasks in it use.
    Instance(InstanceId),
    /// The whole machine.
    Machine,
    /// Everything on the machine except tasks.
    System,
}

/// One measurement; none for what was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// In the machine's own cores, over the time since the sample before.
    pub cpu: Option<MilliCores>,
    /// All memory that is charged to it, the page cache included.
    pub memory: Option<Bytes>,
    /// The most of that since its start.
    pub memory_peak: Option<Bytes>,
    /// The page cache that is charged to it.
    pub page_cache: Option<Bytes>,
    /// The memory limit that the kernel applies (trace v3, `assigned_memory`).
    pub memory_assigned: Option<Bytes>,
    /// What its files take.
    pub disk: Option<Bytes>,
    /// Bytes read and written each second.
    pub disk_rate: Option<Bytes>,
    /// The share of time in which it was throttled at its CPU limit.
    pub throttled: Option<Permille>,
    /// The share of time in which at least one of its threads waited for CPU (PSI, "some").
    pub cpu_pressure: Option<Permille>,
    /// The same for memory.
    pub memory_pressure: Option<Permille>,
    /// The same for disks.
    pub io_pressure: Option<Permille>,
}

impl Measured {
    /// The sum of what can be added: CPU, memory, page cache, assigned memory and disks. What one of
    /// them lacks counts as nothing; what both lack stays absent.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.combine(other, u64::saturating_add)
    }

    /// What is left without `part`, in the same fields. What `self` lacks stays absent.
    #[must_use]
    pub fn minus(&self, part: &Self) -> Self {
        let mut left = self.combine(part, u64::saturating_sub);
        left.cpu = self.cpu.and(left.cpu);
        left.memory = self.memory.and(left.memory);
        left.page_cache = self.page_cache.and(left.page_cache);
        left.memory_assigned = None;
        left.disk = self.disk.and(left.disk);
        left.disk_rate = self.disk_rate.and(left.disk_rate);
        left
    }

    fn combine(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let number = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(f(a.unwrap_or(0), b.unwrap_or(0))),
        };
        let bytes =
            |a: Option<Bytes>, b: Option<Bytes>| number(a.map(|a| a.0), b.map(|b| b.0)).map(Bytes);
        Self {
            cpu: number(self.cpu.map(|cpu| cpu.0), other.cpu.map(|cpu| cpu.0)).map(MilliCores),
            memory: bytes(self.memory, other.memory),
            page_cache: bytes(self.page_cache, other.page_cache),
            memory_assigned: bytes(self.memory_assigned, other.memory_assigned),
            disk: bytes(self.disk, other.disk),
            disk_rate: bytes(self.disk_rate, other.disk_rate),
            ..Self::default()
        }
    }
}

/// What a subject used at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageSample {
    /// Whose.
    pub subject: UsageSubject,
    /// By the machine's clock.
    pub at: Time,
    /// What it used.
    pub measured: Measured,
}

/// What a subject used in a span of time. The subject and the start are its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageWindow {
    /// Whose.
    pub subject: UsageSubject,
    /// When it began, by the machine's clock: at a multiple of [`WINDOW`], or when the subject or the
    /// measuring began.
    pub start: Time,
    /// How long it was.
    pub length: Span,
    /// Of how many samples it is made. The trace's sample rate is this number by the length.
    pub samples: u32,
    /// The average: of CPU and disk rate over all the time, of the rest over the samples.
    pub average: Measured,
    /// The highest of each.
    pub maximum: Measured,
    /// The CPU of one sample, chosen at random.
    pub random_cpu: Option<MilliCores>,
    /// How the CPU of the samples was distributed.
    pub cpu: Option<CpuDistribution>,
    /// Cycles per instruction, in thousandths; none without hardware counters.
    pub cycles_per_instruction: Option<u32>,
    /// Memory accesses per instruction, in millionths; none without hardware counters.
    pub memory_accesses_per_instruction: Option<u32>,
}

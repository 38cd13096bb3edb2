//! How many tasks were evicted, by cause: the core's thread counts the events of the operations that
//! it applies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use api::v1;
use cell::{Applied, Cell, EventKind, EvictionCause, Subject};

/// The causes, without what is known of a single eviction, in the words of the API.
const CAUSES: [&str; 8] = [
    "preempted",
    "out_of_resources",
    "machine_failure",
    "machine_shutdown",
    "updated",
    "other",
    "moved",
    "gang_restarts",
];

/// The place of a cause among them.
fn place(cause: EvictionCause) -> usize {
    match cause {
        EvictionCause::Preempted { .. } => 0,
        EvictionCause::OutOfResources => 1,
        EvictionCause::MachineFailure => 2,
        EvictionCause::MachineShutdown => 3,
        EvictionCause::Updated => 4,
        EvictionCause::Other => 5,
        EvictionCause::Moved { .. } => 6,
        EvictionCause::GangRestarts { .. } => 7,
    }
}

/// The evictions that a replica has applied since it had caught up: not those that it reads again
/// from its log.
#[derive(Debug, Default)]
pub(crate) struct EvictionMetrics {
    counts: [AtomicU64; CAUSES.len()],
    counting: AtomicBool,
}

/// Numbers of evictions, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evictions([u64; CAUSES.len()]);

impl EvictionMetrics {
    /// What is applied from now on counts.
    pub(crate) fn begin(&self) {
        self.counting.store(true, Ordering::Relaxed);
    }

    /// Counts the events of an operation, after which the cell is as given. A task in an alloc
    /// counts, and its alloc does not.
    pub(crate) fn count(&self, cell: &Cell, applied: &Applied) {
        if !self.counting.load(Ordering::Relaxed) {
            return;
        }
        for event in &applied.events {
            let EventKind::Evict { cause } = event.kind else { continue };
            let Subject::Task(instance) = event.subject else { continue };
            let job = cell.job(instance.collection);
            if job.is_none_or(|job| !job.spec.kind.is_alloc_set()) {
                self.counts[place(cause)].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// All that were counted.
    pub(crate) fn total(&self) -> Evictions {
        Evictions(self.counts.each_ref().map(|count| count.load(Ordering::Relaxed)))
    }
}

impl Evictions {
    /// By the name of the cause.
    pub(crate) fn by_cause(self) -> impl Iterator<Item = (&'static str, u64)> {
        CAUSES.into_iter().zip(self.0)
    }

    /// Those after `earlier`, an older total.
    pub(crate) fn since(self, earlier: Self) -> v1::EvictionCounts {
        let count = |cause: usize| {
            let count = self.0[cause].saturating_sub(earlier.0[cause]);
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let [
            preempted,
            out_of_resources,
            machine_failure,
            machine_shutdown,
            updated,
            other,
            moved,
            gang,
        ] = std::array::from_fn(count);
        v1::EvictionCounts {
            preempted,
            out_of_resources,
            machine_failure,
            machine_shutdown,
            updated,
            other,
            moved,
            gang_restarts: gang,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use cell::{Actor, Event, MoveReason, Mutation, Op, Outcome, RequestId};
    use model::{FinalUsage, InstanceId, MachineId, SessionId, Time, UserName};
    use spec::{JobSpec, Kind, TaskSpec};

    use super::*;

    /// A cell with a job, and with an alloc set.
    fn cell() -> Cell {
        let mut cell = Cell::empty();
        let ana: UserName = "ana".parse().expect("a name");
        let name = "lab".parse().expect("a name");
        cell.apply(Time(1), &Op::Bootstrap { name, administrator: ana.clone() });
        cell.apply(Time(2), &Op::OpenSession { user: ana.clone() });
        let set = Kind::AllocSet { users: BTreeSet::new() };
        let job = (Kind::default(), vec!["x".to_owned()]);
        for (sequence, (kind, program)) in (1..).zip([job, (set, Vec::new())]) {
            let name = if program.is_empty() { "set" } else { "web" };
            let (name, priority) = (name.parse().expect("a name"), "1".parse().expect("one"));
            let mut spec = JobSpec::of(name, priority, 2, TaskSpec::of(program));
            spec.kind = kind;
            let id = RequestId { session: SessionId(1), sequence };
            let mutation = Mutation::Submit(Arc::new(spec));
            cell.apply(Time(3), &Op::Request { id, by: ana.clone(), mutation });
        }
        assert_eq!(cell.job_count(), 2);
        cell
    }

    fn instance(text: &str) -> InstanceId {
        text.parse().expect("an instance")
    }

    fn applied(events: impl IntoIterator<Item = (Subject, EventKind)>) -> Applied {
        let event = |(subject, kind)| Event { subject, kind, usage: FinalUsage::UNMEASURED };
        Applied {
            outcome: Outcome::Done,
            by: Actor::Master,
            events: events.into_iter().map(event).collect(),
            reordered: Vec::new(),
        }
    }

    #[test]
    fn tasks_count_by_cause_once_the_log_is_applied() {
        use EvictionCause::{
            MachineFailure, MachineShutdown, Moved, Other, OutOfResources, Preempted, Updated,
        };
        let task = |text| Subject::Task(instance(text));
        let evict = |text, cause| (task(text), EventKind::Evict { cause });
        let by = instance("9-0-1");
        let all = applied([
            evict("1-0-1", Preempted { by }),
            evict("1-1-1", Preempted { by: instance("9-1-1") }),
            evict("1-0-2", OutOfResources),
            evict("1-0-3", MachineFailure),
            // With it leaves the alloc that it was in.
            evict("2-0-1", MachineFailure),
            evict("1-0-4", MachineShutdown),
            evict("1-0-5", Updated),
            evict("1-0-6", Moved { to: MachineId(2), why: MoveReason::Empties }),
            // The job is forgotten.
            evict("7-0-1", Other),
            (task("1-0-6"), EventKind::Queue),
            (Subject::Cell, EventKind::Queue),
        ]);
        let (cell, metrics) = (cell(), EvictionMetrics::default());
        metrics.count(&cell, &all);
        assert_eq!(metrics.total(), Evictions::default(), "the log is read again");
        metrics.begin();
        metrics.count(&cell, &all);
        let first = metrics.total();
        let counts: Vec<_> = first.by_cause().collect();
        let expected = [
            ("preempted", 2),
            ("out_of_resources", 1),
            ("machine_failure", 1),
            ("machine_shutdown", 1),
            ("updated", 1),
            ("other", 1),
            ("moved", 1),
            ("gang_restarts", 0),
        ];
        assert_eq!(counts, expected);
        metrics.count(&cell, &applied([evict("1-0-7", Preempted { by })]));
        let since = metrics.total().since(first);
        assert_eq!(since, v1::EvictionCounts { preempted: 1, ..v1::EvictionCounts::default() });
        assert_eq!(first.since(metrics.total()), v1::EvictionCounts::default());
    }
}

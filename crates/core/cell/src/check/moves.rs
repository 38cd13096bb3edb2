//! The invariants of moves of running tasks.

use event::{Event, EventKind, EvictionCause, StopReason, Subject};

use super::Violation;
use super::decision::Step;

impl Step<'_> {
    /// Only tasks are moved that may be: they are up, alone on their machines, and neither a drain nor an update has
    /// taken them in hand; and never to the machine on which they are.
    pub(super) fn moves(&mut self, events: &[Event]) {
        for event in events {
            let Subject::Task(instance) = event.subject else { continue };
            let EventKind::Stop { why: StopReason::Evict(EvictionCause::Moved { to, .. }) } =
                event.kind
            else {
                continue;
            };
            let placed = self.before.placement(instance);
            let job = self.before.job(instance.collection);
            let movable = placed.zip(job).is_some_and(|(placed, job)| {
                let from = self.before.machine(placed.machine);
                let is_drained = from.is_none_or(|machine| machine.drain.is_some());
                placed.up_since().is_some()
                    && placed.alloc.is_none()
                    && placed.machine != to
                    && !job.spec.kind.is_alloc_set()
                    && !job.spec.is_on_every_machine()
                    && job.spec.task.volumes.is_empty()
                    && job.open_update().is_none()
                    && !is_drained
            });
            if !movable {
                self.found.add(Violation::MovedUnmovable(instance));
            }
        }
    }
}

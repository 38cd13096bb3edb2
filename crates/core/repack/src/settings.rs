//! What may be moved, and when.

use std::collections::BTreeSet;

use cell::Job;
use model::{Appclass, Band, Span, TaskIndex};

/// What may be moved beside what the cell forbids, and how much at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackingSettings {
    /// The bands whose tasks may be moved. `None`: those below monitoring, without latency-sensitive tasks of
    /// production.
    pub bands: Option<BTreeSet<Band>>,
    /// How long a task must have been on its machine.
    pub settled: Span,
    /// How long a task must have been pending: until then the scheduler may find room for it.
    pub waited: Span,
    /// Maximum number of moves of a plan.
    pub moves: usize,
    /// Whether tasks are moved to empty a machine, too.
    pub empties: bool,
}

impl Default for PackingSettings {
    fn default() -> Self {
        Self {
            bands: None,
            settled: Self::AGAIN_AFTER,
            waited: Span::from_secs(60),
            moves: 20,
            empties: false,
        }
    }
}

impl PackingSettings {
    /// How long a task that was moved is not moved again.
    pub const AGAIN_AFTER: Span = Span::from_secs(3_600);

    /// Whether a task's band and application class let it be moved.
    pub(crate) fn allows(&self, job: &Job, index: TaskIndex) -> bool {
        let described = job.described(index);
        let band = described.priority.band();
        match &self.bands {
            Some(bands) => bands.contains(&band),
            None => match band {
                Band::Monitoring => false,
                Band::Production => described.appclass == Appclass::Batch,
                Band::Mid | Band::BestEffortBatch | Band::Free => true,
            },
        }
    }
}

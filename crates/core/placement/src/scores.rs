//! The scores of machines for a task, term by term: what a pass would compare (paper, section 3.2),
//! for `bourg why --scores`.

use cell::{Cell, Job};
use model::{MachineId, TaskIndex, Time};

use crate::Settings;
use crate::engine::Engine;
use crate::held::{HeldByMachine, PackagesThere};
use crate::machines::Slot;
use crate::score::Terms;

/// A machine's score for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scored {
    /// The machine. The task fits on it as it currently is.
    pub machine: MachineId,
    /// The score: the weighted sum of the terms. Lower is better.
    pub score: u32,
    /// Its terms.
    pub terms: Terms,
    /// What it has of the task's packages; `None` if the task has none.
    pub packages: Option<PackagesThere>,
}

/// The machines with the best scores for a task, best first. A task that is already placed is
/// scored as if it were placed once more. Empty for a task that runs in an alloc.
#[must_use]
pub fn scores(
    cell: &Cell,
    job: &Job,
    index: TaskIndex,
    now: Time,
    settings: Settings,
    held: &HeldByMachine,
    most: usize,
) -> Vec<Scored> {
    if job.alloc_set.is_some() {
        return Vec::new();
    }
    let mut engine = Engine::bare(cell, settings);
    held.iter().for_each(|(machine, held)| engine.set_held(*machine, held));
    let id = engine.join(cell, job, index);
    engine.prepare(cell, id);
    engine.refresh_suspects(cell, now);
    let Some(class) = engine.classes.get(id) else { return Vec::new() };
    let slots = 0..Slot::try_from(engine.machines.len()).unwrap_or(Slot::MAX);
    let scored = slots.filter(|slot| engine.fits(cell, class, *slot)).map(|slot| {
        let terms = engine.terms(cell, class, slot, now);
        let score = terms.total(&engine.settings.weights);
        let packages = class.held.as_ref().map(|held| held.there(slot));
        Scored { machine: engine.machines.id(slot), score, terms, packages }
    });
    let mut scored: Vec<Scored> = scored.collect();
    scored.sort_by_key(|scored| (scored.score, scored.machine));
    scored.truncate(most);
    scored
}

//! Jobs that wait and may start, by what they need: so that nobody looks at jobs of which none can.

use std::collections::{BTreeMap, BTreeSet};

use model::{Dimension, Resources, Span};

use crate::job::PlaceInQueue;

/// Needs in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Needs([u64; Dimension::ALL.len()]);

impl Needs {
    pub(crate) fn of(needs: &Resources) -> Self {
        Self(Dimension::ALL.map(|dimension| needs.get(dimension)))
    }

    pub(crate) fn resources(self) -> Resources {
        let of = |dimension| {
            let mut each = Dimension::ALL.into_iter().zip(self.0);
            each.find(|(is, _)| *is == dimension).map_or(0, |(_, amount)| amount)
        };
        Resources::each(of)
    }
}

/// What may start now: what fits into the room, and leaves a reserved start as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayStart {
    pub(crate) room: Resources,
    /// How long it is until the reserved start, and what is left beside it then.
    pub(crate) reserved: Option<(Span, Resources)>,
}

/// How long tasks run that may start.
enum RuntimeBound {
    None,
    AtMost(Span),
}

impl MayStart {
    fn fits(&self, needs: &Resources) -> bool {
        needs.first_above(&self.room).is_none()
    }

    /// For which runtimes tasks with these needs may start; `None`: for none.
    fn runtimes(&self, needs: Needs) -> Option<RuntimeBound> {
        let needs = needs.resources();
        if !self.fits(&needs) {
            return None;
        }
        Some(match &self.reserved {
            Some((until, spare)) if needs.first_above(spare).is_some() => {
                RuntimeBound::AtMost(*until)
            }
            _ => RuntimeBound::None,
        })
    }
}

/// The number of jobs by needs and runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingCounts {
    by_needs: BTreeMap<Needs, BTreeMap<Span, u32>>,
}

impl WaitingCounts {
    pub(crate) fn add(&mut self, needs: Needs, runtime: Span) {
        *self.by_needs.entry(needs).or_default().entry(runtime).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, needs: Needs, runtime: Span) {
        let Some(runtimes) = self.by_needs.get_mut(&needs) else { return };
        if let Some(count) = runtimes.get_mut(&runtime) {
            *count -= 1;
            if *count == 0 {
                runtimes.remove(&runtime);
            }
        }
        if runtimes.is_empty() {
            self.by_needs.remove(&needs);
        }
    }

    /// Whether any of them may start.
    pub(crate) fn any(&self, may: &MayStart) -> bool {
        self.by_needs.iter().any(|(needs, runtimes)| may.shortest(*needs, runtimes).is_some())
    }
}

impl MayStart {
    /// The bound on runtimes if any of these jobs may start.
    fn shortest(&self, needs: Needs, runtimes: &BTreeMap<Span, u32>) -> Option<RuntimeBound> {
        let bound = self.runtimes(needs)?;
        match (&bound, runtimes.first_key_value()) {
            (_, None) => None,
            (RuntimeBound::AtMost(most), Some((shortest, _))) if shortest > most => None,
            _ => Some(bound),
        }
    }
}

/// The jobs of a user.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingOfUser {
    counts: WaitingCounts,
    by_needs: BTreeMap<Needs, BTreeSet<(PlaceInQueue, Span)>>,
}

impl WaitingOfUser {
    pub(crate) fn add(&mut self, needs: Needs, runtime: Span, place: PlaceInQueue) {
        if self.by_needs.entry(needs).or_default().insert((place, runtime)) {
            self.counts.add(needs, runtime);
        }
    }

    pub(crate) fn remove(&mut self, needs: Needs, runtime: Span, place: PlaceInQueue) {
        let Some(places) = self.by_needs.get_mut(&needs) else { return };
        if places.remove(&(place, runtime)) {
            self.counts.remove(needs, runtime);
        }
        if places.is_empty() {
            self.by_needs.remove(&needs);
        }
    }

    /// The first that may start.
    pub(crate) fn first(&self, may: &MayStart) -> Option<PlaceInQueue> {
        let first = |(needs, runtimes): (&Needs, &BTreeMap<Span, u32>)| {
            let bound = may.shortest(*needs, runtimes)?;
            let mut places = self.by_needs.get(needs)?.iter();
            let suits = |(_, runtime): &&(PlaceInQueue, Span)| match bound {
                RuntimeBound::None => true,
                RuntimeBound::AtMost(most) => *runtime <= most,
            };
            places.find(suits).map(|(place, _)| *place)
        };
        self.counts.by_needs.iter().filter_map(first).min()
    }

    /// The first that does not fit into the room, except those with hopeless needs.
    pub(crate) fn first_unfit(
        &self,
        may: &MayStart,
        hopeless: &BTreeSet<Needs>,
    ) -> Option<(PlaceInQueue, Needs)> {
        let unfit = self
            .by_needs
            .iter()
            .filter(|(needs, _)| !hopeless.contains(needs) && !may.fits(&needs.resources()));
        unfit.filter_map(|(needs, places)| Some((places.first()?.0, *needs))).min()
    }
}

//! The schedule of future events, in order of time; events of the same time in order of insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::Time;

/// A queue of future events.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    heap: BinaryHeap<Entry<E>>,
    noted: u64,
}

#[derive(Debug)]
struct Entry<E> {
    key: Reverse<(Time, u64)>,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), noted: 0 }
    }
}

impl<E> Agenda<E> {
    /// Schedules an event at a given time.
    pub(crate) fn at(&mut self, at: Time, event: E) {
        self.noted += 1;
        self.heap.push(Entry { key: Reverse((at, self.noted)), event });
    }

    /// The time of the next event.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|entry| entry.key.0.0)
    }

    /// Removes the next event.
    pub(crate) fn next(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|entry| (entry.key.0.0, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_ordered_by_time_and_then_by_insertion() {
        let mut agenda = Agenda::default();
        for (at, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b'), (9, 'e')] {
            agenda.at(Time(at), event);
        }
        assert_eq!(agenda.next_at(), Some(Time(3)));
        let order: String = std::iter::from_fn(|| agenda.next().map(|(_, event)| event)).collect();
        assert_eq!(order, "abcde");
    }
}

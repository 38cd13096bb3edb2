//! Which tasks were moved lately: none is moved twice within an hour.

use std::collections::BTreeMap;

use model::{Span, Time};

/// How long a move is remembered.
const REMEMBERED: Span = Span::from_secs(3_600);
/// The maximum number of moves that are remembered. The oldest is forgotten first.
const REMEMBERED_MOVES_MAX: usize = 20_000;

/// The tasks, by the ids of their jobs and their indexes, with the times of the cell at which they were moved.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentMoves {
    moved: BTreeMap<(u64, u32), Time>,
}

impl RecentMoves {
    /// Remembers a move.
    pub(crate) fn add(&mut self, task: (u64, u32), at: Time) {
        self.moved.insert(task, at);
        self.moved.retain(|_, moved| at.since(*moved) < REMEMBERED);
        while self.moved.len() > REMEMBERED_MOVES_MAX {
            let oldest = self.moved.iter().min_by_key(|(_, at)| **at).map(|(task, _)| *task);
            let Some(oldest) = oldest else { return };
            self.moved.remove(&oldest);
        }
    }

    /// All that are remembered.
    pub(crate) fn all(&self) -> impl Iterator<Item = ((u64, u32), Time)> {
        self.moved.iter().map(|(task, at)| (*task, *at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_remembered_for_an_hour_and_the_oldest_give_way() {
        let mut memory = RecentMoves::default();
        let second = |number: u64| Time::ZERO + Span::from_secs(number);
        memory.add((1, 0), second(0));
        memory.add((1, 1), second(3_599));
        assert_eq!(memory.all().count(), 2);
        memory.add((1, 2), second(3_600));
        let tasks: Vec<_> = memory.all().map(|(task, _)| task).collect();
        assert_eq!(tasks, [(1, 1), (1, 2)]);
        for index in 0..u32::try_from(REMEMBERED_MOVES_MAX).expect("small") {
            memory.add((2, index), second(3_700));
        }
        assert_eq!(memory.all().count(), REMEMBERED_MOVES_MAX);
        assert!(memory.all().all(|((job, _), _)| job == 2));
    }
}

//! Containers in copy-on-write chunks. A clone shares every chunk; a write copies the one chunk it
//! touches, and only while a clone still holds it. So readers, snapshots and schedulers keep an
//! immutable view, and the writer never waits for them.

use std::marker::PhantomData;
use std::sync::Arc;

use imbl::OrdMap;

const CHUNK: usize = 64;

/// A growing row of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row<T> {
    chunks: Vec<Arc<Vec<T>>>,
}

impl<T: Clone> Row<T> {
    pub(crate) fn get(&self, position: usize) -> Option<&T> {
        self.chunks.get(position / CHUNK)?.get(position % CHUNK)
    }

    pub(crate) fn get_mut(&mut self, position: usize) -> Option<&mut T> {
        Arc::make_mut(self.chunks.get_mut(position / CHUNK)?).get_mut(position % CHUNK)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
}

impl<T: Clone> FromIterator<T> for Row<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter().peekable();
        let mut chunks = Vec::new();
        while values.peek().is_some() {
            chunks.push(Arc::new(values.by_ref().take(CHUNK).collect()));
        }
        Self { chunks }
    }
}

/// A number that an object is kept under.
pub(crate) trait Number: Copy {
    fn number(self) -> u64;
}

impl Number for model::CollectionId {
    fn number(self) -> u64 {
        self.0
    }
}

impl Number for model::MachineId {
    fn number(self) -> u64 {
        self.0
    }
}

type Slots<T> = Arc<[Option<Arc<T>>; CHUNK]>;

/// Objects under numbers that are given once, in rising order. A chunk of which every object is
/// gone is given back, so that memory follows the objects there are and not those there ever were.
#[derive(Debug)]
pub(crate) struct Numbered<N, T> {
    chunks: OrdMap<u64, Slots<T>>,
    count: usize,
    number: PhantomData<N>,
}

impl<N, T> Clone for Numbered<N, T> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), count: self.count, number: PhantomData }
    }
}

impl<N, T> Default for Numbered<N, T> {
    fn default() -> Self {
        Self { chunks: OrdMap::new(), count: 0, number: PhantomData }
    }
}

impl<N: Number, T: Clone> Numbered<N, T> {
    /// The chunk of a number, and its slot there.
    fn place(number: N) -> (u64, usize) {
        const { assert!(256 % CHUNK == 0, "the last byte of a number tells its slot") };
        let number = number.number();
        (number / CHUNK as u64, usize::from(number.to_le_bytes()[0]) % CHUNK)
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn get(&self, number: N) -> Option<&Arc<T>> {
        let (chunk, slot) = Self::place(number);
        self.chunks.get(&chunk)?[slot].as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: N) -> Option<&mut T> {
        let (chunk, slot) = Self::place(number);
        let chunk = Arc::make_mut(self.chunks.get_mut(&chunk)?);
        chunk[slot].as_mut().map(Arc::make_mut)
    }

    /// Keeps an object under a number that has none yet, or replaces it.
    pub(crate) fn insert(&mut self, number: N, object: Arc<T>) {
        let (chunk, slot) = Self::place(number);
        let chunk = self.chunks.entry(chunk).or_insert_with(|| Arc::new([const { None }; CHUNK]));
        if Arc::make_mut(chunk)[slot].replace(object).is_none() {
            self.count += 1;
        }
    }

    pub(crate) fn remove(&mut self, number: N) {
        let (position, slot) = Self::place(number);
        let Some(chunk) = self.chunks.get_mut(&position) else { return };
        if Arc::make_mut(chunk)[slot].take().is_some() {
            self.count -= 1;
        }
        if chunk.iter().all(Option::is_none) {
            self.chunks.remove(&position);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.chunks.values().flat_map(|chunk| chunk.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::MachineId;

    #[test]
    fn a_clone_does_not_see_later_writes() {
        let mut row: Row<u32> = (0..200).collect();
        let view = row.clone();
        *row.get_mut(150).expect("there") = 7;
        assert_eq!(view.get(150), Some(&150));
        assert_eq!(row.get(150), Some(&7));
        assert_eq!(row.get(200), None);
        assert!(Arc::ptr_eq(&row.chunks[0], &view.chunks[0]), "untouched chunks stay shared");
        assert_eq!(view.iter().count(), 200);
    }

    #[test]
    fn numbered_objects_come_in_the_order_of_their_numbers() {
        let mut all: Numbered<MachineId, u64> = Numbered::default();
        for number in [1, 64, 65, u64::MAX] {
            all.insert(MachineId(number), Arc::new(number));
        }
        let view = all.clone();
        all.remove(MachineId(u64::MAX));
        all.remove(MachineId(u64::MAX));
        all.remove(MachineId(9_999));
        *all.get_mut(MachineId(64)).expect("there") = 0;
        assert_eq!(all.iter().map(|number| **number).collect::<Vec<_>>(), [1, 0, 65]);
        assert_eq!(view.iter().map(|number| **number).collect::<Vec<_>>(), [1, 64, 65, u64::MAX]);
        assert_eq!((all.len(), view.len()), (3, 4));
        assert_eq!(all.chunks.len(), 2, "a chunk with nothing in it is given back");
    }
}

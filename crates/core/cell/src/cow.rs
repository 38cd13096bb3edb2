//! Containers in copy-on-write chunks. A clone shares every chunk; a write copies only the chunk it
//! touches, and only while a clone still shares it. Readers, snapshots and schedulers thus have an
//! immutable view, and the writer never waits for them.

use std::marker::PhantomData;
use std::sync::Arc;

use imbl::OrdMap;

const CHUNK: usize = 64;

/// A growable array of values. Neighbouring chunks with equal values share their memory, so that many
/// equal values take next to none: the tasks of a job that nothing has happened to, or that were all
/// killed before they ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row<T> {
    chunks: Vec<Arc<[T]>>,
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

    pub(crate) fn len(&self) -> usize {
        // Every chunk but the last is full.
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        full + self.chunks.last().map_or(0, |chunk| chunk.len())
    }

    /// The values in order, in pieces with the number of times that each is repeated: what is shared is
    /// looked at once.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&[T], usize)> {
        let same = |a: &Arc<[T]>, b: &Arc<[T]>| Arc::ptr_eq(a, b);
        self.chunks.chunk_by(same).filter_map(|run| Some((&**run.first()?, run.len())))
    }

    pub(crate) fn push(&mut self, value: T) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => {
                *chunk = chunk.iter().cloned().chain([value]).collect();
            }
            _ => self.chunks.push(Arc::from([value])),
        }
    }
}

impl<T: Clone + PartialEq> Row<T> {
    /// Shares the memory of equal neighbouring chunks.
    pub(crate) fn compact(&mut self) {
        let mut last: Option<Arc<[T]>> = None;
        for chunk in &mut self.chunks {
            match &last {
                Some(last) if Arc::ptr_eq(last, chunk) || last == chunk => {
                    *chunk = Arc::clone(last);
                }
                _ => last = Some(Arc::clone(chunk)),
            }
        }
    }
}

impl<T: Clone + PartialEq> FromIterator<T> for Row<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter().peekable();
        let mut chunks: Vec<Arc<[T]>> = Vec::new();
        while values.peek().is_some() {
            let chunk: Arc<[T]> = values.by_ref().take(CHUNK).collect();
            let same = chunks.last().filter(|last| **last == chunk).map(Arc::clone);
            chunks.push(same.unwrap_or(chunk));
        }
        Self { chunks }
    }
}

/// An id that serves as the key of an object.
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

/// The values of one chunk.
type Chunk<T> = Arc<[Option<T>; CHUNK]>;

/// Objects by ids that are assigned once, in rising order. A chunk whose objects are all removed is
/// freed, so memory grows with the live objects and not with all ids ever assigned.
///
/// Ids are looked up through chunks of chunks, which are few enough for a small map keyed by the
/// high bits of the id.
#[derive(Debug)]
pub(crate) struct Numbered<N, T> {
    blocks: OrdMap<u64, Chunk<Chunk<Arc<T>>>>,
    count: usize,
    number: PhantomData<N>,
}

/// The location of an id: the block, the chunk in it, and the slot in that.
#[derive(Clone, Copy)]
struct SlotAddress {
    block: u64,
    chunk: usize,
    slot: usize,
}

impl SlotAddress {
    fn of(number: impl Number) -> Self {
        let number = number.number();
        let part = |number: u64| usize::try_from(number % CHUNK as u64).unwrap_or(0);
        let chunk = number / CHUNK as u64;
        Self { block: chunk / CHUNK as u64, chunk: part(chunk), slot: part(number) }
    }
}

impl<N, T> Clone for Numbered<N, T> {
    fn clone(&self) -> Self {
        Self { blocks: self.blocks.clone(), count: self.count, number: PhantomData }
    }
}

impl<N, T> Default for Numbered<N, T> {
    fn default() -> Self {
        Self { blocks: OrdMap::new(), count: 0, number: PhantomData }
    }
}

fn empty<T>() -> Chunk<T> {
    Arc::new([const { None }; CHUNK])
}

impl<N: Number, T: Clone> Numbered<N, T> {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn get(&self, number: N) -> Option<&Arc<T>> {
        let place = SlotAddress::of(number);
        self.blocks.get(&place.block)?[place.chunk].as_ref()?[place.slot].as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: N) -> Option<&mut T> {
        let place = SlotAddress::of(number);
        let block = Arc::make_mut(self.blocks.get_mut(&place.block)?);
        let chunk = Arc::make_mut(block[place.chunk].as_mut()?);
        chunk[place.slot].as_mut().map(Arc::make_mut)
    }

    /// Inserts or replaces an object.
    pub(crate) fn insert(&mut self, number: N, object: Arc<T>) {
        let place = SlotAddress::of(number);
        let block = Arc::make_mut(self.blocks.entry(place.block).or_insert_with(empty));
        let chunk = Arc::make_mut(block[place.chunk].get_or_insert_with(empty));
        if chunk[place.slot].replace(object).is_none() {
            self.count += 1;
        }
    }

    pub(crate) fn remove(&mut self, number: N) {
        let place = SlotAddress::of(number);
        let Some(block) = self.blocks.get_mut(&place.block).map(Arc::make_mut) else { return };
        let Some(chunk) = block[place.chunk].as_mut().map(Arc::make_mut) else { return };
        if chunk[place.slot].take().is_some() {
            self.count -= 1;
        }
        if chunk.iter().all(Option::is_none) {
            block[place.chunk] = None;
        }
        if block.iter().all(Option::is_none) {
            self.blocks.remove(&place.block);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        let chunks = self.blocks.values().flat_map(|block| block.iter().flatten());
        chunks.flat_map(|chunk| chunk.iter().flatten())
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
        assert_eq!(view.len(), 200);
    }

    #[test]
    fn a_row_grows_value_by_value() {
        let mut row: Row<u32> = Row::from_iter([]);
        for value in 0..200 {
            assert_eq!(row.len(), value as usize);
            row.push(value);
        }
        assert_eq!(row, (0..200).collect());
    }

    #[test]
    fn equal_neighbours_share_their_memory_until_one_is_written() {
        let mut row: Row<u32> = std::iter::repeat_n(7, 1_000).collect();
        let distinct = |row: &Row<u32>| {
            let all: std::collections::BTreeSet<_> = row.chunks.iter().map(Arc::as_ptr).collect();
            all.len()
        };
        // The last one is not full.
        assert_eq!(distinct(&row), 2);
        *row.get_mut(500).expect("there") = 8;
        assert_eq!((row.get(499), row.get(500), row.get(564)), (Some(&7), Some(&8), Some(&7)));
        let repeated = |row: &Row<u32>| {
            let runs = row.runs().flat_map(|(values, times)| (0..times).flat_map(move |_| values));
            runs.copied().collect::<Row<u32>>() == *row
        };
        assert!(repeated(&row));
        (0..1_000).for_each(|at| *row.get_mut(at).expect("there") = 9);
        assert!(distinct(&row) > 2);
        row.compact();
        assert_eq!((distinct(&row), row.runs().count(), row.len()), (2, 2, 1_000));
        assert!(repeated(&row));
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
        assert_eq!(all.blocks.len(), 1, "empty chunks are freed");
    }
}

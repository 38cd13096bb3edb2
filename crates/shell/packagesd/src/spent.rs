//! What was stored by rights to upload: each counts for all uploads that use it at this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Time;

/// How many rights are remembered. If there are more, those that end first are forgotten.
const RIGHTS_MAX: usize = 65_536;

/// The rights in use. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spent(Arc<Mutex<HashMap<RightKey, Right>>>);

/// The signature of a right, which no two have in common.
type RightKey = Box<[u8]>;

#[derive(Debug)]
struct Right {
    until: Time,
    /// What was stored, in bytes.
    bytes: u64,
}

/// What one upload stores by a right. What it has not made durable at its end is given back.
#[derive(Debug)]
pub(crate) struct Spending {
    spent: Spent,
    key: RightKey,
    until: Time,
    bytes_max: u64,
    /// What was taken and is not durable yet, in bytes.
    pending: u64,
}

impl Spent {
    /// An upload by the right with this signature.
    pub(crate) fn upload(&self, signature: &[u8], until: Time, bytes_max: u64) -> Spending {
        Spending { spent: self.clone(), key: signature.into(), until, bytes_max, pending: 0 }
    }

    fn rights(&self) -> MutexGuard<'_, HashMap<RightKey, Right>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spending {
    /// What may still be stored, in bytes.
    pub(crate) fn left(&self) -> u64 {
        let bytes = self.spent.rights().get(&self.key).map_or(0, |right| right.bytes);
        self.bytes_max.saturating_sub(bytes)
    }

    /// The bound of the right, in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Takes bytes; `false` if fewer are left.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let mut rights = self.spent.rights();
        if rights.len() >= RIGHTS_MAX && !rights.contains_key(&self.key) {
            let first = rights.iter().min_by_key(|(_, right)| right.until);
            let first = first.map(|(key, _)| key.clone());
            first.and_then(|first| rights.remove(&first));
        }
        let right = rights.entry(self.key.clone());
        let right = right.or_insert(Right { until: self.until, bytes: 0 });
        if bytes > self.bytes_max.saturating_sub(right.bytes) {
            return false;
        }
        right.bytes += bytes;
        self.pending += bytes;
        true
    }

    /// Gives back bytes that were taken and not needed.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.pending);
        self.pending -= bytes;
        if let Some(right) = self.spent.rights().get_mut(&self.key) {
            right.bytes = right.bytes.saturating_sub(bytes);
        }
    }

    /// So many of the bytes that were taken last are not durable yet.
    pub(crate) fn is_pending(&mut self, bytes: u64) {
        self.pending = bytes.min(self.pending);
    }
}

impl Drop for Spending {
    fn drop(&mut self) {
        self.give_back(self.pending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_by_one_right_share_its_bytes() {
        let spent = Spent::default();
        let upload = || spent.upload(b"right", Time(9), 100);
        let (mut one, mut two) = (upload(), upload());
        assert!(one.take(60) && !two.take(41) && two.take(40) && !one.take(1));
        // A chunk that was there already.
        two.give_back(15);
        assert_eq!(one.left(), 15);
        // It ended early: 20 bytes were not durable.
        one.is_pending(20);
        drop(one);
        assert_eq!(two.left(), 35);
        drop(two);
        assert_eq!(upload().left(), 60);
        assert_eq!(spent.upload(b"other", Time(9), 100).left(), 100);
    }

    #[test]
    fn rights_that_end_first_are_forgotten() {
        let spent = Spent::default();
        for number in 0..RIGHTS_MAX as u64 + 10 {
            let mut upload = spent.upload(&number.to_le_bytes(), Time(number), 100);
            assert!(upload.take(1));
            upload.is_pending(0);
        }
        assert_eq!(spent.rights().len(), RIGHTS_MAX);
        let left = |number: u64| spent.upload(&number.to_le_bytes(), Time(number), 100).left();
        assert_eq!([9, 10].map(left), [100, 99]);
    }
}

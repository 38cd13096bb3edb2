//! What is reachable from the manifests that were read last, so that not every read walks a whole package.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Digest;
use package_store::PackageStore;
use rpc::transport::{Turn, Turns};
use tonic::Status;

use crate::walk::{PACKAGE_DIGESTS_MAX, Reached, walk};

/// The digests of all kept closures together: 128 MiB.
const KEPT_DIGESTS_MAX: usize = 1 << 22;

/// How many packages are walked at once; users share them.
const WALKS_AT_ONCE: usize = 4;

/// Every digest that is reachable from a manifest.
#[derive(Debug)]
pub(crate) struct Closure(Box<[Digest]>);

impl Closure {
    pub(crate) fn new(digests: HashSet<Digest>) -> Self {
        let mut digests: Box<[Digest]> = digests.into_iter().collect();
        digests.sort_unstable();
        Self(digests)
    }

    pub(crate) fn contains(&self, digest: &Digest) -> bool {
        self.0.binary_search(digest).is_ok()
    }
}

/// The closures that were used last. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Closures {
    kept: Arc<Mutex<Kept>>,
    walks: Turns<String>,
}

#[derive(Debug, Default)]
struct Kept {
    closures: HashMap<Digest, KeptClosure>,
    digests: usize,
    /// Counts uses.
    now: u64,
}

#[derive(Debug)]
struct KeptClosure {
    closure: Arc<Closure>,
    /// The user or the machine that it was read for.
    account: String,
    used: u64,
}

impl Closures {
    pub(crate) fn new() -> Self {
        Self { kept: Arc::default(), walks: Turns::new(WALKS_AT_ONCE) }
    }

    /// What is reachable from a manifest, read for an account if it is not kept.
    ///
    /// # Errors
    /// Those of [`walk`].
    pub(crate) async fn of(
        &self,
        store: &PackageStore,
        manifest: Digest,
        account: &str,
    ) -> Result<Arc<Closure>, Status> {
        if let Some(closure) = self.kept().of(&manifest) {
            return Ok(closure);
        }
        let _turn = self.turn(account).await;
        // Somebody else may have read it meanwhile.
        if let Some(closure) = self.kept().of(&manifest) {
            return Ok(closure);
        }
        let mut reached = Reached::default();
        if store.length(&manifest).is_none() {
            store.refresh().await.map_err(|error| crate::failure::of_store(&error))?;
        }
        walk(store, manifest, |_| true, &mut reached, PACKAGE_DIGESTS_MAX).await?;
        let closure = Arc::new(Closure::new(reached.into_all()));
        self.kept().keep(manifest, &closure, account, KEPT_DIGESTS_MAX);
        Ok(closure)
    }

    /// Waits for a turn at walking a package.
    pub(crate) async fn turn(&self, account: &str) -> Turn<String> {
        self.walks.of(&account.to_owned()).await
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn of(&mut self, manifest: &Digest) -> Option<Arc<Closure>> {
        self.now += 1;
        let kept = self.closures.get_mut(manifest)?;
        kept.used = self.now;
        Some(Arc::clone(&kept.closure))
    }

    /// Keeps a closure. If there is no room, the user with the most loses what was used longest ago: nobody
    /// displaces those who have less.
    fn keep(&mut self, manifest: Digest, closure: &Arc<Closure>, account: &str, max: usize) {
        if closure.0.len() > max {
            return;
        }
        self.now += 1;
        let (account, used) = (account.to_owned(), self.now);
        let new = KeptClosure { closure: Arc::clone(closure), account, used };
        self.digests += closure.0.len();
        if let Some(old) = self.closures.insert(manifest, new) {
            self.digests -= old.closure.0.len();
        }
        while self.digests > max {
            let mut held: BTreeMap<&str, usize> = BTreeMap::new();
            for kept in self.closures.values() {
                *held.entry(&kept.account).or_default() += kept.closure.0.len();
            }
            let most = held.into_iter().max_by_key(|(_, digests)| *digests);
            let Some((most, _)) = most else { break };
            let of_most = self.closures.iter().filter(|(_, kept)| kept.account == most);
            let oldest = of_most.min_by_key(|(_, kept)| kept.used).map(|(manifest, _)| *manifest);
            let Some(oldest) = oldest.and_then(|oldest| self.closures.remove(&oldest)) else {
                break;
            };
            self.digests -= oldest.closure.0.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u64) -> Digest {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        Digest::from_bytes(bytes)
    }

    fn closure(length: u64) -> Arc<Closure> {
        Arc::new(Closure::new((0..length).map(digest).collect()))
    }

    #[test]
    fn a_closure_has_its_digests() {
        let closure = closure(100);
        assert!(closure.contains(&digest(0)) && closure.contains(&digest(99)));
        assert!(!closure.contains(&digest(100)));
    }

    #[test]
    fn who_reads_most_loses_first() {
        let mut kept = Kept::default();
        for (manifest, account) in [(1, "ana"), (2, "ben"), (3, "ben"), (4, "ben"), (5, "ben")] {
            kept.keep(digest(manifest), &closure(10), account, 40);
        }
        let mut has = |manifest| kept.of(&digest(manifest)).is_some();
        assert_eq!([1, 2, 3, 4, 5].map(&mut has), [true, false, true, true, true]);
        // Of one's own the one that was used longest ago.
        assert!(has(3));
        kept.keep(digest(6), &closure(10), "ben", 40);
        let mut has = |manifest| kept.of(&digest(manifest)).is_some();
        assert_eq!([1, 3, 4, 5, 6].map(&mut has), [true, true, false, true, true]);
        kept.keep(digest(7), &closure(41), "ben", 40);
        assert!(kept.of(&digest(7)).is_none() && kept.of(&digest(1)).is_some());
        assert_eq!(kept.digests, 40);
    }
}

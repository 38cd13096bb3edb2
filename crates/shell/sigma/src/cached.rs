//! Large answers, shared for a moment: the pages of many viewers need the same list of all machines.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex as FairMutex;

/// A value up to so old is given while a newer one is fetched; after that a caller waits for it.
const STALE: Duration = Duration::from_secs(10);
/// What takes long to fetch is fetched less often: so many times as long as that took, up to a bound.
const TIMES: u32 = 20;
const SLOW_AGE: Duration = Duration::from_secs(5);

/// A value that is fetched again when it is too old. One caller fetches, the others wait for it.
#[derive(Debug)]
pub(crate) struct Cached<T>(Arc<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    max_age: Duration,
    newest: Mutex<Option<Kept<T>>>,
    /// Held by who fetches.
    fetching: Arc<FairMutex<()>>,
}

#[derive(Debug)]
struct Kept<T> {
    value: Arc<T>,
    since: Instant,
    /// How old it may be.
    age: Duration,
}

impl<T> Cached<T> {
    /// Holds nothing yet.
    pub(crate) fn new(max_age: Duration) -> Self {
        Self(Arc::new(Inner { max_age, newest: Mutex::default(), fetching: Arc::default() }))
    }

    /// The value, at most as old as it may be.
    pub(crate) async fn get<E>(
        &self,
        fetch: impl Future<Output = Result<T, E>>,
    ) -> Result<Arc<T>, E> {
        if let Some(value) = self.0.newest(Duration::ZERO) {
            return Ok(value);
        }
        let _only_one = self.0.fetching.lock().await;
        match self.0.newest(Duration::ZERO) {
            Some(value) => Ok(value),
            None => self.0.fetch(fetch).await,
        }
    }
}

impl<T: Send + Sync + 'static> Cached<T> {
    /// The value, at most as old as it may be and a little older while a newer one is fetched: no caller
    /// waits for what takes long, as long as somebody asks again and again.
    ///
    /// The future is boxed by the caller: it is passed on several times, and would need its size on the stack
    /// each time.
    pub(crate) async fn get_soon<E>(
        &self,
        fetch: impl Future<Output = Result<T, E>> + Send + Unpin + 'static,
    ) -> Result<Arc<T>, E> {
        let Some(value) = self.0.newest(STALE) else { return self.get(fetch).await };
        if self.0.newest(Duration::ZERO).is_none()
            && let Ok(only_one) = Arc::clone(&self.0.fetching).try_lock_owned()
        {
            let inner = Arc::clone(&self.0);
            tokio::spawn(async move {
                let _held = only_one;
                // Who asks when the value is too old sees the error.
                let _too_late = inner.fetch(fetch).await;
            });
        }
        Ok(value)
    }

    /// The same, but a caller does not wait longer than this for the first value: then there is none yet, and
    /// it is fetched all the same.
    pub(crate) async fn get_within<E: Send + 'static>(
        &self,
        patience: Duration,
        fetch: impl Future<Output = Result<T, E>> + Send + Unpin + 'static,
    ) -> Result<Option<Arc<T>>, E> {
        if self.0.newest(STALE).is_some() {
            return self.get_soon(fetch).await.map(Some);
        }
        let own = Self(Arc::clone(&self.0));
        let fetching = tokio::spawn(async move { own.get(fetch).await });
        match tokio::time::timeout(patience, fetching).await {
            Ok(Ok(fetched)) => fetched.map(Some),
            // It takes longer, or has panicked.
            Ok(Err(_)) | Err(_) => Ok(None),
        }
    }

    /// The newest value, however old it is.
    pub(crate) fn last(&self) -> Option<Arc<T>> {
        self.0.kept().as_ref().map(|kept| Arc::clone(&kept.value))
    }
}

impl<T> Inner<T> {
    fn kept(&self) -> MutexGuard<'_, Option<Kept<T>>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, if it is older than it may be by less than this.
    fn newest(&self, beyond: Duration) -> Option<Arc<T>> {
        let newest = self.kept();
        let newest = newest.as_ref().filter(|kept| kept.since.elapsed() < kept.age + beyond);
        newest.map(|kept| Arc::clone(&kept.value))
    }

    async fn fetch<E>(&self, fetch: impl Future<Output = Result<T, E>>) -> Result<Arc<T>, E> {
        let begun = Instant::now();
        let value = Arc::new(fetch.await?);
        let age = self.max_age.max((begun.elapsed() * TIMES).min(SLOW_AGE));
        *self.kept() = Some(Kept { value: Arc::clone(&value), since: Instant::now(), age });
        Ok(value)
    }
}

/// A value of a key that is older than this is dropped when there is a new key.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// More keys are not kept.
const KEYS_MAX: usize = 256;

/// Such values by a key.
#[derive(Debug)]
pub(crate) struct CachedBy<K, T> {
    max_age: Duration,
    values: Mutex<BTreeMap<K, Arc<Cached<T>>>>,
}

impl<K: Ord, T> CachedBy<K, T> {
    /// Holds nothing yet.
    pub(crate) fn new(max_age: Duration) -> Self {
        Self { max_age, values: Mutex::default() }
    }

    /// The one of a key.
    pub(crate) fn of(&self, key: K) -> Arc<Cached<T>> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if !values.contains_key(&key) {
            // Nobody has asked for these for a while; those without a value are being fetched.
            values
                .retain(|_, value| value.0.kept().is_none() || value.0.newest(FORGOTTEN).is_some());
            if values.len() >= KEYS_MAX {
                values.clear();
            }
        }
        let value = values.entry(key).or_insert_with(|| Arc::new(Cached::new(self.max_age)));
        Arc::clone(value)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    impl<T> Cached<T> {
        /// However long it took to fetch the value, it is old now.
        fn is_old(&self) {
            if let Some(kept) = self.0.kept().as_mut() {
                kept.age = Duration::ZERO;
            }
        }
    }

    #[tokio::test]
    async fn a_value_is_fetched_once_until_it_is_too_old() {
        let cached = Cached::new(Duration::from_secs(3_600));
        let value = async |number: u32| cached.get(async move { Ok::<_, ()>(number) }).await;
        assert_eq!(cached.get(async { Err::<u32, _>("no") }).await, Err("no"));
        assert_eq!(value(1).await.as_deref(), Ok(&1));
        assert_eq!(value(2).await.as_deref(), Ok(&1));
        let old = Cached::new(Duration::ZERO);
        assert_eq!(old.get(async { Ok::<_, ()>(1) }).await.as_deref(), Ok(&1));
        old.is_old();
        assert_eq!(old.get(async { Ok::<_, ()>(2) }).await.as_deref(), Ok(&2));
    }

    #[tokio::test]
    async fn an_old_value_is_given_while_a_newer_one_is_fetched() {
        let cached = Cached::new(Duration::ZERO);
        assert_eq!(cached.get_soon(Box::pin(async { Ok::<_, ()>(1) })).await.as_deref(), Ok(&1));
        cached.is_old();
        let (fetched, fetch) = oneshot::channel();
        let slow = async move { fetch.await.map_err(drop) };
        assert_eq!(cached.get_soon(Box::pin(slow)).await.as_deref(), Ok(&1));
        assert_eq!(cached.get_soon(Box::pin(async { Ok::<_, ()>(3) })).await.as_deref(), Ok(&1));
        fetched.send(2).expect("it is fetched");
        // Who asks for a new one waits until then.
        drop(cached.0.fetching.lock().await);
        assert_eq!(cached.get_soon(Box::pin(async { Err(()) })).await.as_deref(), Ok(&2));
    }

    #[tokio::test]
    async fn the_wait_for_a_first_value_is_bounded() {
        let cached = Cached::new(Duration::from_secs(3_600));
        let (fetched, fetch) = oneshot::channel();
        let slow = Box::pin(async move { fetch.await.map_err(drop) });
        let within = Duration::from_millis(10);
        assert_eq!(cached.get_within(within, slow).await, Ok(None));
        assert_eq!(cached.last(), None);
        fetched.send(1).expect("it is fetched");
        let other = || Box::pin(async { Ok::<_, ()>(2) });
        let patient = Duration::from_secs(60);
        assert_eq!(cached.get_within(patient, other()).await, Ok(Some(Arc::new(1))));
        cached.is_old();
        assert_eq!(cached.get_within(within, other()).await, Ok(Some(Arc::new(1))));
        assert_eq!(cached.last(), Some(Arc::new(1)));
    }

    #[tokio::test]
    async fn each_key_has_its_own_value() {
        let cached = CachedBy::new(Duration::from_secs(3_600));
        for (key, number, expected) in [("a", 1, 1), ("b", 2, 2), ("a", 3, 1)] {
            let value = cached.of(key).get(async { Ok::<_, ()>(number) }).await;
            assert_eq!(value.as_deref(), Ok(&expected), "{key}");
        }
        let cached = CachedBy::<usize, ()>::new(Duration::ZERO);
        for key in 0..3 * KEYS_MAX {
            cached.of(key);
            assert!(cached.values.lock().unwrap().len() <= KEYS_MAX);
        }
    }
}

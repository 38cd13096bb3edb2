//! Turns at work that is done for a few at a time: each client has one at once, and those who wait are
//! served in the order in which each came to its own first place.
//!
//! A queue of all requests would be the queue of whoever asks most. Here a client's requests wait behind
//! each other, and only the first of each waits for a turn: another client waits for at most one of
//! theirs. How many may wait is limited by the caller, see [`super::Limiter`].

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Turns; clones share them.
#[derive(Debug)]
pub struct Turns<Who: Eq + Hash> {
    at_once: Arc<Semaphore>,
    of_each: Arc<Queues<Who>>,
}

/// The clients that wait or have a turn.
type Queues<Who> = Mutex<HashMap<Who, Arc<Semaphore>>>;

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct Turn<Who: Eq + Hash> {
    _turn: OwnedSemaphorePermit,
    _place: Place<Who>,
}

/// The first place of a client.
#[derive(Debug)]
struct Place<Who: Eq + Hash> {
    place: Option<OwnedSemaphorePermit>,
    who: Who,
    of_each: Arc<Queues<Who>>,
}

impl<Who: Eq + Hash + Clone> Turns<Who> {
    /// For so much work at once.
    #[must_use]
    pub fn new(at_once: usize) -> Self {
        Self { at_once: Arc::new(Semaphore::new(at_once)), of_each: Arc::default() }
    }

    /// Waits for a turn of a client.
    pub async fn take(&self, who: Who) -> Turn<Who> {
        let own = {
            let mut of_each = lock(&self.of_each);
            Arc::clone(of_each.entry(who.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        // Dropped while it waits, too.
        let mut place = Place { place: None, who, of_each: Arc::clone(&self.of_each) };
        place.place = own.acquire_owned().await.ok();
        match Arc::clone(&self.at_once).acquire_owned().await {
            Ok(turn) => Turn { _turn: turn, _place: place },
            Err(_closed) => unreachable!("it is never closed"),
        }
    }
}

impl<Who: Eq + Hash> Drop for Place<Who> {
    fn drop(&mut self) {
        let mut of_each = lock(&self.of_each);
        self.place = None;
        // The others of this client hold it, too.
        if of_each.get(&self.who).is_some_and(|own| Arc::strong_count(own) == 1) {
            of_each.remove(&self.who);
        }
    }
}

impl<Who: Eq + Hash> Clone for Turns<Who> {
    fn clone(&self) -> Self {
        Self { at_once: Arc::clone(&self.at_once), of_each: Arc::clone(&self.of_each) }
    }
}

fn lock<Who>(of_each: &Queues<Who>) -> MutexGuard<'_, HashMap<Who, Arc<Semaphore>>> {
    of_each.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    /// Polls once.
    async fn now<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
        std::future::poll_fn(|context| Poll::Ready(std::pin::Pin::new(&mut *future).poll(context)))
            .await
    }

    #[tokio::test]
    async fn whoever_asks_most_has_one_turn_and_others_wait_for_one_of_theirs() {
        let turns = Turns::new(1);
        let running = turns.take("greedy").await;
        let mut waiting: Vec<_> = (0..50).map(|_| Box::pin(turns.take("greedy"))).collect();
        for one in &mut waiting {
            assert!(now(one).await.is_pending());
        }
        let mut ana = Box::pin(turns.take("ana"));
        assert!(now(&mut ana).await.is_pending());
        drop(running);
        let turn = now(&mut ana).await;
        assert!(
            turn.is_ready(),
            "ana is next: the others of the greedy one wait behind each other"
        );
        drop(turn);
        assert!(now(&mut waiting[0]).await.is_ready());
        drop((waiting, ana));
        assert!(lock(&turns.of_each).is_empty(), "nothing is left of those who are gone");
        let _next = turns.take("greedy").await;
    }
}

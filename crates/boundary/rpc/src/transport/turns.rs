//! Turns at something of which a process does only so much at once. Users share it by the one rule for
//! what users share, and what is beyond a user's share waits: the requests of one user for each other,
//! never those of another user for them. How many may wait is limited by the caller, see [`Limiter`].

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::{Limiter, Permit};

/// So many turns at once. Clones share them.
#[derive(Debug)]
pub struct Turns<Who: Eq + Hash>(Arc<Inner<Who>>);

#[derive(Debug)]
struct Inner<Who: Eq + Hash> {
    limiter: Limiter<Who>,
    /// A turn has ended.
    ended: Notify,
    /// Where the requests of each user wait in their order; only the first of a user looks for a turn.
    queues: Mutex<HashMap<Who, Queue>>,
}

type Queue = Arc<tokio::sync::Mutex<()>>;

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct Turn<Who: Eq + Hash> {
    permit: Option<Permit<Who>>,
    turns: Turns<Who>,
}

impl<Who: Eq + Hash> Clone for Turns<Who> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Who: Eq + Hash + Clone> Turns<Who> {
    /// So many turns at once for all users together.
    #[must_use]
    pub fn new(max: usize) -> Self {
        let limiter = Limiter::shared(max);
        Self(Arc::new(Inner { limiter, ended: Notify::new(), queues: Mutex::default() }))
    }

    /// Waits for a turn of a user.
    pub async fn of(&self, user: &Who) -> Turn<Who> {
        let queue = self.queue(user);
        let _first = queue.lock().await;
        loop {
            // Before the look, so that no end is missed.
            let mut ended = std::pin::pin!(self.0.ended.notified());
            ended.as_mut().enable();
            if let Ok(permit) = self.0.limiter.acquire(user.clone()) {
                return Turn { permit: Some(permit), turns: self.clone() };
            }
            ended.await;
        }
    }

    /// The queue of a user; those in which nobody waits are forgotten.
    fn queue(&self, user: &Who) -> Queue {
        let mut queues = self.0.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|other, queue| other == user || Arc::strong_count(queue) > 1);
        Arc::clone(queues.entry(user.clone()).or_default())
    }
}

impl<Who: Eq + Hash> Drop for Turn<Who> {
    fn drop(&mut self) {
        self.permit = None;
        self.turns.0.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::sync::Semaphore;
    use tokio::task::yield_now;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// Requests of users, each of which holds its turn until the gate lets one more go.
    #[derive(Clone)]
    struct Requests {
        turns: Turns<&'static str>,
        has: Arc<AtomicUsize>,
        gate: Arc<Semaphore>,
    }

    impl Requests {
        fn new(turns: &Turns<&'static str>) -> Self {
            let (has, gate) = (Arc::default(), Arc::new(Semaphore::new(0)));
            Self { turns: turns.clone(), has, gate }
        }

        fn make(&self, name: &'static str) {
            let this = self.clone();
            tokio::spawn(async move {
                let _turn = this.turns.of(&name).await;
                this.has.fetch_add(1, Ordering::Relaxed);
                this.gate.acquire().await.expect("it is never closed").forget();
            });
        }

        async fn settle(&self) -> usize {
            for _ in 0..1_000 {
                yield_now().await;
            }
            self.has.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn checks_that_hang_leave_turns_for_other_users() {
        let turns = Turns::new(64);
        let greedy = Requests::new(&turns);
        (0..160).for_each(|_| greedy.make("mal"));
        assert_eq!(greedy.settle().await, 28, "half of what users share");
        for _ in 0..100 {
            let other = tokio::time::timeout(PATIENCE, turns.of(&"ana")).await;
            other.expect("there is a turn for others");
        }
    }

    #[tokio::test]
    async fn waiting_requests_get_freed_turns_in_order() {
        let turns = Turns::new(8);
        let greedy = Requests::new(&turns);
        (0..20).for_each(|_| greedy.make("mal"));
        assert_eq!(greedy.settle().await, 4);
        for name in ["ben", "eva"] {
            let others = Requests::new(&turns);
            (0..3).for_each(|_| others.make(name));
            others.settle().await;
        }
        let late = Requests::new(&turns);
        late.make("ana");
        assert_eq!(late.settle().await, 0, "all turns are taken");
        greedy.gate.add_permits(1);
        assert_eq!(late.settle().await, 1, "the first turn that ends is that of who has none");
        assert_eq!(greedy.has.load(Ordering::Relaxed), 4, "and not of who has most");
        greedy.gate.add_permits(20);
        assert_eq!(greedy.settle().await, 20, "they all have theirs in the end");
    }

    #[tokio::test]
    async fn an_abandoned_wait_does_not_block_the_next_request() {
        let turns = Turns::new(1);
        let only = turns.of(&"ana").await;
        for _ in 0..3 {
            let waits = tokio::time::timeout(Duration::ZERO, turns.of(&"ana")).await;
            assert!(waits.is_err());
        }
        drop(only);
        let next = tokio::time::timeout(PATIENCE, turns.of(&"ana")).await;
        next.expect("it is free");
        let _one = turns.of(&"ben").await;
        assert_eq!(turns.0.queues.lock().expect("no panic").len(), 1, "empty queues go");
    }
}

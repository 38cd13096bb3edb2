//! Which threads of a master are alive, and when the core last took a step: the basis of its
//! health.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A thread that a master cannot serve without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    /// Takes every step of the replica.
    Core,
    /// Writes the log.
    Log,
    /// Stores the events.
    Events,
}

impl Component {
    const ALL: [Self; 3] = [Self::Core, Self::Log, Self::Events];

    fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Log => "log",
            Self::Events => "events",
        }
    }
}

/// The threads of a master.
#[derive(Debug)]
pub(super) struct Threads {
    since: Instant,
    /// When the core last took a step, in microseconds after that.
    stepped: AtomicU64,
    ended: Arc<[AtomicBool; Component::ALL.len()]>,
}

/// A thread holds this while it is alive; it is dropped when the thread ends, even by a panic.
#[derive(Debug)]
pub(super) struct Alive {
    part: Component,
    ended: Arc<[AtomicBool; Component::ALL.len()]>,
}

impl Default for Threads {
    fn default() -> Self {
        Self { since: Instant::now(), stepped: AtomicU64::new(0), ended: Arc::default() }
    }
}

impl Threads {
    /// Marks a thread as alive until the returned value is dropped.
    pub(super) fn alive(&self, part: Component) -> Alive {
        Alive { part, ended: Arc::clone(&self.ended) }
    }

    /// Records a step of the core.
    pub(super) fn steps(&self) {
        let micros = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.stepped.store(micros, Ordering::Relaxed);
    }

    /// The time since the core's last step.
    pub(super) fn since_step(&self) -> Duration {
        let stepped = Duration::from_micros(self.stepped.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(stepped)
    }

    /// The names of those that have ended.
    pub(super) fn ended(&self) -> Vec<&'static str> {
        let ended = self.ended.iter().map(|ended| ended.load(Ordering::Acquire));
        Component::ALL
            .iter()
            .zip(ended)
            .filter(|(_, ended)| *ended)
            .map(|(part, _)| part.name())
            .collect()
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        let mine =
            Component::ALL.iter().zip(self.ended.iter()).find(|(part, _)| **part == self.part);
        if let Some((_, ended)) = mine {
            ended.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_has_ended_as_well() {
        let threads = Threads::default();
        let (core, log) = (threads.alive(Component::Core), threads.alive(Component::Log));
        assert!(threads.ended().is_empty());
        let panicked = std::thread::spawn(move || {
            let _alive = log;
            panic!("as a thread may");
        });
        assert!(panicked.join().is_err());
        assert_eq!(threads.ended(), ["log"]);
        drop(core);
        assert_eq!(threads.ended(), ["core", "log"]);
    }
}

//! Which task gets a new connection: pure and synchronous, time and randomness are arguments.

use std::collections::BTreeMap;

use api::v1;
use model::{Random, Span, Time};

/// How long a task is avoided after a failed connection. It doubles with each further one.
const AVOIDED_MIN: Span = Span(100_000);
/// The longest time that a task is avoided.
const AVOIDED_MAX: Span = Span::from_secs(10);

/// One incarnation of a task, and where it listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Backend {
    pub(super) user: String,
    pub(super) job: String,
    pub(super) index: u32,
    pub(super) generation: u32,
    /// An IP address, or a name of the network's own.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Backend {
    /// The task as `user/job/index`.
    pub(super) fn task(&self) -> String {
        format!("{}/{}/{}", self.user, self.job, self.index)
    }
}

/// How well a task suits a new connection, the best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fitness {
    /// It is about to end.
    Stopping,
    /// It runs, and is not healthy or does not answer the master.
    Running,
    /// It serves.
    Serving,
}

impl Fitness {
    /// A task that has not started yet suits none.
    fn of(task: &v1::NameTask) -> Option<Self> {
        match task.state() {
            _ if task.serves => Some(Self::Serving),
            v1::TaskState::Running => Some(Self::Running),
            v1::TaskState::Stopping => Some(Self::Stopping),
            _ => None,
        }
    }
}

/// What is known of a task.
#[derive(Clone, Debug, Default)]
struct State {
    fitness: Option<Fitness>,
    /// Whether the service still has it.
    known: bool,
    /// Open connections, those that are being opened included.
    open: u64,
    failures: u32,
    avoided_until: Time,
}

/// Numbers of connections, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionCounts {
    pub(super) open: u64,
    pub(super) total: u64,
    pub(super) failed: u64,
}

/// The tasks behind a service.
#[derive(Debug, Default)]
pub(super) struct Backends {
    tasks: BTreeMap<Backend, State>,
    /// By task, whatever its incarnation, while the service has the task or it has connections.
    counts: BTreeMap<String, ConnectionCounts>,
}

impl Backends {
    /// The service's record has changed; `None` if there is no service any more. Open connections go on.
    pub(super) fn update(&mut self, record: Option<&v1::NameRecord>) {
        for state in self.tasks.values_mut() {
            (state.fitness, state.known) = (None, false);
        }
        for task in record.into_iter().flat_map(|record| &record.tasks) {
            let Some(port) = task.ports.first().and_then(|port| u16::try_from(port.port).ok())
            else {
                continue;
            };
            let backend = Backend {
                user: task.user.clone(),
                job: task.job.clone(),
                index: task.index,
                generation: task.generation,
                host: task.host.clone(),
                port,
            };
            let state = self.tasks.entry(backend).or_default();
            (state.fitness, state.known) = (Fitness::of(task), true);
        }
        self.forget();
    }

    /// Forgets tasks that the service does not have any more and that have no connection.
    fn forget(&mut self) {
        self.tasks.retain(|_, state| state.known || state.open > 0);
        let tasks: Vec<String> = self.tasks.keys().map(Backend::task).collect();
        self.counts.retain(|task, _| tasks.contains(task));
    }

    /// Chooses a task for a new connection, and counts the connection as open. Of two random ones that
    /// serve it is the one with fewer open connections. Those that were tried are left out, and those
    /// whose connections failed lately unless there is no other. If none is left that serves, those that
    /// run are tried: a check that fails everywhere, under load for example, must not end the service.
    pub(super) fn choose(
        &mut self,
        now: Time,
        tried: &[Backend],
        random: &mut Random,
    ) -> Option<Backend> {
        let left = || {
            let tasks = self.tasks.iter().filter(|(task, _)| !tried.contains(task));
            tasks.filter(|(_, state)| state.fitness.is_some())
        };
        let best = left().filter_map(|(_, state)| state.fitness).max();
        let fittest: Vec<(&Backend, &State)> =
            left().filter(|(_, state)| state.fitness == best).collect();
        let ready = fittest.iter().filter(|(_, state)| state.avoided_until <= now);
        let ready: Vec<(&Backend, &State)> = ready.copied().collect();
        let among = if ready.is_empty() { fittest } else { ready };
        let first = random.index(among.len());
        // Another one, if there is one.
        let second = first + 1 + random.index(among.len().saturating_sub(1));
        let second = second.checked_rem(among.len())?;
        let (first, second) = (among.get(first)?, among.get(second)?);
        let chosen = if second.1.open < first.1.open { second.0 } else { first.0 };
        let chosen = chosen.clone();
        self.tasks.entry(chosen.clone()).and_modify(|state| state.open += 1);
        self.counts.entry(chosen.task()).or_default().open += 1;
        Some(chosen)
    }

    /// A connection that was chosen for a task is established.
    pub(super) fn connected(&mut self, task: &Backend) {
        if let Some(state) = self.tasks.get_mut(task) {
            (state.failures, state.avoided_until) = (0, Time::default());
        }
        self.counts.entry(task.task()).or_default().total += 1;
    }

    /// A connection that was chosen for a task could not be established.
    pub(super) fn failed(&mut self, now: Time, task: &Backend) {
        if let Some(state) = self.tasks.get_mut(task) {
            let doubled = AVOIDED_MIN.0.checked_shl(state.failures).unwrap_or(u64::MAX);
            state.avoided_until = now + Span(doubled).min(AVOIDED_MAX);
            // Beyond that it is the longest time anyway.
            state.failures = (state.failures + 1).min(16);
        }
        self.counts.entry(task.task()).or_default().failed += 1;
        self.closed(task);
    }

    /// A connection has ended.
    pub(super) fn closed(&mut self, task: &Backend) {
        if let Some(state) = self.tasks.get_mut(task) {
            state.open = state.open.saturating_sub(1);
        }
        let counts = self.counts.entry(task.task()).or_default();
        counts.open = counts.open.saturating_sub(1);
        self.forget();
    }

    /// Number of tasks that get new connections.
    pub(super) fn serving(&self) -> usize {
        let serves = |state: &&State| state.fitness == Some(Fitness::Serving);
        self.tasks.values().filter(serves).count()
    }

    /// Connections by task.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&str, ConnectionCounts)> {
        self.counts.iter().map(|(task, counts)| (task.as_str(), *counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(index: u32, serves: bool) -> v1::NameTask {
        v1::NameTask {
            index,
            generation: 1,
            host: "10.0.0.1".to_owned(),
            ports: vec![v1::NamedPort { name: "http".to_owned(), port: 31_000 + index }],
            serves,
            state: v1::TaskState::Running.into(),
            user: "ana".to_owned(),
            job: "web".to_owned(),
            ..v1::NameTask::default()
        }
    }

    fn record(tasks: &[(u32, bool)]) -> v1::NameRecord {
        let tasks = tasks.iter().map(|(index, serves)| task(*index, *serves)).collect();
        v1::NameRecord { tasks, ..v1::NameRecord::default() }
    }

    fn at(milliseconds: u64) -> Time {
        Time(1_000_000_000 + milliseconds * 1_000)
    }

    #[test]
    fn tasks_that_serve_get_connections_and_others_only_if_none_does() {
        let mut random = Random::new(1);
        // Tasks with whether they serve, and those that may be chosen.
        type Tasks = &'static [(u32, bool)];
        let table: [(Tasks, &[u32]); 5] = [
            (&[], &[]),
            (&[(0, false)], &[0]),
            (&[(0, true)], &[0]),
            (&[(0, false), (1, true), (2, true)], &[1, 2]),
            (&[(0, true), (1, true), (2, true), (3, false)], &[0, 1, 2]),
        ];
        for (tasks, expected) in table {
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..100 {
                let mut backends = Backends::default();
                backends.update(Some(&record(tasks)));
                seen.extend(backends.choose(at(0), &[], &mut random).map(|task| task.index));
            }
            assert_eq!(Vec::from_iter(seen), expected, "{tasks:?}");
        }
    }

    #[test]
    fn tried_backends_leave_the_next_best() {
        let mut random = Random::new(5);
        let mut backends = Backends::default();
        let mut tasks = record(&[(0, true), (1, false), (2, false), (3, false)]);
        tasks.tasks[2].state = v1::TaskState::Stopping.into();
        tasks.tasks[3].state = v1::TaskState::Starting.into();
        backends.update(Some(&tasks));
        let mut tried = Vec::new();
        while let Some(task) = backends.choose(at(0), &tried, &mut random) {
            tried.push(task);
        }
        assert_eq!(tried.iter().map(|task| task.index).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn connections_are_spread_evenly() {
        let (mut backends, mut random) = (Backends::default(), Random::new(2));
        backends.update(Some(&record(&[(0, true), (1, true), (2, true), (3, true)])));
        for _ in 0..4_000 {
            backends.choose(at(0), &[], &mut random).expect("one serves");
        }
        for (task, counts) in backends.counts() {
            assert!((985..=1_015).contains(&counts.open), "{task}: {counts:?}");
        }
        // A task that is new gets most connections until it has as many.
        backends.update(Some(&record(&[(0, true), (1, true), (2, true), (3, true), (4, true)])));
        let new = (0..100)
            .filter(|_| backends.choose(at(0), &[], &mut random).expect("one serves").index == 4);
        assert!(new.count() >= 25);
    }

    #[test]
    fn a_task_that_fails_is_avoided_for_twice_as_long_each_time() {
        let (mut backends, mut random) = (Backends::default(), Random::new(3));
        backends.update(Some(&record(&[(0, true), (1, true)])));
        let bad = loop {
            let task = backends.choose(at(0), &[], &mut random).expect("one serves");
            backends.closed(&task);
            if task.index == 0 {
                break task;
            }
        };
        let mut now = 0;
        for avoided in [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000] {
            backends.failed(at(now), &bad);
            let chosen = |backends: &mut Backends, random: &mut Random, at: Time| {
                let tasks: std::collections::BTreeSet<u32> = (0..50)
                    .map(|_| {
                        let task = backends.choose(at, &[], random).expect("one serves");
                        backends.closed(&task);
                        task.index
                    })
                    .collect();
                Vec::from_iter(tasks)
            };
            assert_eq!(chosen(&mut backends, &mut random, at(now + avoided - 1)), [1], "{avoided}");
            assert_eq!(chosen(&mut backends, &mut random, at(now + avoided)), [0, 1], "{avoided}");
            now += avoided;
        }
        // The last one there is is not avoided, and a success ends it.
        backends.failed(at(now), &bad);
        backends.update(Some(&record(&[(0, true)])));
        assert_eq!(backends.choose(at(now), &[], &mut random), Some(bad.clone()));
        backends.connected(&bad);
        assert_eq!(backends.choose(at(now), std::slice::from_ref(&bad), &mut random), None);
    }

    #[test]
    fn a_departed_task_is_counted_until_its_last_connection_ends() {
        let (mut backends, mut random) = (Backends::default(), Random::new(4));
        backends.update(Some(&record(&[(0, true)])));
        let task = backends.choose(at(0), &[], &mut random).expect("one serves");
        backends.connected(&task);
        backends.update(Some(&record(&[(0, false)])));
        assert_eq!(backends.serving(), 0);
        backends.update(None);
        assert_eq!((backends.choose(at(0), &[], &mut random), backends.serving()), (None, 0));
        let counts = ConnectionCounts { open: 1, total: 1, failed: 0 };
        assert_eq!(Vec::from_iter(backends.counts()), [("ana/web/0", counts)]);
        backends.closed(&task);
        assert_eq!(backends.counts().count(), 0);
    }
}

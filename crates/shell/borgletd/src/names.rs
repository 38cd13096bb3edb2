//! DNS for the tasks of this machine: names of the cell that tasks have asked for, and foreign names
//! from the host's resolvers.
//!
//! A name that is not known is asked at a replica. A watch tells what changes of those that are known, and
//! an answer is asked again after its time in any case. While no replica answers, the last known
//! answers are given.

mod address;
mod clients;
mod replicas;
mod resolv_conf;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::v1;
use dns::{Answer, Cache, CacheLimits, Endpoint, Lookup, Owner, Question, Via};
use model::{JobName, LogIndex, PortName, TaskIndex, Time, UserName};
use nameserver::{Client, Source};
use process::renewal::Masters;
use rpc::Rotating;
use tokio::sync::Notify;
use tonic::{Code, Status};

use self::clients::TaskClients;
use self::replicas::ReplicaClients;
use crate::owners::Owners;

pub(crate) use self::address::{listen, listen_at_gateway};
pub(crate) use self::resolv_conf::{ResolvConf, TaskResolver};

/// After no replica has answered, the last known answers are given for so long before they are asked
/// again.
const PAUSE: Duration = Duration::from_secs(1);
/// New names join the watch together.
const GATHER: Duration = Duration::from_secs(1);
/// The delay before a watch that has ended is begun again.
const RETRY: Duration = Duration::from_millis(500);
/// The maximum number of jobs that are watched, and how long after they were asked for last.
const WATCHED_MAX: usize = 10_000;
const WATCHED_FOR: Duration = Duration::from_secs(600);

/// The names that the tasks of this machine have asked for. Clones share their state.
#[derive(Clone)]
pub(crate) struct MachineNames(Arc<Inner>);

struct Inner {
    replicas: ReplicaClients,
    clients: TaskClients,
    owners: Owners,
    cache: Mutex<Cache>,
    begun: Instant,
    /// When all replicas failed last, if none has answered since.
    alone: Mutex<Option<Instant>>,
    watched: Mutex<Watched>,
    /// There are new names to watch.
    more: Notify,
}

/// The jobs to watch.
#[derive(Default)]
struct Watched {
    /// When each was asked for last.
    jobs: BTreeMap<(UserName, JobName), Instant>,
    /// The lowest index of the answers about those that no watch has yet.
    from: Option<LogIndex>,
}

impl MachineNames {
    /// The names of the masters' cell, served at an address of this host.
    pub(crate) fn new(
        credentials: Rotating,
        masters: Masters,
        address: Option<SocketAddr>,
        owners: Owners,
    ) -> Self {
        Self(Arc::new(Inner {
            replicas: ReplicaClients::new(credentials, masters),
            clients: TaskClients::new(address),
            owners,
            cache: Mutex::new(Cache::new(CacheLimits::default())),
            begun: Instant::now(),
            alone: Mutex::default(),
            watched: Mutex::default(),
            more: Notify::new(),
        }))
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.0.begun.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        lock(&self.0.cache)
    }

    /// Asks the replicas for the job of a question, and stores the answers.
    async fn ask(&self, question: &Question, user: &UserName, job: &JobName) -> Lookup {
        let address = v1::JobAddress { user: user.to_string(), job: job.to_string() };
        let query = v1::NameQuery { jobs: vec![address], labels: String::new() };
        match self.0.replicas.get(v1::GetNamesRequest { query: Some(query), at: None }).await {
            Ok(found) => {
                *lock(&self.0.alone) = None;
                let (index, now) = (LogIndex(found.index), self.now());
                let record = found.records.first();
                let found = answer(question, record);
                let whole = Question::Job { user: user.clone(), job: job.clone() };
                if *question != whole {
                    self.cache().learn(whole.clone(), answer(&whole, record), index, now);
                }
                self.cache().learn(question.clone(), found.clone(), index, now);
                self.watch_also(user, job, index);
                Lookup::Fresh(found)
            }
            Err(error) => {
                tracing::debug!("no replica answers for names: {error:#}");
                *lock(&self.0.alone) = Some(Instant::now());
                self.cache().get(question, self.now(), false)
            }
        }
    }

    fn watch_also(&self, user: &UserName, job: &JobName, index: LogIndex) {
        let mut watched = lock(&self.0.watched);
        let key = (user.clone(), job.clone());
        let is_new = !watched.jobs.contains_key(&key);
        if is_new && watched.jobs.len() >= WATCHED_MAX {
            // Its answers are asked again after their time.
            return;
        }
        watched.jobs.insert(key, Instant::now());
        if is_new {
            watched.from = Some(watched.from.map_or(index, |from| from.min(index)));
            self.0.more.notify_one();
        }
    }

    /// Follows the changes of known names, forever.
    pub(crate) async fn follow(self) -> std::convert::Infallible {
        let mut after = LogIndex(0);
        loop {
            let jobs = self.to_watch(&mut after);
            if jobs.is_empty() {
                self.0.more.notified().await;
                tokio::time::sleep(GATHER).await;
                continue;
            }
            let more = async {
                self.0.more.notified().await;
                tokio::time::sleep(GATHER).await;
            };
            tokio::select! {
                () = more => {}
                () = self.watch(jobs, &mut after) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    /// The jobs to watch; sets from which index on.
    fn to_watch(&self, after: &mut LogIndex) -> Vec<v1::JobAddress> {
        let mut watched = lock(&self.0.watched);
        watched.jobs.retain(|_, asked| asked.elapsed() < WATCHED_FOR);
        if let Some(from) = watched.from.take() {
            *after = if *after == LogIndex(0) { from } else { from.min(*after) };
        }
        let address = |(user, job): &(UserName, JobName)| v1::JobAddress {
            user: user.to_string(),
            job: job.to_string(),
        };
        watched.jobs.keys().map(address).collect()
    }

    /// Takes in changes until the watch ends.
    async fn watch(&self, jobs: Vec<v1::JobAddress>, after: &mut LogIndex) {
        let query = v1::NameQuery { jobs, labels: String::new() };
        let request = v1::WatchNamesRequest { query: Some(query), after: after.0 };
        let mut changes = match self.0.replicas.watch(request).await {
            Ok(changes) => changes,
            Err(error) => {
                let status = error.downcast_ref::<Status>();
                if status.is_some_and(|status| status.code() == Code::OutOfRange) {
                    // The cell was restored: what is known may never have been.
                    *after = LogIndex(0);
                    *self.cache() = Cache::new(CacheLimits::default());
                }
                return tracing::debug!("cannot watch names: {error:#}");
            }
        };
        loop {
            match changes.message().await {
                Ok(Some(change)) => {
                    self.take_in(&change);
                    if !change.more {
                        *after = LogIndex(change.index);
                    }
                }
                Ok(None) => return,
                Err(status) => return tracing::debug!("the watch of names has ended: {status}"),
            }
        }
    }

    fn take_in(&self, change: &v1::NamesChange) {
        let (index, now) = (LogIndex(change.index), self.now());
        let changed = |user: &str, job: &str, record: Option<&v1::NameRecord>| {
            let (Ok(user), Ok(job)) = (UserName::new(user), JobName::new(job)) else { return };
            self.cache().changed(&user, &job, index);
            let whole = Question::Job { user, job };
            let found = answer(&whole, record);
            self.cache().learn(whole, found, index, now);
        };
        change.records.iter().for_each(|it| changed(&it.user, &it.job, Some(it)));
        change.gone.iter().for_each(|it| changed(&it.user, &it.job, None));
    }
}

impl dns::Names for MachineNames {
    fn lookup(&self, question: &Question) -> Lookup {
        match question {
            Question::Master => {
                let hosts = self.0.replicas.hosts();
                Lookup::Fresh(Answer::Found(hosts.into_iter().map(master).collect()))
            }
            // What tasks ask for is below it; and addresses are the host's resolvers' business.
            Question::User(_) | Question::Address(_) => {
                Lookup::Fresh(Answer::Found(Arc::default()))
            }
            Question::Job { .. } | Question::Task { .. } => {
                let alone = *lock(&self.0.alone);
                let is_reachable = alone.is_none_or(|since| since.elapsed() > PAUSE);
                self.cache().get(question, self.now(), is_reachable)
            }
        }
    }
}

impl Source for MachineNames {
    async fn resolve(&self, question: Question) -> Lookup {
        match &question {
            Question::Job { user, job } | Question::Task { user, job, .. } => {
                self.ask(&question, user, job).await
            }
            Question::Master | Question::User(_) | Question::Address(_) => Lookup::Missing,
        }
    }

    fn client(&self, peer: SocketAddr, via: Via) -> Client {
        self.0.clients.client(peer, via)
    }

    /// The user whose task it is; what is no task is by itself.
    fn owner(&self, client: Client) -> Client {
        let owners = &self.0.owners;
        let user = match client {
            Client::Number(uid) => u32::try_from(uid).ok().and_then(|uid| owners.of_uid(uid)),
            Client::Address(IpAddr::V4(address)) => owners.of_address(address),
            Client::Address(IpAddr::V6(_)) | Client::User(_) => None,
        };
        user.map_or(client, Client::User)
    }
}

fn master(address: IpAddr) -> Endpoint {
    Endpoint { owner: Owner::Master, address, ports: Vec::new(), running: true, healthy: true }
}

/// What the record of a job says about it, or about one of its tasks.
fn answer(question: &Question, record: Option<&v1::NameRecord>) -> Answer {
    let Some(record) = record else { return Answer::NoSuchName };
    let (user, job, only) = match question {
        Question::Job { user, job } => (user, job, None),
        Question::Task { user, job, index } if index.0 < record.size => (user, job, Some(index.0)),
        _ => return Answer::NoSuchName,
    };
    let tasks = record.tasks.iter().filter(|task| only.is_none_or(|only| only == task.index));
    // The tasks behind a service have names of their own.
    let owner = |task: &v1::NameTask| {
        Some(match record.service {
            None => (user.clone(), job.clone()),
            Some(_) => (UserName::new(&task.user).ok()?, JobName::new(&task.job).ok()?),
        })
    };
    let endpoint = |task: &v1::NameTask| {
        let (user, job) = owner(task)?;
        let port = |port: &v1::NamedPort| {
            Some((PortName::new(&port.name).ok()?, u16::try_from(port.port).ok()?))
        };
        Some(Endpoint {
            owner: Owner::Task { user, job, index: TaskIndex(task.index) },
            address: task.host.parse().ok()?,
            ports: task.ports.iter().filter_map(port).collect(),
            running: task.state != i32::from(v1::TaskState::Starting),
            healthy: task.serves,
        })
    };
    Answer::Found(tasks.filter_map(endpoint).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> v1::NameRecord {
        let task = |index, state: v1::TaskState, serves| v1::NameTask {
            index,
            host: "10.0.0.1".to_owned(),
            ports: vec![v1::NamedPort { name: "http".to_owned(), port: 31_000 + index }],
            state: state.into(),
            serves,
            ..v1::NameTask::default()
        };
        let tasks = vec![
            task(0, v1::TaskState::Running, true),
            task(1, v1::TaskState::Starting, false),
            v1::NameTask { host: "a-name".to_owned(), ..task(2, v1::TaskState::Running, true) },
        ];
        v1::NameRecord { size: 4, tasks, ..v1::NameRecord::default() }
    }

    fn of(task: Option<u32>) -> Question {
        let user = UserName::new("ana").expect("a name");
        let job = JobName::new("web").expect("a name");
        match task {
            None => Question::Job { user, job },
            Some(index) => Question::Task { user, job, index: TaskIndex(index) },
        }
    }

    #[test]
    fn an_answer_has_the_tasks_with_an_address() {
        let shown = |answer: Answer| match answer {
            Answer::NoSuchName => "none".to_owned(),
            Answer::Found(endpoints) => {
                let one =
                    |it: &Endpoint| format!("{} {} {}", it.ports[0].1, it.running, it.healthy);
                endpoints.iter().map(one).collect::<Vec<_>>().join(", ")
            }
        };
        for (task, expected) in [
            (None, "31000 true true, 31001 false false"),
            (Some(0), "31000 true true"),
            (Some(1), "31001 false false"),
            (Some(2), ""),
            (Some(3), ""),
            (Some(4), "none"),
        ] {
            assert_eq!(shown(answer(&of(task), Some(&record()))), expected, "{task:?}");
        }
        assert_eq!(answer(&of(None), None), Answer::NoSuchName);
    }
}

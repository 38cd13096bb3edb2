//! One round of the autoscaler: reads jobs and their usage, and sets limits.

use std::collections::{BTreeMap, BTreeSet};

use api::v1;
use api::v1::update_request;
use api::v1::usage_request::{Of, Tasks};
use autoscale::{Change, Job, Settings, decide};
use client::Connection;
use command::{Done, Failure, output};
use model::{Bytes, CollectionId, MilliCores, Span, TaskIndex, Time};
use spec::{CpuRam, JobSpec};
use tonic::Code as Grpc;

use super::histories::{Histories, Remembered};

/// How far back the windows are read of which the cell may have more than was read before. Windows of 5 minutes
/// are delivered when they have closed.
const READ_AGAIN: Span = Span::from_secs(900);
/// How far back windows are read of a job that is new here.
const READ_FIRST: Span = Span::from_secs(86_400);
/// How long nothing is sent for a job after the cell has rejected something.
const AFTER_REJECTION: Span = Span::from_secs(30);

/// Reads and sets.
pub(super) struct Round {
    connection: Connection,
    settings: Settings,
    changes_max: u32,
    all_users: bool,
    sequencer: String,
    /// The ends out of memory that were counted: the last of each task, with its generation.
    counted: BTreeMap<(u64, u32), u32>,
    /// The autoscaled jobs that were alive in the last round, with their ids.
    alive: BTreeMap<String, (v1::JobAddress, u64)>,
}

impl Round {
    pub(super) fn new(
        connection: Connection,
        settings: Settings,
        changes_max: u32,
        all_users: bool,
        sequencer: String,
    ) -> Self {
        let (counted, alive) = (BTreeMap::new(), BTreeMap::new());
        Self { connection, settings, changes_max, all_users, sequencer, counted, alive }
    }

    /// Plays one round. Fails only if the cell does not answer, or the lock is lost.
    pub(super) async fn play(&mut self, histories: &mut Histories) -> Done {
        let request = v1::StatusRequest { mine: !self.all_users, ..v1::StatusRequest::default() };
        let status = self
            .connection
            .ask(request, async |mut client, request| client.jobs.status(request).await)
            .await?;
        let on =
            |job: &v1::JobStatus| job.spec.as_ref().is_some_and(|spec| spec.autoscale.is_some());
        let jobs = status.jobs.into_iter().filter(on).map(|job| {
            let address = v1::JobAddress { job: name_of(&job), user: job.user };
            (format!("{}/{}", address.user, address.job), (address, job.collection))
        });
        let before = std::mem::replace(&mut self.alive, jobs.collect());
        let live: BTreeSet<u64> = self.alive.values().map(|(_, id)| *id).collect();
        // A batch job may have ended because of its limit: the next of its name begins with more.
        for (name, (address, id)) in before.into_iter().filter(|(_, (_, id))| !live.contains(id)) {
            self.ended(&name, &address, id, histories).await?;
        }
        self.counted.retain(|(job, _), _| live.contains(job));
        let mut changes = 0;
        for (name, (address, _)) in self.alive.clone() {
            if changes >= self.changes_max {
                break;
            }
            changes += u32::from(Box::pin(self.job(&name, &address, histories)).await?);
        }
        Ok(())
    }

    async fn ended(
        &mut self,
        name: &str,
        address: &v1::JobAddress,
        id: u64,
        histories: &mut Histories,
    ) -> Done {
        let Some((job, spec, now)) = self.described(address).await? else { return Ok(()) };
        if job.collection == id {
            let remembered = histories.of(name, now);
            self.count_ends(remembered, &job, &spec, now);
        }
        Ok(())
    }

    /// Reads one job, and sets its limit if it has to change. Returns whether it did.
    async fn job(
        &mut self,
        name: &str,
        address: &v1::JobAddress,
        histories: &mut Histories,
    ) -> Result<bool, Failure> {
        let Some((job, spec, now)) = self.described(address).await? else { return Ok(false) };
        let remembered = histories.of(name, now);
        let Some(used) = self.usage(address, remembered, now).await? else { return Ok(false) };
        take_in(remembered, &spec, &used, now);
        self.count_ends(remembered, &job, &spec, now);
        if now < remembered.not_before {
            return Ok(false);
        }
        let id = CollectionId(job.collection);
        let view = Job {
            autoscale: spec.autoscale.with_ram_from(spec.task.scratch.unwrap_or_default()),
            appclass: spec.appclass,
            limit: CpuRam::of(spec.task.limit),
            changed: remembered.changed.filter(|_| remembered.changed_in == id),
        };
        let Some(change) = decide(now, &view, &remembered.history, &self.settings) else {
            return Ok(false);
        };
        match self.set(address, job.last_version, &change).await? {
            Ok(()) => {
                (remembered.changed_in, remembered.changed) = (id, Some(now));
                output::print(&format!("{name}: {change}\n"))?;
                Ok(true)
            }
            Err(why) => {
                remembered.not_before = now + AFTER_REJECTION;
                output::say(&format!("{name}: {change}: rejected: {why}\n"));
                Ok(false)
            }
        }
    }

    /// The newest job of a name with its tasks, its description without variables, and the cell's time;
    /// `None` if it does not exist any more, or has something that this build does not know.
    async fn described(
        &mut self,
        address: &v1::JobAddress,
    ) -> Result<Option<(v1::JobStatus, JobSpec, Time)>, Failure> {
        let request = v1::StatusRequest {
            jobs: vec![address.clone()],
            tasks: true,
            ..v1::StatusRequest::default()
        };
        let answer = self
            .connection
            .ask(request, async |mut client, request| client.jobs.status(request).await);
        let answer = match answer.await {
            Err(client::Error::Answer(status)) if status.code() == Grpc::NotFound => {
                return Ok(None);
            }
            answer => answer?,
        };
        let Some(job) = answer.jobs.into_iter().next() else { return Ok(None) };
        let mut spec = job.spec.clone().unwrap_or_default();
        spec.hidden_env.clear();
        spec.overrides.values_mut().for_each(|change| change.hidden_env.clear());
        Ok(JobSpec::try_from(spec).ok().map(|spec| (job, spec, Time(answer.time))))
    }

    /// What the tasks of a job use, with the windows that may be new.
    async fn usage(
        &mut self,
        address: &v1::JobAddress,
        remembered: &mut Remembered,
        now: Time,
    ) -> Result<Option<v1::UsageResponse>, Failure> {
        let since = remembered.read_until.map_or(now - READ_FIRST, |until| until - READ_AGAIN);
        let (job, since) = (Some(address.clone()), Some(since.0));
        let of = Some(Of::Tasks(Tasks { job, tasks: None, since }));
        let request = v1::UsageRequest { of, without_totals: true };
        let answer = self
            .connection
            .ask(request, async |mut client, request| client.usage.get(request).await);
        match answer.await {
            Ok(answer) => {
                // A replica that did not answer may have more.
                if answer.missing.is_empty() {
                    remembered.read_until = Some(now);
                }
                Ok(Some(answer))
            }
            Err(client::Error::Answer(status)) if status.code() == Grpc::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Counts the tasks that ran out of memory at the limit that is still in force.
    fn count_ends(
        &mut self,
        remembered: &mut Remembered,
        job: &v1::JobStatus,
        spec: &JobSpec,
        now: Time,
    ) {
        for task in &job.tasks {
            let how = task.last_end.as_ref().and_then(|end| end.how.as_ref());
            let ran_out = matches!(how, Some(v1::end::How::OutOfMemory(_)));
            let at_this_limit =
                task.last_version == job.version && !has_own_limit(spec, task.index);
            if !ran_out || !at_this_limit {
                continue;
            }
            let counted = self.counted.insert((job.collection, task.index), task.generation);
            if counted != Some(task.generation) {
                remembered.history.ran_out_of_memory(now, spec.task.limit.ram);
            }
        }
    }

    /// Sends a change. The inner error is a rejection in words; the outer one says that the cell does not
    /// answer.
    async fn set(
        &mut self,
        address: &v1::JobAddress,
        expected: u32,
        change: &Change,
    ) -> Result<Result<(), String>, Failure> {
        let limits = update_request::Limits {
            job: address.job.clone(),
            limit: Some(change.to.into()),
            reason: change.to_string(),
            sequencer: self.sequencer.clone(),
        };
        let request = v1::UpdateRequest {
            id: Some(self.connection.request_id().await?),
            user: address.user.clone(),
            change: Some(update_request::Change::Limits(limits)),
            expected: Some(expected),
            ..v1::UpdateRequest::default()
        };
        let sent = self
            .connection
            .ask(request, async |mut client, request| client.updates.open(request).await);
        match sent.await {
            Ok(_) => Ok(Ok(())),
            Err(client::Error::Answer(status)) if status.code() != Grpc::Unavailable => {
                // The cell may have closed the session.
                if status.code() == Grpc::FailedPrecondition {
                    self.connection.new_session();
                }
                Ok(Err(status.message().to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn name_of(job: &v1::JobStatus) -> String {
    job.spec.as_ref().map(|spec| spec.name.clone()).unwrap_or_default()
}

/// Whether a task has a limit of its own, which says nothing about the job's.
fn has_own_limit(spec: &JobSpec, index: u32) -> bool {
    spec.overrides.get(&TaskIndex(index)).is_some_and(|change| change.limit.is_some())
}

/// Adds usage to the history of a job.
fn take_in(remembered: &mut Remembered, spec: &JobSpec, used: &v1::UsageResponse, now: Time) {
    let history = &mut remembered.history;
    for task in used.tasks.iter().filter(|task| !has_own_limit(spec, task.index)) {
        for window in task.windows.iter().filter_map(|window| window.window.as_ref()) {
            if let Some(amount) = of_window(window) {
                history.window(now, Time(window.start), amount);
            }
        }
        let sample = task.used.as_ref().filter(|_| task.at > 0);
        if let Some(amount) = sample.and_then(of_sample) {
            history.sample(now, Time(task.at), amount);
        }
    }
}

/// Memory without page cache, which the kernel takes back before a task runs out of memory: with it, the limit of
/// a task that reads files would rise without end.
fn memory(used: &v1::Measured) -> Option<u64> {
    let all = used.memory_bytes?;
    u64::try_from(all.saturating_sub(used.page_cache_bytes.unwrap_or_default())).ok()
}

fn of_sample(used: &v1::Measured) -> Option<CpuRam> {
    let cpu = MilliCores(u64::try_from(used.cpu_milli?).ok()?);
    Some(CpuRam { cpu, ram: Bytes(memory(used)?) })
}

/// The 95th percentile of CPU, and the memory: the larger of its average and of what the maximum is at least,
/// both without page cache.
fn of_window(window: &v1::UsageWindow) -> Option<CpuRam> {
    let (average, maximum) = (window.average.as_ref()?, window.maximum.as_ref()?);
    let percentile = window.cpu_milli_tail_percentiles.get(4).copied();
    let cpu = percentile.or(maximum.cpu_milli).or(average.cpu_milli)?;
    let ram = memory(average).max(memory(maximum))?;
    Some(CpuRam { cpu: MilliCores(u64::try_from(cpu).ok()?), ram: Bytes(ram) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(cpu: Option<i64>, memory: i64, cache: Option<i64>) -> v1::Measured {
        v1::Measured {
            cpu_milli: cpu,
            memory_bytes: Some(memory),
            page_cache_bytes: cache,
            ..v1::Measured::default()
        }
    }

    #[test]
    fn page_cache_is_not_counted_and_a_missing_value_is_no_usage() {
        let of = |cpu, memory, cache| {
            of_sample(&measured(cpu, memory, cache)).map(|used| (used.cpu.0, used.ram.0))
        };
        assert_eq!(of(Some(5), 100, Some(30)), Some((5, 70)));
        assert_eq!(of(Some(5), 100, None), Some((5, 100)));
        assert_eq!(of(None, 100, None), None);
        assert_eq!(of(Some(-5), 100, None), None);
        assert_eq!(of(Some(5), 10, Some(30)), None);
    }

    #[test]
    fn a_window_counts_with_its_high_percentile_of_cpu() {
        let mut window = v1::UsageWindow {
            average: Some(measured(Some(10), 100, Some(60))),
            maximum: Some(measured(Some(99), 200, Some(180))),
            ..v1::UsageWindow::default()
        };
        let of = |window: &v1::UsageWindow| of_window(window).map(|used| (used.cpu.0, used.ram.0));
        assert_eq!(of(&window), Some((99, 40)));
        window.cpu_milli_tail_percentiles = (91..100).collect();
        assert_eq!(of(&window), Some((95, 40)));
        window.average = None;
        assert_eq!(of(&window), None);
    }
}

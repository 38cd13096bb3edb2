//! Simulated Borglets that answer like real ones: many in one process, each with its own
//! certificate, port and server, and with the real Borglet's decisions (crate `borglet`). Only
//! effects are simulated: a task runs as soon as it is started, and ends after a given time;
//! nothing is written to disk, and no process is started.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::process::clock::{Clock, wall_clock};
use anyhow::{Context, ensure};
use api::v1;
use borglet::{
    Borglet, Effect, Input, Measured, Order, Report, Settings, Usage, UsageSample, UsageSubject,
};
use clap::Args;
use model::{Bytes, End, InstanceId, MachineReport, MilliCores, PortRange, Resources, Stamp, Time};
use rpc::service::borglet_server::{self, BorgletServer};
use rpc::transport::{Limits, Refusals};
use rpc::{Authority, Identity, Rotating, Validity};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_stream::Stream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use super::latencies::Latencies;

/// The options of the process.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The directory of the cell's authority.
    #[arg(long)]
    authority: PathBuf,
    /// The file with the listening addresses, one per line; created if missing.
    #[arg(long)]
    addresses: PathBuf,
    /// The number of Borglets.
    #[arg(long)]
    number: u32,
    /// The running time of tasks, in milliseconds.
    #[arg(long)]
    task_ms: u64,
    /// The number of the first of them.
    #[arg(long, default_value_t = 0)]
    first: u32,
    /// Report usage, too, and racks of 40 machines.
    #[arg(long)]
    usage: bool,
}

/// What they observed since the last query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Observed {
    /// The number of polls.
    pub(super) polls: u64,
    /// How many of the Borglets were polled since the process began.
    pub(super) polled: u64,
    /// The time between two polls of a Borglet.
    pub(super) interval_p50_ms: f64,
    pub(super) interval_p95_ms: f64,
    pub(super) interval_max_ms: f64,
    /// The tasks that started, and that ended.
    pub(super) started: u64,
    pub(super) ended: u64,
    /// The time from a task's arrival, taken from its job's name, to its start.
    pub(super) start_p50_ms: f64,
    pub(super) start_p99_ms: f64,
}

/// The first line of output.
pub(super) const READY: &str = "ready";
/// The prefix of a job's name that contains the arrival time in microseconds of the wall clock.
pub(super) const ARRIVED: &str = "a";

const VALIDITY: Duration = Duration::from_secs(30 * 86_400);

/// The counters of all Borglets.
#[derive(Debug, Default)]
struct Counters {
    polls: u64,
    polled: u64,
    intervals: Latencies,
    started: u64,
    ended: u64,
    starts: Latencies,
}

type SharedCounters = Arc<Mutex<Counters>>;

/// Runs until standard input ends. Each input line requests the observations as a line of JSON.
pub(crate) fn answer(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("borglets")
        .enable_all()
        .build()?;
    let authority = Authority::open(&options.authority)?;
    let counts = SharedCounters::default();
    let listeners = listeners(&options.addresses, options.number)?;
    let _inside = runtime.enter();
    for (number, listener) in (options.first..).zip(listeners) {
        let identity = Identity::Borglet(name(number as usize));
        let credentials = authority.issue(&identity, Validity::lasting(VALIDITY))?;
        let credentials = Rotating::new(credentials)?;
        let task = Duration::from_millis(options.task_ms);
        let used = options.usage.then_some(number);
        let simulated = Simulated::new(Arc::clone(&counts), task, used);
        runtime.spawn(async move {
            let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
            let server = BorgletServer::new(simulated);
            let server = server.max_decoding_message_size(most).max_encoding_message_size(most);
            let (routes, refusals) = (Routes::new(server).prepare(), Refusals::default());
            let (limits, never) = (Limits::default(), std::future::pending());
            rpc::transport::serve(listener, &credentials, routes, limits, &refusals, never).await
        });
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{READY}")?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let counted = {
            let mut counts = locked(&counts);
            let polled = counts.polled;
            std::mem::replace(&mut *counts, Counters { polled, ..Counters::default() })
        };
        writeln!(out, "{}", serde_json::to_string(&counted.seen())?)?;
    }
    Ok(())
}

/// The name of a Borglet by number.
pub(super) fn name(number: usize) -> String {
    format!("b{number}")
}

fn listeners(addresses: &Path, number: u32) -> anyhow::Result<Vec<TcpListener>> {
    if let Ok(known) = std::fs::read_to_string(addresses) {
        let bind = |line: &str| {
            TcpListener::bind(line).with_context(|| format!("cannot listen on {line} again"))
        };
        return known.lines().map(bind).collect();
    }
    let bound: std::io::Result<Vec<_>> =
        (0..number).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let bound = bound.context("cannot open that many sockets: raise ulimit -n")?;
    let at: std::io::Result<Vec<_>> = bound.iter().map(TcpListener::local_addr).collect();
    let lines: String = at?.iter().map(|at| format!("{at}\n")).collect();
    std::fs::write(addresses, lines)?;
    Ok(bound)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counters {
    fn seen(self) -> Observed {
        let Self { polls, polled, intervals, started, ended, starts } = self;
        let [interval_p50_ms, interval_p95_ms, interval_max_ms] = intervals.at([50, 95, 100]);
        let [start_p50_ms, start_p99_ms] = starts.at([50, 99]);
        Observed {
            polls,
            polled,
            interval_p50_ms,
            interval_p95_ms,
            interval_max_ms,
            started,
            ended,
            start_p50_ms,
            start_p99_ms,
        }
    }
}

/// One simulated Borglet.
#[derive(Clone, Debug)]
struct Simulated(Arc<SimulatedState>);

#[derive(Debug)]
struct SimulatedState {
    counts: SharedCounters,
    task: Duration,
    /// Its number, if it reports usage.
    used: Option<u32>,
    clock: Clock,
    state: Mutex<BorgletState>,
    report: watch::Sender<(u64, Arc<Report>)>,
    polls: watch::Sender<u64>,
}

type Ends = BTreeMap<(Time, InstanceId), Resources>;

#[derive(Debug)]
struct BorgletState {
    borglet: Borglet,
    polled: Option<Instant>,
    /// Its running tasks, by end, with their limits.
    ends: Ends,
}

impl Simulated {
    fn new(counts: SharedCounters, task: Duration, used: Option<u32>) -> Self {
        let rack = used.map(|number| ("rack".to_owned(), format!("r{}", number / RACK)));
        let machine = MachineReport {
            capacity: CAPACITY,
            attributes: rack.into_iter().collect(),
            ports: PortRange { first: 20_000, last: 29_999 },
            ..MachineReport::default()
        };
        let borglet =
            Borglet::new(Settings::default(), Arc::new(machine), Stamp::default(), vec![], vec![]);
        // Report versions must differ from those of earlier processes.
        let report = (wall_clock().0, Arc::new(borglet.report()));
        let state = BorgletState { borglet, polled: None, ends: BTreeMap::new() };
        Self(Arc::new(SimulatedState {
            counts,
            task,
            used,
            clock: Clock::start(),
            state: Mutex::new(state),
            report: watch::channel(report).0,
            polls: watch::channel(0).0,
        }))
    }

    /// Processes an order, or the passage of time; returns whether an order was obeyed.
    fn step(&self, order: Option<Order>) -> bool {
        let SimulatedState { counts, clock, state, report, .. } = &*self.0;
        let now = clock.now();
        let mut state = locked(state);
        let (before, mut effects, mut counted) =
            (state.ends.len(), Vec::new(), Counters::default());
        let obeyed = match order {
            Some(order) => state.borglet.obey(now, order, &mut effects).is_ok(),
            None => true,
        };
        while let Some(entry) = state.ends.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, instance), _) = entry.remove_entry();
            counted.ended += 1;
            let ended =
                Input::Ended(instance, End::Exited { code: 0 }, model::FinalUsage::UNMEASURED);
            state.borglet.step(now, ended, &mut effects);
        }
        let ends = now + model::Span(u64::try_from(self.0.task.as_micros()).unwrap_or(u64::MAX));
        while let Some(effect) = effects.pop() {
            let next = simulated(effect, &mut state.ends, ends, &mut counted);
            if let Some(input) = next {
                state.borglet.step(now, input, &mut effects);
            }
        }
        let new_report = state.borglet.report();
        let next = state.ends.first_key_value().map(|((at, _), _)| *at);
        drop(state);
        if before == 0
            && let Some(at) = next
        {
            self.wake(clock.instant(at));
        }
        counts_of(counts, counted);
        report.send_if_modified(|(version, known)| {
            let changed = **known != new_report;
            if changed {
                *version += 1;
                *known = Arc::new(new_report);
            }
            changed
        });
        obeyed
    }

    /// Processes the end of tasks, as long as there are running ones.
    fn wake(&self, at: Instant) {
        let this = self.clone();
        tokio::spawn(async move {
            let mut at = at;
            loop {
                tokio::time::sleep_until(at).await;
                // Batch ends over at least this time.
                tokio::time::sleep(TOGETHER).await;
                let left = {
                    this.step_ends();
                    let state = locked(&this.0.state);
                    state.ends.first_key_value().map(|((at, _), _)| *at)
                };
                let Some(next) = left else { break };
                at = this.0.clock.instant(next);
            }
        });
    }

    fn step_ends(&self) {
        self.step(None);
    }

    /// The newest samples, if they are newer than those that the master has by a second.
    fn usage(&self, samples_after: u64) -> Option<v1::MeasuredUsage> {
        let (number, at) = (self.0.used?, wall_clock());
        if at.since(Time(samples_after)) < SAMPLED {
            return None;
        }
        let limits: Vec<(InstanceId, Resources)> =
            locked(&self.0.state).ends.iter().map(|((_, id), limit)| (*id, *limit)).collect();
        Some((&sampled(number, at, &limits)).into())
    }

    fn count_poll(&self) {
        let now = Instant::now();
        let before = locked(&self.0.state).polled.replace(now);
        let mut counts = locked(&self.0.counts);
        counts.polls += 1;
        match before {
            Some(before) => counts.intervals.add(now - before),
            None => counts.polled += 1,
        }
    }
}

/// The machines of a rack, and what each has.
const RACK: u32 = 40;
pub(super) const CAPACITY: Resources = Resources {
    cpu: MilliCores(64_000),
    ram: Bytes(256 << 30),
    disk: Bytes(4 << 40),
    disk_rate: Bytes(1 << 30),
};
/// The least time between two samples.
const SAMPLED: model::Span = model::Span::from_secs(1);

/// A sample of each task, of the machine and of its system. A task uses between a fifth and four fifths
/// of its CPU, and between a half and four fifths of its RAM.
fn sampled(number: u32, at: Time, limits: &[(InstanceId, Resources)]) -> Usage {
    let part = |of: u64, permille: u64| of / 1_000 * permille;
    let system = Measured {
        cpu: Some(MilliCores(500)),
        memory: Some(Bytes(2 << 30)),
        ..Measured::default()
    };
    let (mut cpu, mut ram) = (500, 2 << 30);
    let mut samples = Vec::with_capacity(limits.len() + 2);
    for (place, (instance, limit)) in limits.iter().enumerate() {
        // A hash of the second, the machine and the task: no two curves are the same.
        let drawn = (at.0 / 1_000_000 + 7 * u64::from(number) + 31 * place as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            >> 40;
        let used =
            (limit.cpu.0 * (200 + drawn % 600) / 1_000, part(limit.ram.0, 500 + drawn % 300));
        (cpu, ram) = (cpu + used.0, ram + used.1);
        let measured = Measured {
            cpu: Some(MilliCores(used.0)),
            memory: Some(Bytes(used.1)),
            memory_peak: Some(Bytes(part(limit.ram.0, 800))),
            memory_assigned: Some(limit.ram),
            ..Measured::default()
        };
        samples.push(UsageSample { subject: UsageSubject::Instance(*instance), at, measured });
    }
    let machine =
        Measured { cpu: Some(MilliCores(cpu)), memory: Some(Bytes(ram)), ..Measured::default() };
    samples.push(UsageSample { subject: UsageSubject::Machine, at, measured: machine });
    samples.push(UsageSample { subject: UsageSubject::System, at, measured: system });
    Usage { samples, windows: Vec::new(), cursor: 0 }
}

/// Tasks that end within this time of each other are reported together.
const TOGETHER: Duration = Duration::from_millis(20);

fn counts_of(counts: &SharedCounters, counted: Counters) {
    if counted.started + counted.ended > 0 {
        let mut counts = locked(counts);
        counts.started += counted.started;
        counts.ended += counted.ended;
        counts.starts.join(counted.starts);
    }
}

/// The simulated result of an effect.
fn simulated(effect: Effect, ends: &mut Ends, end: Time, counted: &mut Counters) -> Option<Input> {
    let mut killed = |instance: InstanceId| {
        ends.retain(|(_, other), _| *other != instance);
        Some(Input::Ended(instance, End::Signalled { signal: 15 }, model::FinalUsage::UNMEASURED))
    };
    match effect {
        Effect::Start(launch) => {
            counted.started += 1;
            if let Some(arrived) = arrived(launch.desired.job.as_str()) {
                counted.starts.add(wall_clock().since(arrived).to_std());
            }
            ends.insert((end, launch.instance), launch.desired.spec.limit);
            Some(Input::Started(launch.instance))
        }
        Effect::Terminate(instance, _) | Effect::Kill(instance) => killed(instance),
        Effect::Check { instance, kind, .. } => {
            Some(Input::Checked(instance, kind, Ok(String::new())))
        }
        Effect::Resize { instance, limit } | Effect::ResizeAlloc { instance, limit } => {
            Some(Input::Resized(instance, Some(limit)))
        }
        Effect::MakeAlloc(alloc) => Some(Input::AllocMade(alloc.instance, Ok(()))),
        Effect::RemoveAlloc { instance, .. } => Some(Input::AllocRemoved(instance)),
        Effect::RunSaver(launch) => Some(Input::SaverEnded(launch.kept.instance, Ok(()))),
        Effect::Probe => Some(Input::Probed(Ok(()))),
        Effect::PersistStamp(_)
        | Effect::Retire { .. }
        | Effect::ReadAgain(_)
        | Effect::KeepLogs(_)
        | Effect::LookAtVolumes(_)
        | Effect::ShareCpus(_)
        | Effect::CapCpu { .. }
        | Effect::MeasureData(_)
        | Effect::KillSaver(_)
        | Effect::NoteRule { .. }
        | Effect::EndData(_)
        | Effect::ForgetData(_) => None,
    }
}

/// The arrival time in a job's name, if it has one.
fn arrived(job: &str) -> Option<Time> {
    job.strip_prefix(ARRIVED)?.split('-').next()?.parse().ok().map(Time)
}

#[tonic::async_trait]
impl borglet_server::Borglet for Simulated {
    type ExecInTaskStream = Pin<Box<dyn Stream<Item = Result<v1::ExecOutput, Status>> + Send>>;
    type ReadOutputsStream = Pin<Box<dyn Stream<Item = Result<v1::OutputChunk, Status>> + Send>>;
    type ReadLogStream = Pin<Box<dyn Stream<Item = Result<v1::LogChunk, Status>> + Send>>;
    type FetchMetricsStream = Pin<Box<dyn Stream<Item = Result<v1::MetricsChunk, Status>> + Send>>;

    async fn poll(
        &self,
        request: Request<v1::PollRequest>,
    ) -> Result<Response<v1::PollResponse>, Status> {
        self.count_poll();
        let request = request.into_inner();
        let bad = |error: api::Malformed| Status::invalid_argument(error.to_string());
        let hold = request.hold.as_ref().map(api::span).transpose().map_err(bad)?;
        let order: Option<Order> = request.order.map(TryInto::try_into).transpose().map_err(bad)?;
        self.0.polls.send_modify(|polls| *polls += 1);
        let (mut polls, mut reports) = (self.0.polls.subscribe(), self.0.report.subscribe());
        let obeyed = order.is_none_or(|order| self.step(Some(order)));
        tokio::select! {
            _ = reports.wait_for(|(version, _)| *version != request.seen) => {}
            _ = polls.changed() => {}
            () = tokio::time::sleep(hold.unwrap_or_default().to_std()) => {}
        }
        let (version, report) = reports.borrow().clone();
        let report = Some(report.as_ref().into());
        let (order_refused, usage) = (!obeyed, self.usage(request.samples_after));
        Ok(Response::new(v1::PollResponse {
            report,
            version,
            order_refused,
            usage,
            packages: None,
        }))
    }

    async fn read_usage(
        &self,
        _: Request<v1::ReadUsageRequest>,
    ) -> Result<Response<v1::ReadUsageResponse>, Status> {
        Ok(Response::new(v1::ReadUsageResponse::default()))
    }

    async fn exec_in_task(
        &self,
        _: Request<Streaming<v1::ExecInTaskRequest>>,
    ) -> Result<Response<Self::ExecInTaskStream>, Status> {
        Err(Status::unimplemented("simulated tasks run no commands"))
    }

    async fn read_outputs(
        &self,
        _: Request<v1::ReadOutputsRequest>,
    ) -> Result<Response<Self::ReadOutputsStream>, Status> {
        Err(Status::unimplemented("simulated tasks leave no outputs"))
    }

    async fn read_log(
        &self,
        _: Request<v1::ReadLogRequest>,
    ) -> Result<Response<Self::ReadLogStream>, Status> {
        Err(Status::unimplemented("simulated tasks have no logs"))
    }

    async fn fetch_metrics(
        &self,
        _: Request<v1::FetchMetricsRequest>,
    ) -> Result<Response<Self::FetchMetricsStream>, Status> {
        Err(Status::unimplemented("simulated tasks serve no metrics"))
    }
}

/// The process of simulated Borglets, seen from the benchmark; killed on drop.
pub(super) struct BorgletsProcess {
    child: std::process::Child,
    answers: std::io::BufReader<std::process::ChildStdout>,
}

impl BorgletsProcess {
    /// Starts this number of Borglets, below a directory with the cell's authority; returns when
    /// all listen.
    pub(super) fn start(directory: &Path, number: u32, task: Duration) -> anyhow::Result<Self> {
        let mut command = Self::command(directory, &addresses_file(directory), number, task)?;
        Self::spawn(&mut command)
    }

    /// The same for the Borglets from a number on, which report usage; they have been started before or
    /// after others in the same directory.
    pub(super) fn start_used(
        directory: &Path,
        first: u32,
        number: u32,
        task: Duration,
    ) -> anyhow::Result<(Self, Vec<String>)> {
        let addresses = directory.join(format!("borglets-{first}"));
        let mut command = Self::command(directory, &addresses, number, task)?;
        command.args(["--usage", "--first", &first.to_string()]);
        let process = Self::spawn(&mut command)?;
        Ok((process, lines(&addresses)?))
    }

    fn command(
        directory: &Path,
        addresses: &Path,
        number: u32,
        task: Duration,
    ) -> anyhow::Result<std::process::Command> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = std::process::Command::new(program);
        command.args(["bench", "borglets", "--authority"]).arg(directory.join("tls"));
        command.arg("--addresses").arg(addresses);
        command.args(["--number", &number.to_string()]);
        command.args(["--task-ms", &task.as_millis().to_string()]);
        Ok(command)
    }

    fn spawn(command: &mut std::process::Command) -> anyhow::Result<Self> {
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().context("cannot start the Borglets' process")?;
        let answers = child.stdout.take().context("its output is not available")?;
        let mut process = Self { child, answers: std::io::BufReader::new(answers) };
        let line = process.line()?;
        ensure!(line.trim_end() == READY, "the Borglets' process did not start: {line}");
        Ok(process)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line)
    }

    /// What they observed since the last query.
    pub(super) fn seen(&mut self) -> anyhow::Result<Observed> {
        let ask = self.child.stdin.as_mut().context("it has no input")?;
        ask.write_all(b"\n")?;
        ask.flush()?;
        Ok(serde_json::from_str(&self.line()?)?)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for BorgletsProcess {
    fn drop(&mut self) {
        let _gone = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn addresses_file(directory: &Path) -> PathBuf {
    directory.join("borglets")
}

/// Their addresses, by number.
pub(super) fn addresses(directory: &Path) -> anyhow::Result<Vec<String>> {
    lines(&addresses_file(directory))
}

fn lines(file: &Path) -> anyhow::Result<Vec<String>> {
    Ok(std::fs::read_to_string(file)?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jobs_name_says_when_it_arrived() {
        assert_eq!(arrived("a123-7"), Some(Time(123)));
        assert_eq!(arrived("a5"), Some(Time(5)));
        assert_eq!(arrived("c1-7"), None);
        assert_eq!(arrived("web"), None);
    }

    #[test]
    fn observed_counters_survive_a_json_round_trip() {
        let counted = Counters { polls: 2, polled: 1, ..Counters::default() };
        let seen = counted.seen();
        let json = serde_json::to_string(&seen).expect("plain data");
        assert_eq!(serde_json::from_str::<Observed>(&json).expect("valid JSON"), seen);
    }
}

//! `bourg bench recovery`: how long a master takes to read and apply its log when it starts.
//!
//! The log is written first, outside the measured time: jobs of one task each that are submitted,
//! assigned, started and ended, and forgotten in batches as a master does. No checkpoint shortens
//! it. What is measured is what a master does at its start until it leads: opening the log,
//! checking every record, decoding and applying every operation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use cell::{Assignment, Mutation, Observation, Op, RequestId};
use model::{
    Bytes, CellName, CollectionId, End, Generation, InstanceId, MachineId, MachineName,
    MachineReport, MilliCores, Resources, SessionId, Span, TaskIndex, Term, Time, UserName,
};
use replica::{HardState, Input, Output, Replica};
use serde::Serialize;
use spec::{JobSpec, TaskSpec};
use store::DataDirectory;
use store::log::{Kind, Log, Options, RecordRef};

use crate::cli::output::{self, Format};
use crate::cli::{Done, Failure};
use crate::master::{Records, recover};

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    operations: u64,
    log_bytes: u64,
    seconds: f64,
    /// CPU time of the process in that time: what counts where others use the machine too.
    cpu_seconds: f64,
    operations_per_second: f64,
    read_seconds: f64,
    apply_seconds: f64,
    state_hash: String,
}

/// How many operations are in one write of the log that is made.
const BATCH: usize = 10_000;
/// How many dead jobs are forgotten at once.
const FORGET: u64 = 1_000;

/// Writes a log of so many operations, then measures a master's start on it.
pub(crate) fn recovery(operations: u64, json: bool) -> Done {
    let found = measure(operations)?;
    let format = if json { Format::Json } else { Format::Table };
    output::object(&format, &found, "recovery", || {
        format!(
            "{} operations, {}: {:.2} s to read and apply, {:.2} s of CPU ({:.0} operations a second)\n",
            found.operations,
            Bytes(found.log_bytes),
            found.seconds,
            found.cpu_seconds,
            found.operations_per_second
        )
    })
}

fn measure(operations: u64) -> anyhow::Result<Found> {
    let path = std::env::temp_dir().join(format!("bourg-bench-recovery-{}", std::process::id()));
    let measured =
        DataDirectory::create(&path).map_err(anyhow::Error::from).and_then(|directory| {
            let log_bytes = write_history(&directory, operations)?;
            start(&directory, operations, log_bytes)
        });
    std::fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    measured
}

/// The operations of a busy cell, in order.
struct History {
    user: UserName,
    spec: Arc<JobSpec>,
    sequence: u64,
    jobs: u64,
    step: u8,
}

impl History {
    fn next(&mut self, number: u64) -> Result<Op, Failure> {
        Ok(match number {
            1 => Op::Nothing,
            2 => {
                let name = CellName::new("bench").map_err(Failure::failed)?;
                Op::Found { name, administrator: self.user.clone() }
            }
            3 => Op::OpenSession { user: self.user.clone() },
            4 => {
                let name = MachineName::new("m1").map_err(Failure::failed)?;
                self.request(Mutation::AddMachine { name, address: "127.0.0.1:1".to_owned() })
            }
            5 => Op::DescribeMachine { machine: MachineId(1), report: Arc::new(machine()) },
            _ => self.of_a_job(),
        })
    }

    fn request(&mut self, mutation: Mutation) -> Op {
        self.sequence += 1;
        let id = RequestId { session: SessionId(1), sequence: self.sequence };
        Op::Request { id, by: self.user.clone(), mutation }
    }

    fn of_a_job(&mut self) -> Op {
        let instance = InstanceId {
            collection: CollectionId(self.jobs),
            index: TaskIndex(0),
            generation: Generation(1),
        };
        let machine = MachineId(1);
        let observe = |observation| Op::Observe { machine, observations: vec![observation] };
        self.step += 1;
        match self.step {
            1 if self.jobs > 0 && self.jobs.is_multiple_of(FORGET) => {
                let collections = (self.jobs - FORGET + 1..=self.jobs).map(CollectionId).collect();
                self.step = 5;
                Op::Forget { collections }
            }
            1 | 6 => {
                self.jobs += 1;
                self.step = 1;
                self.request(Mutation::Submit(Arc::clone(&self.spec)))
            }
            2 => Op::Assign(vec![Assignment { instance, machine, ports: vec![], victims: vec![] }]),
            3 => observe(Observation::Started { instance }),
            _ => {
                self.step = 0;
                observe(Observation::Ended { instance, end: End::Exited { code: 0 } })
            }
        }
    }
}

fn machine() -> MachineReport {
    MachineReport {
        capacity: Resources {
            cpu: MilliCores(64_000),
            ram: Bytes(256 << 30),
            ..Resources::default()
        },
        ..MachineReport::default()
    }
}

/// Writes a log of so many operations and gives its size in bytes.
pub(crate) fn write_history(directory: &DataDirectory, operations: u64) -> anyhow::Result<u64> {
    let (mut log, _) = Log::open(directory.log(), Options::default())?;
    let promise = HardState { term: Term(1), vote: 1 }.to_bytes();
    let (kind, term) = (Kind::HardState, 1);
    log.append(&[RecordRef { kind, term, index: 0, level: 0, payload: &promise }])?;
    let task = TaskSpec::of(vec!["compute".to_owned(), "--seed=${task.index}".to_owned()]);
    let name = model::JobName::new("job")?;
    let spec = JobSpec::of(name, model::Band::Production.usual(), 1, task);
    let user = UserName::new("bench")?;
    let mut history = History { user, spec: Arc::new(spec), sequence: 0, jobs: 0, step: 0 };
    let (mut written, mut bytes) = (0, 0);
    while written < operations {
        let mut payloads = Vec::with_capacity(BATCH);
        while payloads.len() < BATCH && written < operations {
            written += 1;
            let op = history.next(written).map_err(|failure| anyhow::anyhow!("{failure}"))?;
            let payload = match op {
                Op::Nothing => Vec::new(),
                op => proto::log::encode_record(Time::ZERO + Span::from_millis(written), &op),
            };
            bytes += payload.len() as u64;
            payloads.push((written, payload));
        }
        let records: Vec<_> = payloads
            .iter()
            .map(|(index, payload)| RecordRef {
                kind: Kind::Entry,
                term: 1,
                index: *index,
                level: cell::LEVEL.0,
                payload,
            })
            .collect();
        log.append(&records)?;
    }
    log.sync()?;
    Ok(bytes)
}

/// The CPU time of this process so far.
fn cpu_time() -> anyhow::Result<Duration> {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)?;
    let time: nix::sys::time::TimeVal = usage.user_time() + usage.system_time();
    Ok(Duration::from_micros(
        u64::try_from(nix::sys::time::TimeValLike::num_microseconds(&time)).unwrap_or(0),
    ))
}

/// What a master does at its start, until it leads.
fn start(directory: &DataDirectory, operations: u64, log_bytes: u64) -> anyhow::Result<Found> {
    let (begun, cpu_before) = (Instant::now(), cpu_time()?);
    let (_log, recovered) = recover::recover(directory)?;
    let read = begun.elapsed();
    let now = Time::ZERO;
    let mut replica = Replica::new(replica::Settings::default(), Records, now, recovered, None)?;
    let mut inputs = Vec::new();
    let mut leads = false;
    while !leads {
        let mut outputs = Vec::new();
        replica.step(now, inputs.drain(..), &mut outputs)?;
        for output in outputs {
            match output {
                Output::Persist(persist) => inputs.push(Input::Persisted(persist.number)),
                Output::Leads(_) => leads = true,
                _ => {}
            }
        }
        let goes_on = leads || !inputs.is_empty() || replica.next_step() <= now;
        anyhow::ensure!(goes_on, "the replica does not come to lead");
    }
    let all = begun.elapsed();
    let cell = replica.cell();
    anyhow::ensure!(cell.index().0 > operations, "only {} records were applied", cell.index());
    let seconds = |time: Duration| (time.as_secs_f64() * 1e4).round() / 1e4;
    #[expect(clippy::cast_precision_loss, reason = "a rate, rounded when it is shown")]
    let rate = operations as f64 / all.as_secs_f64();
    Ok(Found {
        operations,
        log_bytes,
        seconds: seconds(all),
        cpu_seconds: seconds(cpu_time()?.saturating_sub(cpu_before)),
        operations_per_second: rate.round(),
        read_seconds: seconds(read),
        apply_seconds: seconds(all.saturating_sub(read)),
        state_hash: proto::image::state_hash(cell).to_string(),
    })
}

//! `bourg bench history`: the time to reconstruct the cell at a moment of a long past.
//!
//! First writes a log, unmeasured, with checkpoints as far apart as a master keeps them for its
//! history. Measures the work of the process that a master starts for such a query: finding the
//! moment, reading the checkpoint before it, and applying the operations after that.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use api::v1::moment::At;
use cell::{AddMachine, Assignment, Cell, Mutation, Observation, Op, RequestId};
use checkpoint::Origin;
use command::Done;
use command::output::{self, Format};
use masterd::past;
use model::{
    Bytes, CellName, CollectionId, End, Generation, InstanceId, LogIndex, MachineId, MachineName,
    MachineReport, MilliCores, Resources, RestoreEpoch, SessionId, Span, TaskIndex, Term, Time,
    UserName,
};
use replica::HardState;
use serde::Serialize;
use spec::{JobSpec, TaskSpec};
use store::log::{Log, Options, RecordKind, RecordRef};
use store::{DataDirectory, Retention};

/// The number of operations in one write of the generated log.
const BATCH: usize = 10_000;
/// The number of dead jobs forgotten at once.
const FORGET: u64 = 1_000;
/// The number of queried moments.
const MOMENTS: u64 = 7;

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    operations: u64,
    log_bytes: u64,
    records_between_checkpoints: u64,
    /// In the order of time; the last one is the furthest from its checkpoint.
    moments: Vec<Shown>,
    seconds_max: f64,
}

#[derive(Debug, Serialize)]
struct Shown {
    index: u64,
    seconds: f64,
}

/// Writes a history of this many operations, then queries moments of it.
pub(super) fn history(operations: u64, json: bool) -> Done {
    let figures = measure(operations)?;
    let format = if json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "history", || {
        format!(
            "{} moments of {} operations ({}): each reconstructed within {:.2} s\n",
            figures.moments.len(),
            figures.operations,
            Bytes(figures.log_bytes),
            figures.seconds_max
        )
    })
}

fn measure(operations: u64) -> anyhow::Result<Figures> {
    anyhow::ensure!(operations > 10, "a history needs more operations");
    let path = std::env::temp_dir().join(format!("bourg-bench-history-{}", std::process::id()));
    let measured =
        DataDirectory::create(&path).map_err(anyhow::Error::from).and_then(|directory| {
            let between = Retention::new(0, std::time::Duration::ZERO).records_between;
            let log_bytes = write_history(&directory, operations, Some(between))?;
            let worst = operations - operations % between.min(operations) - 1;
            let indexes = (1..MOMENTS).map(|n| operations * n / MOMENTS).chain([worst.max(1)]);
            let moments = indexes.map(|index| show(&directory, index, operations));
            let moments = moments.collect::<anyhow::Result<Vec<_>>>()?;
            let seconds_max = moments.iter().map(|shown| shown.seconds).fold(0.0, f64::max);
            let records_between_checkpoints = between;
            Ok(Figures { operations, log_bytes, records_between_checkpoints, moments, seconds_max })
        });
    std::fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    measured
}

fn show(directory: &DataDirectory, index: u64, newest: u64) -> anyhow::Result<Shown> {
    let begun = Instant::now();
    let (cell, _) = past::rebuild(directory.path(), &At::Time(moment(index).0), LogIndex(newest))?;
    let seconds = (begun.elapsed().as_secs_f64() * 1e3).round() / 1e3;
    anyhow::ensure!(cell.index().0 == index, "{} was shown for {index}", cell.index());
    Ok(Shown { index, seconds })
}

/// The time of an operation.
fn moment(number: u64) -> Time {
    Time::ZERO + Span::from_millis(number)
}

/// The operations of a busy cell, in order.
struct OperationHistory {
    user: UserName,
    spec: Arc<JobSpec>,
    sequence: u64,
    jobs: u64,
    step: u8,
}

impl OperationHistory {
    fn next(&mut self, number: u64) -> anyhow::Result<Op> {
        Ok(match number {
            1 => Op::Nothing,
            2 => {
                let name = CellName::new("bench")?;
                Op::Bootstrap { name, administrator: self.user.clone() }
            }
            3 => Op::OpenSession { user: self.user.clone() },
            4 => {
                let name = MachineName::new("m1")?;
                self.request(Mutation::AddMachine(AddMachine {
                    name,
                    address: "127.0.0.1:1".to_owned(),
                }))
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
            2 => Op::assign(vec![Assignment {
                instance,
                alloc: None,
                machine,
                address: None,
                ports: vec![],
                victims: vec![],
            }]),
            3 => observe(Observation::started(instance)),
            _ => {
                self.step = 0;
                observe(Observation::Ended {
                    instance,
                    end: End::Exited { code: 0 },
                    usage: model::FinalUsage::UNMEASURED,
                })
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

/// Writes a log with this many operations; returns its size in bytes.
///
/// With `checkpoints`, also writes a checkpoint after each that many operations.
pub(crate) fn write_history(
    directory: &DataDirectory,
    operations: u64,
    checkpoints: Option<u64>,
) -> anyhow::Result<u64> {
    let (mut log, _) = Log::open(directory.log(), Options::default())?;
    let promise = HardState { term: Term(1), vote: 1, ..HardState::default() }.to_bytes();
    let (kind, term) = (RecordKind::HardState, 1);
    log.append(&[RecordRef { kind, term, index: 0, level: 0, payload: &promise }])?;
    let task = TaskSpec::of(vec!["compute".to_owned(), "--seed=${task.index}".to_owned()]);
    let name = model::JobName::new("job")?;
    let spec = JobSpec::of(name, model::Band::Production.usual(), 1, task);
    let user = UserName::new("bench")?;
    let mut history =
        OperationHistory { user, spec: Arc::new(spec), sequence: 0, jobs: 0, step: 0 };
    let (mut written, mut bytes) = (0, 0);
    let mut cell = Cell::empty();
    while written < operations {
        let mut payloads = Vec::with_capacity(BATCH);
        while payloads.len() < BATCH && written < operations {
            written += 1;
            let op = history.next(written)?;
            let at = moment(written);
            let payload = match &op {
                Op::Nothing => Vec::new(),
                op => formats::log::encode_record(at, op),
            };
            if let Some(every) = checkpoints {
                cell.apply(at, &op);
                if written.is_multiple_of(every) {
                    let origin = Origin { term: Term(1), restore_epoch: RestoreEpoch::NEVER };
                    checkpoint::write_in(&directory.checkpoints(), &cell.image(), origin)?;
                }
            }
            bytes += payload.len() as u64;
            payloads.push((written, payload));
        }
        let records: Vec<_> = payloads
            .iter()
            .map(|(index, payload)| RecordRef {
                kind: RecordKind::Entry,
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

//! The cell of the benchmark, scheduled from scratch.

use std::sync::Arc;

use anyhow::{Context, ensure};
use cell::{Cell, Mutation, Op, Outcome, Reply, RequestId};
use model::{
    Band, Bytes, CollectionId, JobName, MachineReport, MilliCores, Resources, SessionId, Span,
    UserName,
};
use spec::{Constraint, JobSpec, Relation, TaskSpec};

use crate::scheduling::input::{self, NOW, Source};
use crate::scheduling::run::from_scratch;

/// The attribute that every machine has with one of two values.
const HALF: &str = "half";

/// The cell, and who changes the job.
pub(super) struct Made {
    pub(super) cell: Cell,
    pub(super) user: UserName,
    pub(super) session: SessionId,
    /// The last sequence number of the session.
    pub(super) sequence: u64,
    /// The job that is changed, all of whose tasks are on machines of the half `a`.
    pub(super) job: CollectionId,
}

/// A constraint to one half of the machines.
pub(super) fn in_half(value: &str) -> Constraint {
    let (attribute, relation) = (HALF.to_owned(), Relation::Equal);
    Constraint { attribute, relation, value: value.to_owned(), hard: true }
}

/// Draws the cell, adds the job, and places everything.
pub(super) fn cell(source: &Source, tasks: u32, at_once: u32) -> anyhow::Result<Made> {
    let snapshot = source.read()?;
    let mut cell = input::cell(&snapshot, &input::all(&snapshot))?;
    let machines: Vec<_> =
        cell.machines().map(|machine| (machine.id, Arc::clone(&machine.report))).collect();
    for (machine, report) in machines {
        let mut report = MachineReport::clone(&report);
        let value = if machine.0.is_multiple_of(2) { "a" } else { "b" };
        report.attributes.insert(HALF.to_owned(), value.to_owned());
        cell.apply(NOW, &Op::DescribeMachine { machine, report: Arc::new(report) });
    }
    let user = UserName::new("bench")?;
    let opened = cell.apply(NOW, &Op::OpenSession { user: user.clone() }).outcome;
    let Outcome::Request(Ok(Reply::Session(session))) = opened else { anyhow::bail!("{opened:?}") };
    let (id, by) = (RequestId { session, sequence: 1 }, user.clone());
    let mutation = Mutation::Submit(Arc::new(spec(tasks, at_once)?));
    let submitted = cell.apply(NOW, &Op::Request { id, by, mutation }).outcome;
    let Outcome::Request(Ok(Reply::Submitted { collection: job, .. })) = submitted else {
        anyhow::bail!("{submitted:?}")
    };
    let cell = from_scratch(cell, source.settings(), usize::MAX)?.scheduler.cell().clone();
    let running = cell.job(job).context("the job")?.counts().running;
    ensure!(running == tasks, "only {running} of {tasks} tasks of the job have a machine");
    Ok(Made { cell, user, session, sequence: 1, job })
}

/// Small tasks that are healthy while they run.
fn spec(tasks: u32, at_once: u32) -> anyhow::Result<JobSpec> {
    let cmd = ["serve", "--index=${task.index}", "--version=1"].map(str::to_owned);
    let mut task = TaskSpec::of(cmd.to_vec());
    task.limit = Resources { cpu: MilliCores(10), ram: Bytes(16 << 20), ..Resources::default() };
    task.constraints = vec![in_half("a")];
    let mut spec = JobSpec::of(JobName::new("updated")?, Band::Production.usual(), tasks, task);
    spec.disruptions.at_once = Some(at_once);
    (spec.update.batch, spec.update.healthy_for) = (Some(at_once), Span::from_secs(1));
    Ok(spec)
}

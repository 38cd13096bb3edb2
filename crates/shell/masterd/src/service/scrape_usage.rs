//! What jobs use, for Prometheus: on the machines that this replica polls, so that the sum over the
//! replicas is that of the cell. The number of jobs and tasks that are named is bounded.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use borglet::Measured;
use cell::{Cell, Job};
use model::{Band, CollectionId, InstanceId};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::handle::Core;
use crate::usage::{Query, UsageMemory};

/// The jobs with the most memory are named; the others are added up by band, without a name.
const JOBS_MAX: usize = 1_000;
/// The same for tasks, of which the others are left out.
const TASKS_MAX: usize = 10_000;

/// The source of the values.
#[derive(Debug)]
pub(super) struct UsageMetrics {
    pub(super) core: Core,
    pub(super) usage: Arc<UsageMemory>,
    /// Whether tasks are named, too.
    pub(super) tasks: bool,
}

type MetricLabels = Vec<(&'static str, String)>;

impl Collector for UsageMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let view = self.core.view();
        let gcu = |machine| view.cell.machine(machine).map(|machine| machine.gcu());
        let used = self.usage.query(gcu, &Query::default(), Instant::now());
        let cell = [("all", used.all), ("system", used.system)];
        let cell = cell.map(|(of, used)| (vec![("of", of.to_owned())], used));
        amounts(
            &mut encoder,
            "bourg_machines",
            "machines that this replica polls, and by what is no task (`system`)",
            &cell,
        )?;
        let jobs = used.jobs.iter().map(|(job, (_, used))| (*job, *used));
        let jobs = by_job(&view.cell, jobs);
        amounts(
            &mut encoder,
            "bourg_job",
            "a job's tasks on the machines that this replica polls",
            &jobs,
        )?;
        if self.tasks {
            let tasks = by_task(&view.cell, self.usage.samples(gcu, Instant::now()));
            amounts(
                &mut encoder,
                "bourg_task",
                "a task on the machines that this replica polls",
                &tasks,
            )?;
        }
        Ok(())
    }
}

/// Jobs that are known, with their labels: those with the most memory by name.
fn by_job(
    cell: &Cell,
    used: impl Iterator<Item = (CollectionId, Measured)>,
) -> Vec<(MetricLabels, Measured)> {
    let known = |(id, used): (CollectionId, Measured)| Some((cell.job(id)?, used));
    let is_job = |(job, _): &(&Arc<Job>, Measured)| !job.spec.kind.is_alloc_set();
    let mut jobs: Vec<_> = used.filter_map(known).filter(is_job).collect();
    jobs.sort_by_key(|(_, used)| std::cmp::Reverse(used.memory));
    let mut others: BTreeMap<Band, Measured> = BTreeMap::new();
    for (job, used) in jobs.drain(JOBS_MAX.min(jobs.len())..) {
        let of_band = others.entry(job.spec.priority.band()).or_default();
        *of_band = of_band.plus(&used);
    }
    let named = jobs.into_iter().map(|(job, used)| (labels(job), used));
    let others = others.into_iter().map(|(band, used)| (label("", "", band), used));
    named.chain(others).collect()
}

/// The tasks with the most memory.
fn by_task(cell: &Cell, mut used: Vec<(InstanceId, Measured)>) -> Vec<(MetricLabels, Measured)> {
    used.sort_by_key(|(_, used)| std::cmp::Reverse(used.memory));
    let labels = |(instance, used): (InstanceId, Measured)| {
        let job = cell.job(instance.collection)?;
        let mut labels = labels(job);
        labels.push(("task", instance.index.to_string()));
        (!job.spec.kind.is_alloc_set()).then_some((labels, used))
    };
    used.into_iter().filter_map(labels).take(TASKS_MAX).collect()
}

fn labels(job: &Job) -> MetricLabels {
    label(job.owner.as_str(), job.spec.name.as_str(), job.spec.priority.band())
}

fn label(user: &str, job: &str, band: Band) -> MetricLabels {
    vec![("user", user.to_owned()), ("job", job.to_owned()), ("band", band.name().to_owned())]
}

/// Writes CPU and memory; what was not measured has no value.
fn amounts(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    of: &str,
    values: &[(MetricLabels, Measured)],
) -> fmt::Result {
    let cpu = |used: &Measured| used.cpu.map(|cpu| cpu.0 as f64 / 1_000.0);
    let help = format!("CPU used by {of}, in normalised cores.");
    family(encoder, &format!("{name}_cpu_cores"), &help, values, cpu)?;
    let memory = |used: &Measured| used.memory.map(|memory| memory.0 as f64);
    let help = format!("Memory, with page cache, used by {of}, in bytes.");
    family(encoder, &format!("{name}_memory_bytes"), &help, values, memory)
}

fn family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: &[(MetricLabels, Measured)],
    value: impl Fn(&Measured) -> Option<f64>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, used) in values {
        if let Some(value) = value(used) {
            ConstGauge::new(value).encode(family.encode_family(labels)?)?;
        }
    }
    Ok(())
}

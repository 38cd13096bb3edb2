//! `bourg bench update`: what plans and updates of a large job cost in a full cell.
//!
//! The cell is scheduled from scratch as by `bourg bench cell`, with one job more: the one that is
//! changed. A replica as in a master's process leads it, with simulated Borglets, time and disk.
//!
//! 1. Plans of three changes of that job, with the parts of which a master makes them.
//! 2. An update that restarts every task: the processor time of the replica's steps.
//! 3. Another one, in the middle of which the replica loses everything that is not durable, and
//!    starts again from its cell.
//!
//! Fails if a task is not changed exactly once by an update. A bound that is not held is marked.

mod made;
mod plan;
mod roll;
mod steered;

use clap::Args;
use command::Done;
use command::output::{self, Format};
use serde::Serialize;

use super::scheduling::input::{STATEMENT, Source};

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// The number of tasks of the job that is updated, in addition to the others of the cell.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(10..))]
    updated: u32,
    /// The maximum number of its tasks that are updated at once.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    at_once: u32,
    /// How often each change is planned.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    plans: u16,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    cell: String,
    reservations: &'static str,
    seed: u64,
    machines: usize,
    /// Tasks that run, those of the updated job included.
    tasks: u64,
    updated_tasks: u32,
    at_once: u32,
    plans: Vec<plan::Planned>,
    update: roll::Rolled,
    failover: roll::FailedOver,
    /// Whether every bound is held.
    held: bool,
}

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = figures(options)?;
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "update", || table(&figures))
}

fn figures(options: &Options) -> anyhow::Result<Figures> {
    let Options { source, updated, at_once, plans, .. } = options;
    let made = made::cell(source, *updated, *at_once)?;
    let mut steered = steered::Steered::start(made, source.seed)?;
    let cell = steered.cell().clone();
    let runs = cell.jobs().map(|job| u64::from(job.counts().up)).sum();
    let plans = plan::measure(&cell, steered.job()?, *plans)?;
    let machines = cell.machine_count();
    drop(cell);
    let update = roll::roll(&mut steered)?;
    let failover = roll::fail_over(&mut steered)?;
    let held = plans.iter().all(|plan| plan.held) && update.held;
    Ok(Figures {
        cell: source.says(),
        reservations: STATEMENT,
        seed: source.seed,
        machines,
        tasks: runs,
        updated_tasks: *updated,
        at_once: *at_once,
        plans,
        update,
        failover,
        held,
    })
}

fn mark(held: bool) -> &'static str {
    if held { "" } else { ": NOT HELD" }
}

fn table(figures: &Figures) -> String {
    let Figures { update, failover, .. } = figures;
    let mut text = format!(
        "{}: {} machines, {} tasks run\n{}\n",
        figures.cell, figures.machines, figures.tasks, figures.reservations
    );
    for plan in &figures.plans {
        text += &format!(
            "plan, {} ({} in place, {} restart, {} move; {} placed): {:.1} ms (median), {:.1} ms \
             (longest), {:.1} ms of CPU: kinds {:.1}, preview {:.1}, placing {:.1}; bound {:.0} ms{}\n",
            plan.change,
            plan.in_place,
            plan.restart,
            plan.moves,
            plan.placed,
            plan.median_ms,
            plan.max_ms,
            plan.cpu_median_ms,
            plan.kinds_cpu_ms,
            plan.preview_cpu_ms,
            plan.placing_cpu_ms,
            plan.bound_ms,
            mark(plan.held)
        );
    }
    text += &format!(
        "update of {} tasks, at most {} down at once, in {:.0} simulated s: {:.0} µs of CPU a task \
         ({:.0} without the polls of an idle cell); {:.2} operations a task; bound {:.0} µs{}\n",
        figures.updated_tasks,
        update.down_max,
        update.simulated_seconds,
        update.cpu_us_per_task,
        update.cpu_us_per_task_without_polls,
        update.operations_per_task,
        update.bound_us,
        mark(update.held)
    );
    text += &format!(
        "fail-over after {} of {} tasks, {} steps not durable: each task changed once; the next \
         step after {:.1} simulated ms and {:.1} ms of CPU\n",
        failover.changed_before,
        figures.updated_tasks,
        failover.steps_not_durable,
        failover.next_step_simulated_ms,
        failover.next_step_cpu_ms
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small cell, in which everything is measured.
    #[test]
    fn a_small_update_changes_each_task_once_despite_a_fail_over() {
        let source = Source {
            trace: None,
            shape: "2019-a".to_owned(),
            machines: 60,
            tasks: 300,
            enough: placement::Settings::default().enough,
            seed: 1,
        };
        let options = Options { source, updated: 50, at_once: 5, plans: 2, json: false };
        let figures = figures(&options).expect("each task is changed once");
        let kinds = |plan: &plan::Planned| (plan.in_place, plan.restart, plan.moves, plan.placed);
        let plans: Vec<_> = figures.plans.iter().map(kinds).collect();
        assert_eq!(plans, [(0, 50, 0, 0), (50, 0, 0, 0), (0, 0, 50, 50)]);
        assert_eq!((figures.update.changes, figures.update.down_max), (50, 5));
        let failover = &figures.failover;
        assert_eq!((failover.changes, failover.steps_repeated, failover.steps_lost), (50, 0, 0));
        assert!(failover.steps_not_durable > 0, "it is in the middle of a step");
        assert!(table(&figures).contains("each task changed once"));
    }
}

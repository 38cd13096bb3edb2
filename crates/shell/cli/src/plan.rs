//! `bourg plan`: what submitting or updating the jobs of a file would do.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use api::{v1, word};
use clap::Args;
use client::{Connection, Target};
use command::output::{self, Format};
use command::{Code, Failure};
use model::{LabelQuery, Resources};
use spec::JobSpec;

use crate::change::{ChangeArgs, change_text, tasks};
use crate::imports::ImportArgs;
use crate::prune::{self, PruneArgs};
use crate::sources::{self, line::JobLine};

/// The exit status of a plan that changes something, with --exit-code.
const SOMETHING_CHANGES: u8 = 2;

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// BCL or JSON files, or one script; - is the standard input, and a folder stands for all *.bcl in it.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    imports: ImportArgs,
    #[command(flatten)]
    change: ChangeArgs,
    /// Also show your jobs with these labels that the files do not describe: bourg run --prune kills them.
    #[arg(long, value_name = "LABELS", value_parser = super::prune::labels_to_have)]
    prune: Option<LabelQuery>,
    /// Exit with 0 if nothing changes, with 2 if something changes, and with 1 after an error.
    #[arg(long)]
    exit_code: bool,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

pub(crate) fn plan(cell: Target<'_>, args: &PlanArgs) -> Result<ExitCode, Failure> {
    match planned(cell, args) {
        Ok(true) if args.exit_code => Ok(ExitCode::from(SOMETHING_CHANGES)),
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(failure) if args.exit_code => Err(failure.exit_status(1)),
        Err(failure) => Err(failure),
    }
}

/// Shows the plans. Whether something changes.
fn planned(cell: Target<'_>, args: &PlanArgs) -> Result<bool, Failure> {
    let jobs = sources::evaluate(&args.files, &args.imports, &JobLine::default())?;
    let prune = PruneArgs::of(args.prune.clone());
    jobs.with_cell(cell, async |mut connection, jobs| {
        let changes = show(&mut connection, &jobs, &args.output, |job| v1::PlanRequest {
            tasks: args.change.tasks(),
            policy: args.change.policy(job),
            ..v1::PlanRequest::default()
        })
        .await?;
        Ok(prune::show(&mut connection, &prune, &jobs).await? || changes)
    })
}

/// Shows the plan of each job. Whether one of them is new or changes.
///
/// # Errors
/// If one of them would be rejected.
pub(crate) async fn show(
    connection: &mut Connection,
    jobs: &[JobSpec],
    format: &Format,
    request: impl Fn(&JobSpec) -> v1::PlanRequest,
) -> Result<bool, Failure> {
    let (mut rejected, mut changes) = (None, false);
    for job in jobs {
        let change = Some(v1::plan_request::Change::Spec(job.into()));
        let request = v1::PlanRequest { change, ..request(job) };
        let plan = connection
            .ask(request, async |mut client, request| client.updates.plan(request).await)
            .await?;
        let name = format!("{}/{}", plan.user, plan.job);
        changes |= !plan.unchanged;
        output::object(format, &plan, &name, || describe(&name, &plan))?;
        if !plan.rejected.is_empty() && rejected.is_none() {
            rejected = Some(format!("error: {name} would be rejected: {}", plan.rejected));
        }
    }
    rejected.map_or(Ok(changes), |text| Err(Failure::new(Code::Refused, text)))
}

/// A plan for people.
fn describe(name: &str, plan: &v1::PlanResponse) -> String {
    let total = plan.total.and_then(|total| Resources::try_from(total).ok()).unwrap_or_default();
    let mut text = match (plan.new, plan.unchanged) {
        (true, _) if plan.every_machine => {
            let machines = match plan.size {
                0 => "every machine that will match: none does now".to_owned(),
                1 => "the 1 matching machine".to_owned(),
                size => format!("each of {size} matching machines"),
            };
            format!("+ {name}  1 task on {machines}  {total}\n")
        }
        (true, _) => format!("+ {name}  {}  {total}\n", tasks(plan.size)),
        (false, true) => format!("= {name}  unchanged, version {}\n", plan.version),
        (false, false) => String::new(),
    };
    let mut line = |line: String| {
        let _infallible = writeln!(text, "{line}");
    };
    for planned in &plan.changes {
        let change = planned.change.as_ref().map(change_text).unwrap_or_default();
        line(format!("~ {name}  {change}   {}", planned.effect));
    }
    let changed = |kind: &&v1::PlannedTasks| kind.kind() != v1::ChangeKind::Unchanged;
    if !plan.new && !plan.unchanged {
        for kind in plan.tasks.iter().filter(changed) {
            let ranges: Vec<_> = kind.tasks.iter().take(8).map(range).collect();
            let more = if kind.tasks.len() > 8 { ",…" } else { "" };
            let (what, count) = (word::<v1::ChangeKind>(kind.kind), tasks(kind.count));
            line(format!("  {what:10} {count}: {}{more}", ranges.join(",")));
        }
    }
    for spelling in &plan.spellings {
        line(format!("note: {spelling}"));
    }
    if !plan.rejected.is_empty() || plan.unchanged {
        return text;
    }
    if !plan.new {
        let at_once = plan.at_once.map_or("any number".to_owned(), |most| most.to_string());
        let skipped = match plan.skipped {
            0 => String::new(),
            some => format!(", {} skipped", tasks(some)),
        };
        line(format!("disruptions {} (at most {at_once} down at once){skipped}", plan.disruptions));
        if !plan.blocked.is_empty() {
            line(format!("note: {}", plan.blocked));
        }
    }
    match (plan.placed, plan.unplaced) {
        (_, 0) if plan.new => line("fits now, within quota".to_owned()),
        (0, 0) => line("fits now, within quota; no task moves".to_owned()),
        (placed, 0) => line(format!("fits now, within quota; {} to place", tasks(placed))),
        (_, unplaced) => {
            line(format!(
                "within quota, but {} would stay pending: {}",
                tasks(unplaced),
                plan.why_unplaced
            ));
        }
    }
    match plan.evictions.as_slice() {
        [] => line("nobody else is affected".to_owned()),
        some => {
            line(format!("evicts {}:", tasks(u32::try_from(some.len()).unwrap_or(u32::MAX))));
            for evicted in some {
                line(format!(
                    "  {} on {}, priority {}",
                    evicted.task, evicted.machine, evicted.priority
                ));
            }
        }
    }
    text
}

fn range(range: &v1::IndexRange) -> String {
    match range.first == range.last {
        true => range.first.to_string(),
        false => format!("{}-{}", range.first, range.last),
    }
}

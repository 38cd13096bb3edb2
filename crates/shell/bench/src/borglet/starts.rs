//! Many tasks at once: how fast they start and end, what that costs, and whether the health checks
//! of others notice.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use borglet::{Desired, TaskStatus};
use linux::logs::Stream;
use model::{CollectionId, Time};
use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;

use super::driven::{Driven, checked, count, has_ended, instance, is_healthy, machine_time, task};
use super::rounded;

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    /// The number of tasks.
    tasks: u32,
    /// The time from the order to the report in which all of them have ended.
    seconds: f64,
    per_second: f64,
    /// CPU time of the Borglet, the shims and the tasks.
    cpu_ms_per_start: f64,
    /// The part of it that is the Borglet's own.
    borglet_cpu_ms_per_start: f64,
    /// The same of a loop that starts the same program and waits for it.
    bare_cpu_ms_per_start: f64,
    bare_per_second: f64,
    ratio_to_bare: f64,
    /// The health checks of other tasks while these started.
    checks_during_starts: Checks,
    /// From the kill of as many running tasks to the report in which all of them have ended.
    ends_seconds: f64,
    checks_during_ends: Checks,
}

/// The health checks in some time.
#[derive(Debug, Serialize)]
pub(super) struct Checks {
    tasks: u32,
    /// How many were made.
    made: usize,
    /// How many failed.
    failed: usize,
    /// How much later than its second a check came at most.
    latest_ms: f64,
}

/// The cost of a process without a task around it.
pub(super) struct Bare {
    cpu: Duration,
    per_second: f64,
}

/// The job of the tasks that come and go, the one of those that are checked, and the first one.
const MANY: u64 = 1;
const CHECKED: u64 = 2;
const WARM: u64 = 3;
const RUNNING: u64 = 4;
/// The interval of the health checks.
const INTERVAL_US: u64 = 1_000_000;
/// What tasks do before they end: nothing.
const PROGRAM: &str = "true";

/// Starts the program in a loop, and waits for each.
pub(super) fn bare(number: u32) -> anyhow::Result<Bare> {
    let used = || -> anyhow::Result<Duration> {
        let mut all = Duration::ZERO;
        for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
            let usage = getrusage(who)?;
            for time in [usage.user_time(), usage.system_time()] {
                all += Duration::from_micros(u64::try_from(time.tv_sec())? * 1_000_000)
                    + Duration::from_micros(u64::try_from(time.tv_usec())?);
            }
        }
        Ok(all)
    };
    let (before, begun) = (used()?, Instant::now());
    for _ in 0..number {
        let mut command = Command::new(PROGRAM);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).env_clear().status()?;
        ensure!(status.success(), "{PROGRAM} has failed: {status}");
    }
    let time = begun.elapsed();
    let per_second = f64::from(number) / time.as_secs_f64();
    Ok(Bare { cpu: (used()? - before) / number, per_second })
}

/// Runs the section.
pub(super) async fn measure(
    place: &Path,
    number: u32,
    others: u32,
    bare: Bare,
) -> anyhow::Result<Figures> {
    let mut driven = Driven::start(place).await?;
    let others_wanted = checked(CHECKED, others)?;
    // Whatever is done once is not measured.
    let mut wanted = others_wanted.clone();
    wanted.push(task(instance(WARM, 0), &[PROGRAM])?);
    driven.order(wanted);
    let all_healthy = usize::try_from(others)?;
    driven
        .until("the checked tasks are healthy", |report| {
            count(report, CHECKED, is_healthy) == all_healthy && count(report, WARM, has_ended) == 1
        })
        .await?;
    driven.during(Duration::from_secs(2)).await?;

    let many = usize::try_from(number)?;
    let (cpu, own) = (driven.cpu_time()?, driven.own_cpu_time()?);
    let (began, begun) = (machine_time(), Instant::now());
    driven.order(with(&others_wanted, MANY, number, &[PROGRAM])?);
    driven.until("all have ended", |report| count(report, MANY, has_ended) == many).await?;
    let time = begun.elapsed();
    let (cpu, own) = ((driven.cpu_time()? - cpu) / number, (driven.own_cpu_time()? - own) / number);
    let good = |status: &TaskStatus| {
        matches!(status, TaskStatus::Ended(model::End::Exited { code: 0 }, _))
    };
    let report = driven.report();
    let failed = report
        .tasks
        .iter()
        .find(|task| task.instance.collection == CollectionId(MANY) && !good(&task.status));
    ensure!(failed.is_none(), "a task did not exit with 0: {failed:?}");
    let ended = machine_time();
    // The checks that were due meanwhile.
    driven.during(Duration::from_secs(2)).await?;
    let checks_during_starts = checks(&driven, &others_wanted, began, ended)?;

    driven.order(with(&others_wanted, RUNNING, number, &["sleep", "1000000"])?);
    let runs = |status: &TaskStatus| matches!(status, TaskStatus::Running { .. });
    driven.until("all run", |report| count(report, RUNNING, runs) == many).await?;
    driven.during(Duration::from_secs(2)).await?;
    let (began, begun) = (machine_time(), Instant::now());
    for index in 0..number {
        driven.kill(instance(RUNNING, index))?;
    }
    driven.until("all have ended", |report| count(report, RUNNING, has_ended) == many).await?;
    let ends = begun.elapsed();
    let ended = machine_time();
    driven.during(Duration::from_secs(2)).await?;
    let checks_during_ends = checks(&driven, &others_wanted, began, ended)?;

    let ms = |time: Duration| rounded(time.as_secs_f64() * 1e3, 2);
    Ok(Figures {
        tasks: number,
        seconds: rounded(time.as_secs_f64(), 3),
        per_second: rounded(f64::from(number) / time.as_secs_f64(), 1),
        cpu_ms_per_start: ms(cpu),
        borglet_cpu_ms_per_start: ms(own),
        bare_cpu_ms_per_start: ms(bare.cpu),
        bare_per_second: rounded(bare.per_second, 1),
        ratio_to_bare: rounded(cpu.as_secs_f64() / bare.cpu.as_secs_f64().max(1e-9), 1),
        checks_during_starts,
        ends_seconds: rounded(ends.as_secs_f64(), 3),
        checks_during_ends,
    })
}

/// The order with `number` tasks of a job beside the others.
fn with(others: &[Desired], job: u64, number: u32, argv: &[&str]) -> anyhow::Result<Vec<Desired>> {
    let many = (0..number).map(|index| task(instance(job, index), argv));
    others.iter().cloned().map(Ok).chain(many).collect()
}

/// The health checks that were due in some time, as the checked tasks noted them.
fn checks(driven: &Driven, others: &[Desired], began: Time, ended: Time) -> anyhow::Result<Checks> {
    let (mut made, mut latest) = (0, 0);
    for desired in others {
        let path = driven.logs(desired.instance).join(format!("{}.000001", Stream::Stdout.name()));
        let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
        let times: Result<Vec<u64>, _> = text.lines().map(str::parse).collect();
        let times = times.context("a checked task printed something else than times")?;
        for pair in times.windows(2) {
            let due = pair[0] + INTERVAL_US;
            if due >= began.0 && due <= ended.0 {
                made += 1;
                latest = latest.max(pair[1].saturating_sub(due));
            }
        }
    }
    let healthy = count(driven.report(), CHECKED, is_healthy);
    #[expect(clippy::cast_precision_loss, reason = "a time, rounded")]
    let latest_ms = rounded(latest as f64 / 1e3, 1);
    Ok(Checks {
        tasks: u32::try_from(others.len())?,
        made,
        // A single failure ends a task.
        failed: others.len() - healthy,
        latest_ms,
    })
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    let checks = |checks: &Checks| {
        format!(
            "{} health checks of {} other tasks, at most {} ms late, {} failed",
            checks.made, checks.tasks, checks.latest_ms, checks.failed
        )
    };
    format!(
        "starts: {} tasks started and ended in {} s, {} a second; {} ms of CPU each ({} ms the \
         Borglet's), {} times a bare process ({} ms, {} a second)\n  meanwhile {}\nends: {} running \
         tasks ended in {} s\n  meanwhile {}\n",
        figures.tasks,
        figures.seconds,
        figures.per_second,
        figures.cpu_ms_per_start,
        figures.borglet_cpu_ms_per_start,
        figures.ratio_to_bare,
        figures.bare_cpu_ms_per_start,
        figures.bare_per_second,
        checks(&figures.checks_during_starts),
        figures.tasks,
        figures.ends_seconds,
        checks(&figures.checks_during_ends),
    )
}

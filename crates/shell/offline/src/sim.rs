//! `bourg sim`: simulates whole cells under faults, reproducibly by seed.

use std::fmt::Write as _;
use std::ops::Range;
use std::panic::resume_unwind;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use command::output::{self, Format};
use command::{Done, Failure};
use masterd::Records;
use model::Span;
use serde::Serialize;
use sim::{Family, Plan, Scenario, Verdict};

/// What to simulate.
#[derive(Debug, Args)]
pub struct SimArgs {
    /// Simulate the world of this seed.
    #[arg(long, conflicts_with = "seeds", required_unless_present_any = ["seeds", "scenario"])]
    seed: Option<u64>,
    /// Simulate a known failure scenario, or all of them; with --seed, another variant of it.
    #[arg(long, value_name = "NAME", value_parser = scenarios, conflicts_with_all = ["seeds", "only", "machines"])]
    scenario: Option<Scenarios>,
    /// Simulate the worlds of these seeds, as FROM..TO; TO is excluded.
    #[arg(long, value_name = "FROM..TO")]
    seeds: Option<Seeds>,
    /// For how many hours of virtual time a world has faults.
    #[arg(long, default_value_t = 0.5, value_parser = hours)]
    hours: f64,
    /// The number of replicas of the Borgmaster.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7), conflicts_with = "scenario")]
    replicas: u8,
    /// The kinds of faults: all, none, or some of network, machines, master, scheduler, disk,
    /// replicas, memory; replicas requires --replicas.
    #[arg(long, default_value = "all", value_delimiter = ',', value_parser = families)]
    faults: Vec<Families>,
    /// Inject only these of the world's faults, by number.
    #[arg(long, value_delimiter = ',', conflicts_with = "seeds")]
    only: Option<Vec<usize>>,
    /// The number of machines. Default: 3 to 100, depending on the seed.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    machines: Option<u16>,
    /// The number of worlds simulated in parallel. Default: the number of cores.
    #[arg(long)]
    threads: Option<usize>,
    /// Do not search for the smallest set of faults with the same failure.
    #[arg(long)]
    no_shrink: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A range of seeds, the end excluded.
#[derive(Clone, Debug)]
pub(super) struct Seeds(Range<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = text
            .split_once("..")
            .and_then(|(from, to)| Some(from.trim().parse().ok()?..to.trim().parse().ok()?));
        match range {
            Some(range) if range.start < range.end => Ok(Self(range)),
            _ => Err("seeds must be a range such as 0..300".to_owned()),
        }
    }
}

/// The value of `--scenario`.
#[derive(Clone, Debug)]
struct Scenarios(Vec<Scenario>);

fn scenarios(text: &str) -> Result<Scenarios, String> {
    if text == "all" {
        return Ok(Scenarios(Scenario::ALL.to_vec()));
    }
    let names = || Scenario::ALL.map(Scenario::name).join(", ");
    let scenario = Scenario::named(text);
    let scenario =
        scenario.ok_or_else(|| format!("unknown scenario; known are all, {}", names()))?;
    Ok(Scenarios(vec![scenario]))
}

/// The result of a scenario.
#[derive(Debug, Serialize)]
struct ScenarioReport {
    scenario: &'static str,
    about: &'static str,
    virtual_seconds: f64,
    figures: Vec<Figure>,
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// A count in a scenario, with its maximum.
#[derive(Debug, Serialize)]
struct Figure {
    what: &'static str,
    is: u64,
    most: u64,
}

/// Runs scenarios, and reports the counts of each with their maxima.
fn play_scenarios(args: &SimArgs, scenarios: &[Scenario]) -> Done {
    let play = |scenario: &Scenario| {
        let played = scenario.play(args.seed.unwrap_or(1), None, Records);
        let figure =
            |figure: &sim::Figure| Figure { what: figure.what, is: figure.is, most: figure.most };
        ScenarioReport {
            scenario: scenario.name(),
            about: scenario.about(),
            virtual_seconds: played.age.to_std().as_secs_f64(),
            figures: played.figures.iter().map(figure).collect(),
            digest: played.digest,
            failure: played.failure,
        }
    };
    let played: Vec<ScenarioReport> = scenarios.iter().map(play).collect();
    let failed = played.iter().filter(|played| played.failure.is_some()).count();
    let format = if args.json { Format::Json } else { Format::Table };
    output::object(&format, &played, "scenarios", || {
        played.iter().map(text_of_scenario).collect()
    })?;
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{failed} of {} scenarios failed", played.len()))),
    }
}

fn text_of_scenario(played: &ScenarioReport) -> String {
    let verdict = played.failure.as_deref().unwrap_or("passed");
    let mut text = format!("{}: {verdict}\n", played.scenario);
    for Figure { what, is, most } in &played.figures {
        let _infallible = writeln!(text, "  {what}: {is}, at most {most}");
    }
    text
}

/// A value of `--faults`.
#[derive(Clone, Debug)]
struct Families(Vec<Family>);

fn families(text: &str) -> Result<Families, String> {
    match text {
        "all" => return Ok(Families(Family::ALL.to_vec())),
        "none" => return Ok(Families(Vec::new())),
        _ => {}
    }
    let names = || Family::ALL.map(Family::name).join(", ");
    let family = Family::ALL.into_iter().find(|family| family.name() == text);
    let family =
        family.ok_or_else(|| format!("unknown faults; known are all, none, {}", names()))?;
    Ok(Families(vec![family]))
}

fn hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if (0.01..=10_000.0).contains(&hours) => Ok(hours),
        _ => Err("must be from 0.01 to 10000".to_owned()),
    }
}

/// The report of a simulation.
#[derive(Debug, Default, Serialize)]
struct Report {
    worlds: u64,
    virtual_seconds: f64,
    seconds: f64,
    virtual_seconds_per_second: f64,
    operations: u64,
    polls: u64,
    processes: u64,
    /// The longest time that a world took to settle after its faults.
    rested_after_s_max: f64,
    /// The digest of the events; only for a single world.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// The injected faults; only for a single world.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<String>,
    failures: Vec<FailedWorld>,
}

#[derive(Debug, Serialize)]
struct FailedWorld {
    seed: u64,
    failure: String,
    faults: Vec<String>,
    command: String,
}

/// The maximum number of worlds simulated to find the smallest set of faults.
const SHRINK_WORLDS: usize = 200;
/// The maximum number of failures reported.
const FAILURES_MAX: usize = 10;

/// Simulates the worlds, and reports their failures.
pub(super) fn sim(args: &SimArgs) -> Done {
    if let Some(Scenarios(scenarios)) = &args.scenario {
        return play_scenarios(args, scenarios);
    }
    let seeds = match (&args.seeds, args.seed) {
        (Some(Seeds(seeds)), _) => seeds.clone(),
        (None, seed) => seed.unwrap_or(0)..seed.unwrap_or(0).saturating_add(1),
    };
    let begun = Instant::now();
    let one = (seeds.end - seeds.start == 1).then(|| plan(args, seeds.start));
    if let Some(plan) = &one {
        check_faults_exist(plan)?;
    }
    let verdicts = play(args, seeds);
    let mut report = summary(&verdicts, begun.elapsed().as_secs_f64());
    if let (Some(plan), Some(verdict)) = (&one, verdicts.first()) {
        report.digest = Some(verdict.digest.clone());
        report.faults = listed(plan);
    }
    let failed = verdicts.iter().filter(|verdict| verdict.failure.is_some());
    report.failures =
        failed.take(FAILURES_MAX).map(|verdict| reproducible(args, verdict)).collect();
    let format = if args.json { Format::Json } else { Format::Table };
    output::object(&format, &report, "simulation", || text(&report))?;
    match report.failures.len() {
        0 => Ok(()),
        count => Err(Failure::failed(format!("{count} of {} worlds failed", report.worlds))),
    }
}

/// Checks that the selected faults exist.
fn check_faults_exist(plan: &Plan) -> Done {
    let count = plan.faults().len();
    match plan.only.iter().flatten().find(|number| **number >= count) {
        None => Ok(()),
        Some(number) => Err(Failure::usage(format!(
            "the world of seed {} has {count} faults, numbered from 0; there is no fault {number}",
            plan.seed
        ))),
    }
}

/// The injected faults, with their numbers.
fn listed(plan: &Plan) -> Vec<String> {
    let faults = plan.faults();
    let played = faults.iter().enumerate().filter(|(_, (_, played))| *played);
    played.map(|(number, (fault, _))| format!("{number}: {fault}")).collect()
}

fn plan(args: &SimArgs, seed: u64) -> Plan {
    let lasts = span(args.hours * 3_600.0);
    let mut families: Vec<Family> =
        args.faults.iter().flat_map(|Families(some)| some.clone()).collect();
    families.sort_unstable();
    families.dedup();
    let (only, machines) = (args.only.clone(), args.machines.map(usize::from));
    Plan { families, only, replicas: args.replicas.into(), machines, ..Plan::of(seed, lasts) }
}

/// Converts seconds to a span.
fn span(seconds: f64) -> Span {
    let span = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Span(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}

/// Simulates worlds in parallel, until all are done or enough have failed. Returns the verdicts by
/// seed.
fn play(args: &SimArgs, seeds: Range<u64>) -> Vec<Verdict> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (next, failures) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    let work = || {
        let mut verdicts = Vec::new();
        while failures.load(Ordering::Relaxed) < FAILURES_MAX as u64 {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let verdict = plan(args, seed).run(Records);
            failures.fetch_add(u64::from(verdict.failure.is_some()), Ordering::Relaxed);
            verdicts.push(verdict);
            if (seed - seeds.start + 1).is_multiple_of(1_000) {
                eprintln!("{} worlds", seed - seeds.start + 1);
            }
        }
        verdicts
    };
    let mut verdicts: Vec<Verdict> = thread::scope(|scope| {
        let threads = args.threads.unwrap_or(cores).clamp(1, 1_024);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = running.into_iter().map(thread::ScopedJoinHandle::join);
        ended.flat_map(|played| played.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    verdicts.sort_by_key(|verdict| verdict.seed);
    verdicts
}

fn summary(verdicts: &[Verdict], seconds: f64) -> Report {
    let sum = |of: fn(&Verdict) -> u64| verdicts.iter().map(of).sum();
    let age = |verdict: &Verdict| verdict.age.to_std().as_secs_f64();
    let virtual_seconds: f64 = verdicts.iter().map(age).sum();
    let rested = verdicts.iter().filter_map(|verdict| verdict.rested_after).max();
    Report {
        worlds: verdicts.len() as u64,
        virtual_seconds,
        seconds,
        virtual_seconds_per_second: virtual_seconds / seconds.max(1e-9),
        operations: sum(|verdict| verdict.counts.operations),
        polls: sum(|verdict| verdict.counts.polls),
        processes: sum(|verdict| verdict.counts.processes),
        rested_after_s_max: rested.unwrap_or_default().to_std().as_secs_f64(),
        digest: None,
        faults: Vec::new(),
        failures: Vec::new(),
    }
}

/// A failure with what is needed to reproduce it.
fn reproducible(args: &SimArgs, verdict: &Verdict) -> FailedWorld {
    let plan = plan(args, verdict.seed);
    let (plan, least) = match args.no_shrink {
        true => (plan, verdict.clone()),
        false => plan.shrink(|| Records, SHRINK_WORLDS),
    };
    FailedWorld {
        seed: verdict.seed,
        failure: least.failure.or_else(|| verdict.failure.clone()).unwrap_or_default(),
        faults: listed(&plan),
        command: command(args, &plan),
    }
}

fn command(args: &SimArgs, plan: &Plan) -> String {
    let mut command = format!("bourg sim --seed {} --hours {}", plan.seed, args.hours);
    if args.replicas > 1 {
        let _infallible = write!(command, " --replicas {}", args.replicas);
    }
    let names: Vec<_> = plan.families.iter().map(|family| family.name()).collect();
    let none = names.is_empty() || plan.only.as_ref().is_some_and(Vec::is_empty);
    let faults = match plan.families.len() == Family::ALL.len() {
        _ if none => "none".to_owned(),
        true => "all".to_owned(),
        false => names.join(","),
    };
    let _infallible = write!(command, " --faults {faults}");
    if let Some(machines) = args.machines {
        let _infallible = write!(command, " --machines {machines}");
    }
    if let Some(only) = plan.only.as_ref().filter(|only| !only.is_empty()) {
        let only: Vec<_> = only.iter().map(ToString::to_string).collect();
        let _infallible = write!(command, " --only {}", only.join(","));
    }
    command
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "{} worlds, {} of virtual time in {:.1} s ({:.0} times as fast): {} operations, {} polls, {} \
         processes; settled within {:.0} s of the last fault\n",
        report.worlds,
        span(report.virtual_seconds.round()),
        report.seconds,
        report.virtual_seconds_per_second,
        report.operations,
        report.polls,
        report.processes,
        report.rested_after_s_max,
    );
    for fault in &report.faults {
        let _infallible = writeln!(text, "fault {fault}");
    }
    if let Some(digest) = &report.digest {
        let _infallible = writeln!(text, "events {digest}");
    }
    for failed in &report.failures {
        let _infallible = writeln!(text, "\nseed {}: {}", failed.seed, failed.failure);
        for fault in &failed.faults {
            let _infallible = writeln!(text, "  fault {fault}");
        }
        let _infallible = writeln!(text, "  reproduce: {}", failed.command);
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SimArgs,
    }

    #[test]
    fn the_command_plays_the_faults_that_are_left() {
        let again = |words: &str, only: Option<Vec<usize>>| {
            let words = std::iter::once("sim").chain(words.split(' '));
            let args = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).args;
            command(&args, &Plan { only, ..plan(&args, 9) })
        };
        for (words, only, expected) in [
            ("--seeds 0..99", None, "--hours 0.5 --faults all"),
            ("--seeds 0..99", Some(vec![3, 7]), "--hours 0.5 --faults all --only 3,7"),
            ("--seeds 0..99", Some(vec![]), "--hours 0.5 --faults none"),
            ("--seed 9 --replicas 3", None, "--hours 0.5 --replicas 3 --faults all"),
            ("--seed 9 --faults none --hours 2", None, "--hours 2 --faults none"),
            (
                "--seed 9 --faults disk,network --machines 6",
                Some(vec![0]),
                "--hours 0.5 --faults network,disk --machines 6 --only 0",
            ),
        ] {
            assert_eq!(again(words, only), format!("bourg sim --seed 9 {expected}"), "{words}");
        }
    }
}

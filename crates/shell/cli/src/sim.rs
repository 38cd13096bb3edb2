//! `bourg sim`: whole cells in this process, under faults, by their seeds.

use std::fmt::Write as _;
use std::ops::Range;
use std::panic::resume_unwind;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use masterd::Records;
use model::Span;
use serde::Serialize;
use sim::{Family, Plan, Scenario, Verdict};

use super::exit::{Done, Failure};
use super::output::{self, Format};

/// What is played.
#[derive(Debug, Args)]
pub(super) struct SimArgs {
    /// The world of this seed.
    #[arg(long, conflicts_with = "seeds", required_unless_present_any = ["seeds", "scenario"])]
    seed: Option<u64>,
    /// A failure that others are known for, by its name, or all of them; with --seed, another one of
    /// its kind.
    #[arg(long, value_name = "NAME", value_parser = scenarios, conflicts_with_all = ["seeds", "only", "machines"])]
    scenario: Option<Scenarios>,
    /// The worlds of these seeds, as FROM..TO; TO is not one of them.
    #[arg(long, value_name = "FROM..TO")]
    seeds: Option<Seeds>,
    /// For how many hours of its own time a world has faults.
    #[arg(long, default_value_t = 0.5, value_parser = hours)]
    hours: f64,
    /// How many replicas the Borgmaster has.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7), conflicts_with = "scenario")]
    replicas: u8,
    /// Which faults: all, none, or some of network, machines, master, scheduler, disk, replicas; the
    /// last of them only with --replicas.
    #[arg(long, default_value = "all", value_delimiter = ',', value_parser = families)]
    faults: Vec<Families>,
    /// Of the world's faults only these, by their numbers.
    #[arg(long, value_delimiter = ',', conflicts_with = "seeds")]
    only: Option<Vec<usize>>,
    /// How many machines. Default: 3 to 100, as the seed says.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    machines: Option<u16>,
    /// How many worlds at once. Default: as many as there are cores.
    #[arg(long)]
    threads: Option<usize>,
    /// Do not look for the fewest faults that give the same failure.
    #[arg(long)]
    no_shrink: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Seeds, the last one excluded.
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
            _ => Err("seeds are a range such as 0..300".to_owned()),
        }
    }
}

/// What `--scenario` says.
#[derive(Clone, Debug)]
struct Scenarios(Vec<Scenario>);

fn scenarios(text: &str) -> Result<Scenarios, String> {
    if text == "all" {
        return Ok(Scenarios(Scenario::ALL.to_vec()));
    }
    let names = || Scenario::ALL.map(Scenario::name).join(", ");
    let scenario = Scenario::named(text);
    let scenario = scenario.ok_or_else(|| format!("scenarios are all, {}", names()))?;
    Ok(Scenarios(vec![scenario]))
}

/// How a scenario went.
#[derive(Debug, Serialize)]
struct Played {
    scenario: &'static str,
    about: &'static str,
    virtual_seconds: f64,
    figures: Vec<Figure>,
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// What was counted in it.
#[derive(Debug, Serialize)]
struct Figure {
    what: &'static str,
    is: u64,
    most: u64,
}

/// Plays scenarios, and says of each what was counted and how much that may be.
fn play_scenarios(args: &SimArgs, scenarios: &[Scenario]) -> Done {
    let play = |scenario: &Scenario| {
        let played = scenario.play(args.seed.unwrap_or(1), None, Records);
        let figure =
            |figure: &sim::Figure| Figure { what: figure.what, is: figure.is, most: figure.most };
        Played {
            scenario: scenario.name(),
            about: scenario.about(),
            virtual_seconds: played.age.to_std().as_secs_f64(),
            figures: played.figures.iter().map(figure).collect(),
            digest: played.digest,
            failure: played.failure,
        }
    };
    let played: Vec<Played> = scenarios.iter().map(play).collect();
    let failed = played.iter().filter(|played| played.failure.is_some()).count();
    let format = if args.json { Format::Json } else { Format::Table };
    output::object(&format, &played, "scenarios", || played.iter().map(told).collect())?;
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{failed} of {} scenarios failed", played.len()))),
    }
}

fn told(played: &Played) -> String {
    let verdict = played.failure.as_deref().unwrap_or("as it must be");
    let mut text = format!("{}: {verdict}\n", played.scenario);
    for Figure { what, is, most } in &played.figures {
        let _infallible = writeln!(text, "  {what}: {is}, at most {most}");
    }
    text
}

/// A word of `--faults`.
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
    let family = family.ok_or_else(|| format!("faults are all, none, {}", names()))?;
    Ok(Families(vec![family]))
}

fn hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if (0.01..=10_000.0).contains(&hours) => Ok(hours),
        _ => Err("a world has 0.01 to 10000 hours".to_owned()),
    }
}

/// What was found.
#[derive(Debug, Default, Serialize)]
struct Found {
    worlds: u64,
    virtual_seconds: f64,
    seconds: f64,
    virtual_seconds_per_second: f64,
    operations: u64,
    polls: u64,
    processes: u64,
    /// The longest that a world took to come to rest after its faults.
    rested_after_s_max: f64,
    /// The digest of the events, of one world.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// The faults that were played, of one world.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<String>,
    failures: Vec<Failed>,
}

#[derive(Debug, Serialize)]
struct Failed {
    seed: u64,
    failure: String,
    faults: Vec<String>,
    command: String,
}

/// How many worlds are played to find the fewest faults.
const SHRINK_WORLDS: usize = 200;
/// So many failures are enough to look at.
const FAILURES_MAX: usize = 10;

/// Plays the worlds, and says what was wrong in them.
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
        known(plan)?;
    }
    let verdicts = play(args, seeds);
    let mut found = summary(&verdicts, begun.elapsed().as_secs_f64());
    if let (Some(plan), Some(verdict)) = (&one, verdicts.first()) {
        found.digest = Some(verdict.digest.clone());
        found.faults = listed(plan);
    }
    let failed = verdicts.iter().filter(|verdict| verdict.failure.is_some());
    found.failures = failed.take(FAILURES_MAX).map(|verdict| explained(args, verdict)).collect();
    let format = if args.json { Format::Json } else { Format::Table };
    output::object(&format, &found, "simulation", || text(&found))?;
    match found.failures.len() {
        0 => Ok(()),
        count => Err(Failure::failed(format!("{count} of {} worlds failed", found.worlds))),
    }
}

/// Whether the faults that are chosen are there.
fn known(plan: &Plan) -> Done {
    let count = plan.faults().len();
    match plan.only.iter().flatten().find(|number| **number >= count) {
        None => Ok(()),
        Some(number) => Err(Failure::usage(format!(
            "the world of seed {} has {count} faults, numbered from 0, and no fault {number}",
            plan.seed
        ))),
    }
}

/// The faults that are played, with their numbers.
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

/// A span of so many seconds.
fn span(seconds: f64) -> Span {
    let span = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Span(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}

/// Plays every world, several at once; the verdicts by seed. Few failures are enough.
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

fn summary(verdicts: &[Verdict], seconds: f64) -> Found {
    let sum = |of: fn(&Verdict) -> u64| verdicts.iter().map(of).sum();
    let age = |verdict: &Verdict| verdict.age.to_std().as_secs_f64();
    let virtual_seconds: f64 = verdicts.iter().map(age).sum();
    let rested = verdicts.iter().filter_map(|verdict| verdict.rested_after).max();
    Found {
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

/// What is needed to see a failure again.
fn explained(args: &SimArgs, verdict: &Verdict) -> Failed {
    let plan = plan(args, verdict.seed);
    let (plan, least) = match args.no_shrink {
        true => (plan, verdict.clone()),
        false => plan.shrink(|| Records, SHRINK_WORLDS),
    };
    Failed {
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

fn text(found: &Found) -> String {
    let mut text = format!(
        "{} worlds, {} of their time in {:.1} s ({:.0} times as fast): {} operations, {} polls, {} \
         processes; at rest within {:.0} s of the last fault\n",
        found.worlds,
        span(found.virtual_seconds.round()),
        found.seconds,
        found.virtual_seconds_per_second,
        found.operations,
        found.polls,
        found.processes,
        found.rested_after_s_max,
    );
    for fault in &found.faults {
        let _infallible = writeln!(text, "fault {fault}");
    }
    if let Some(digest) = &found.digest {
        let _infallible = writeln!(text, "events {digest}");
    }
    for failed in &found.failures {
        let _infallible = writeln!(text, "\nseed {}: {}", failed.seed, failed.failure);
        for fault in &failed.faults {
            let _infallible = writeln!(text, "  fault {fault}");
        }
        let _infallible = writeln!(text, "  again: {}", failed.command);
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

//! From rows to the cell at time 0 and its churn.

use std::fmt::Write as _;

use model::{Resources, TaskIndex, Time};
use trace::PerMille;
use trace::google2011::{JobIn, Run, RunOutcome, Scale, StepKind, Trace};

/// Two machines.
const MACHINES: &str = "machine_id,cpu,memory,platform_id\n2,1,1,\n1,0.5,0.25,P1\n";
const REMOVALS: &str = "time_us,machine_id,platform_id,cpu,memory\n";
const KINDS: [&str; 9] =
    ["submit", "schedule", "evict", "fail", "finish", "kill", "lost", "pending", "running"];

/// A row for each line `SECONDS JOB/INDEX KIND [MACHINE]`: with user `u`, class 2, priority 9 and a
/// request of half a machine, unless `column=value` sets them.
fn trace(lines: &str) -> Trace {
    whole_with(REMOVALS, lines)
}

fn whole_with(removals: &str, lines: &str) -> Trace {
    let rows: Vec<String> = lines.lines().filter(|line| !line.trim().is_empty()).map(row).collect();
    let rows = rows.join("\n");
    Trace::read(Scale::default(), MACHINES.as_bytes(), removals.as_bytes(), rows.as_bytes())
        .expect("rows that can be")
}

fn row(line: &str) -> String {
    let mut words = line.split_whitespace();
    let mut word = || words.next().expect("a word");
    let (at, task, kind) = (word(), word(), word());
    let seconds: f64 = at.parse().expect("seconds");
    let (job, index) = task.split_once('/').expect("a task");
    let kind = KINDS.iter().position(|name| *name == kind).expect(kind);
    let (mut machine, mut user, mut priority, mut cpu, mut apart) = ("", "u", "9", "0.5", "0");
    for word in words {
        match word.split_once('=') {
            Some(("user", value)) => user = value,
            Some(("priority", value)) => priority = value,
            Some(("cpu", value)) => cpu = value,
            Some(("apart", value)) => apart = value,
            _ => machine = word,
        }
    }
    let memory = if cpu.is_empty() { "" } else { "0.125" };
    let at = (seconds * 1e6).round();
    format!("{at:.0},,{job},{index},{machine},{kind},{user},2,{priority},{cpu},{memory},,{apart}")
}

/// The result in words.
fn told(trace: &Trace) -> String {
    let mut text = String::new();
    let mut say = |line: String| writeln!(text, "{line}").expect("a text");
    for (job, runs) in trace.snapshot.jobs.iter().zip(&trace.churn.standing) {
        for (task, runs) in job.tasks.iter().zip(runs) {
            let machine = task.machine.map_or("pending".to_owned(), |machine| {
                format!("on {}", trace.snapshot.machines[machine].name)
            });
            say(format!("{}/{} {machine}{}", job.name, task.index, ends(runs)));
        }
    }
    for step in &trace.churn.steps {
        let at = step.at.since(Time::ZERO).0 as f64 / 1e6;
        match &step.what {
            StepKind::Remove(place) => {
                let outage = trace.churn.outages[*place];
                let machine = &trace.snapshot.machines[outage.machine].name;
                say(format!("{at}: {machine} is away for {}", outage.lasts));
            }
            StepKind::Arrive(place) => {
                let arrival = &trace.churn.arrivals[*place];
                for (task, runs) in arrival.job.tasks.iter().zip(&arrival.runs) {
                    say(format!("{at}: {}/{} comes{}", arrival.job.name, task.index, ends(runs)));
                }
            }
            StepKind::Kill { job, tasks } => {
                let job = match job {
                    JobIn::Snapshot(place) => &trace.snapshot.jobs[*place],
                    JobIn::Arrivals(place) => &trace.churn.arrivals[*place].job,
                };
                let tasks = tasks.iter().map(|place| job.tasks[*place].index.to_string());
                let tasks = tasks.collect::<Vec<_>>().join(",");
                say(format!("{at}: {}/{tasks} killed", job.name));
            }
        }
    }
    text
}

fn ends(runs: &[Run]) -> String {
    let runs = runs.iter().map(|end| {
        let how = match end.outcome {
            RunOutcome::Finished => "finished",
            RunOutcome::Failed => "failed",
            RunOutcome::Killed => "killed",
        };
        end.run.map_or(format!(", {how} before it ran"), |run| format!(", {how} after {run}"))
    });
    runs.collect()
}

/// Compares texts, ignoring indentation.
#[track_caller]
fn assert_told(trace: &Trace, expected: &str) {
    let lines = |text: &str| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(lines(&told(trace)), lines(expected));
}

#[test]
fn running_and_pending_tasks_at_time_0_form_the_snapshot() {
    let trace = trace(
        "
        0 7/3 submit
        0 7/1 submit
        0 7/3 schedule 1
        0 8/0 submit user=v
        ",
    );
    assert_told(
        &trace,
        "
        j7/1 pending
        j7/3 on m1
        j8/0 pending
        ",
    );
    let [seven, eight] = &trace.snapshot.jobs[..] else { panic!("two jobs") };
    assert_eq!((seven.owner.as_str(), eight.owner.as_str()), ("u1", "u2"));
    assert_eq!(seven.priority.to_string(), "production(200)");
    let [one, two] = &trace.snapshot.machines[..] else { panic!("two machines") };
    assert_eq!(one.capacity.to_string(), "32 cores, 64 GiB, 4 TiB disk");
    assert_eq!(two.capacity.to_string(), "64 cores, 256 GiB, 4 TiB disk");
    assert_eq!(one.attributes.get("platform").map(String::as_str), Some("P1"));
    assert_eq!(seven.tasks[0].request.to_string(), "32 cores, 32 GiB");
}

#[test]
fn a_placement_at_time_0_is_newer_than_its_submission() {
    let trace = trace(
        "
        0 7/0 submit cpu= apart=1
        0 7/1 submit cpu=0.25 apart=1
        0 7/0 schedule 1 cpu=0.125
        0 8/0 submit cpu= apart=1
        ",
    );
    let [seven, eight] = &trace.snapshot.jobs[..] else { panic!("two jobs") };
    let cores = |job: &trace::Job| job.tasks.iter().map(|t| t.request.cpu.0).collect::<Vec<_>>();
    assert_eq!((cores(seven), cores(eight)), (vec![8_000, 16_000], vec![0]));
    assert_eq!((seven.different_machines, eight.different_machines), (false, true));
    assert_eq!(trace.snapshot.dropped.tasks_without_request, 1);
}

#[test]
fn tasks_on_unknown_machines_are_left_out_until_they_are_scheduled_again() {
    let trace = trace(
        "
        0   7/0 submit
        0   7/0 schedule 99
        0   7/1 submit
        0   7/1 schedule 1
        0   8/0 submit
        0   8/0 schedule 98
        700 7/0 evict
        700 7/0 submit
        800 7/0 schedule 2
        900 7/0 finish
        ",
    );
    assert_told(
        &trace,
        "
        j7/1 on m1
        700: j7-2/0 comes, finished after 1 m 40 s
        ",
    );
    let dropped = trace.snapshot.dropped;
    assert_eq!((dropped.tasks_on_unknown_machines, dropped.unknown_machines), (2, 2));
    assert_eq!((dropped.jobs, trace.churn.counts.of_dropped_tasks), (1, 1));
}

#[test]
fn a_task_runs_for_as_long_as_its_last_run() {
    let trace = trace(
        "
        0    7/0 submit
        0    7/0 schedule 1
        0    7/1 submit
        0    7/1 schedule 1
        610  7/0 finish
        620  7/1 evict
        620  7/1 submit
        700  7/1 schedule 2
        730  7/1 finish
        800  8/0 submit
        805  8/0 schedule 1
        830  8/0 finish
        ",
    );
    assert_told(
        &trace,
        "
        j7/0 on m1, finished after 10 s
        j7/1 on m1, finished after 30 s
        800: j8/0 comes, finished after 25 s
        ",
    );
    assert_eq!(trace.churn.counts.evictions, 1);
    assert_eq!(trace.churn.until, Time(830_000_000));
}

#[test]
fn a_task_resubmitted_at_once_after_a_failure_stays_the_same_task() {
    let trace = trace(
        "
        700   7/0 submit
        700   7/0 schedule 1
        710   7/0 fail
        710   7/0 submit
        711   7/0 schedule 1
        713   7/0 kill
        713.5 7/0 submit
        720   7/0 schedule 2
        724   7/0 finish
        ",
    );
    assert_told(&trace, "700: j7/0 comes, failed after 10 s, killed after 2 s, finished after 4 s");
    assert_eq!(trace.churn.counts.restarts, 2);
}

#[test]
fn a_task_that_is_submitted_anew_is_a_job_of_its_own() {
    let trace = trace(
        "
        700   7/0 submit
        700   7/1 submit
        701   7/0 schedule 1
        701   7/1 schedule 1
        711   7/0 finish
        711.5 7/0 submit
        712   7/1 fail
        712   7/9 submit
        715   7/1 submit
        ",
    );
    assert_told(
        &trace,
        "
        700: j7/0 comes, finished after 10 s
        700: j7/1 comes, failed after 11 s
        711.5: j7-2/0 comes
        711.5: j7-2/9 comes
        715: j7-3/1 comes
        ",
    );
}

#[test]
fn tasks_that_are_killed_together_are_one_kill() {
    let trace = trace(
        "
        0     7/0 submit
        0     7/1 submit
        0     7/2 submit
        0     7/0 schedule 1
        0     7/1 schedule 1
        650   7/1 kill
        650.9 7/0 kill
        660   7/2 kill
        ",
    );
    assert_told(
        &trace,
        "
        j7/0 on m1, killed after 50.9 s
        j7/1 on m1, killed after 50 s
        j7/2 pending, killed before it ran
        650: j7/0,1 killed
        660: j7/2 killed
        ",
    );
}

#[test]
fn a_job_of_two_priorities_is_two() {
    let trace = trace("0 7/0 submit priority=9\n0 7/1 submit priority=1\n0 7/2 submit priority=9");
    assert_told(&trace, "j7/0 pending\nj7/2 pending\nj7-2/1 pending");
}

#[test]
fn rows_that_cannot_be_after_those_before_are_counted() {
    let trace = trace(
        "
        700 7/0 submit
        701 7/0 submit
        702 7/0 evict
        703 7/0 finish
        704 7/0 finish
        705 9/0 evict
        704 9/1 schedule 1
        706 9/1 schedule 1
        707 7/0 lost
        708 9/1 lost
        709 9/1 running
        709 9/2 submit
        709 9/3 submit user=v
        ",
    );
    let counts = trace.churn.counts;
    assert_eq!((counts.impossible, counts.out_of_order), (8, 1));
    assert_eq!((counts.lost, counts.updates, counts.contradicting), (1, 1, 1));
    assert_told(
        &trace,
        "
        700: j7/0 comes, finished before it ran
        703: j7/0 killed
        705: j9/1 comes
        709: j9-2/2 comes
        709: j9-2/3 comes
        ",
    );
}

#[test]
fn a_machine_returns_after_ten_minutes_or_halfway_to_its_next_removal() {
    let removals = "time_us,machine_id,platform_id,cpu,memory\n\
        5000000000,1,,,\n1000000000,1,,,\n1060000000,1,,,\n1060000000,1,,,\n1000000000,2,,,\n\
        1000000000,99,,,\n";
    let trace = whole_with(removals, "");
    assert_told(
        &trace,
        "
        1000: m1 is away for 30 s
        1000: m2 is away for 10 m
        1060: m1 is away for 10 m
        5000: m1 is away for 10 m
        ",
    );
    let counts = trace.churn.counts;
    assert_eq!((counts.removals_unknown, counts.removals_doubled), (1, 1));
}

#[test]
fn a_job_is_described_with_few_overrides() {
    let trace = trace(
        "
        0 7/1 submit cpu=0.5
        0 7/4 submit cpu=0.25
        0 7/6 submit cpu=0.25
        0 8/0 submit cpu=
        ",
    );
    let [job, empty] = &trace.snapshot.specs(PerMille(500)).collect::<Vec<_>>()[..] else {
        panic!("two jobs")
    };
    assert_eq!(job.problems(), []);
    assert_eq!((job.tasks, job.task.limit.to_string()), (3, "8 cores, 16 GiB".to_owned()));
    let first: Vec<Option<Resources>> = job.overrides.values().map(|c| c.limit).collect();
    assert_eq!(job.overrides.keys().collect::<Vec<_>>(), [&TaskIndex(0)]);
    assert_eq!(first[0].map(|limit| limit.to_string()).as_deref(), Some("16 cores, 16 GiB"));
    assert_eq!(empty.problems(), []);
    assert_eq!(empty.task.limit.to_string(), "0.001 cores, 4 MiB");
}

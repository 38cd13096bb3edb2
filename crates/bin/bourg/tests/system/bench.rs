//! The benchmarks of whole masters, with small parameters: that they run, end, leave nothing
//! behind, and print their figures. The figures are of an unoptimised build, and are not checked.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::terminal::Terminal;
use crate::tools::needs;

/// How long a benchmark may take in an unoptimised build, beside other tests.
const LASTS_MAX: Duration = Duration::from_secs(300);

/// The output of a benchmark, which has left nothing in its directory.
#[track_caller]
fn found(line: &str) -> Value {
    let terminal = Terminal::new();
    let place = terminal.path("place");
    std::fs::create_dir(&place).expect("a directory");
    let found = says(&terminal, &format!("{line} --dir {}", place.display()));
    assert!(is_empty(&place), "something is left in {}", place.display());
    found
}

#[track_caller]
fn says(terminal: &Terminal, line: &str) -> Value {
    let line = format!("bourg bench {line} --json");
    let ended = terminal.start("sh", &["-c", &line]).ends_within(LASTS_MAX);
    assert_eq!(ended.code, 0, "$ {line}\n{}{}", ended.stdout, ended.stderr);
    serde_json::from_str(&ended.stdout).expect("JSON")
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).expect("a directory").next().is_none()
}

/// All of these figures are present and above 0.
#[track_caller]
fn positive(found: &Value, keys: &[&str]) {
    for key in keys {
        assert!(found[key].as_f64().is_some_and(|number| number > 0.0), "{key} of {found:#}");
    }
}

const FSYNC: [&str; 2] = ["fsync_p50_ms", "fsync_p99_ms"];

#[test]
fn durable_changes_are_compared_with_the_disk_and_with_one_process() {
    for (replicas, clients) in [(1, 2), (3, 70)] {
        let line = format!("commit --replicas {replicas} --clients {clients} --seconds 1");
        let found = found(&line);
        assert_eq!(found["replicas"], replicas);
        assert_eq!(found["clients"], clients);
        positive(&found, &FSYNC);
        positive(&found, &["commits_per_second", "p50_ms", "p99_ms", "in_process_per_second"]);
        positive(&found, &["cpu_us_per_commit", "limit_per_second", "ratio_to_limit"]);
    }
}

#[test]
fn a_leader_that_is_killed_is_followed_by_another() {
    let found = found("failover --runs 3 --machines 20 --tasks 200");
    assert_eq!(found["runs"], 3);
    positive(&found, &["median_ms", "max_ms", "min_ms", "catch_up_median_ms"]);
    positive(&found, &FSYNC);
}

#[test]
fn borglets_are_polled_and_come_back_together() {
    let found = found("agents --agents 20 --replicas 3 --seconds 3 --away 1");
    assert_eq!(found["agents"], 20);
    positive(&found, &["polls_per_second", "poll_interval_p95_ms", "masters_resident_bytes"]);
    positive(&found, &["poll_interval_p50_ms", "bytes_per_agent", "masters_cpu_cores"]);
    positive(&found, &["extrapolated_cpu_cores_at_10000", "extrapolated_resident_bytes_at_10000"]);
    positive(&found, &FSYNC);
    positive(&found["storm"], &["all_polled_ms", "all_up_ms", "changes", "change_p99_ms"]);
}

#[test]
fn reads_are_measured_beside_polls_and_changes() {
    let found = found("reads --agents 10 --readers 8 --writers 2 --seconds 1");
    positive(&found, &["plain_p99_ms", "consistent_p99_ms", "changes_per_second"]);
    positive(&found, &["plain_per_second", "consistent_per_second", "poll_interval_p95_ms"]);
    positive(&found, &FSYNC);
}

#[test]
fn every_task_that_arrives_comes_to_run() {
    let line = "arrivals --rate 200 --seconds 2 --large 50 --agents 10 --task-seconds 1";
    let found = found(line);
    positive(&found, &["started_per_second", "start_p50_ms", "start_p99_ms"]);
    positive(&found, &["masters_cpu_us_per_task"]);
    positive(&found, &FSYNC);
    let count = |key: &str| found[key].as_u64().expect("a number");
    let (jobs, tasks) = (count("jobs"), count("tasks"));
    assert!(tasks >= 400, "{found:#}");
    // Three quarters of the jobs have one task.
    let large = (tasks - jobs) / 49;
    assert_eq!(jobs + 49 * large, tasks, "{found:#}");
    assert!(large * 4 <= jobs && jobs <= large * 4 + 3, "{large} are large: {found:#}");
}

#[test]
fn one_borglet_is_measured_by_sections() {
    let sizes = "--tasks 20 --checked 3 --log-mib 64 --idle-seconds 2 --usage-tasks 2000";
    let found = found(&format!("borglet {sizes}"));
    let starts = &found["starts"];
    positive(starts, &["per_second", "cpu_ms_per_start", "borglet_cpu_ms_per_start"]);
    positive(
        starts,
        &["bare_cpu_ms_per_start", "bare_per_second", "ratio_to_bare", "ends_seconds"],
    );
    for checks in ["checks_during_starts", "checks_during_ends"] {
        assert_eq!(starts[checks]["tasks"], 3);
        assert_eq!(starts[checks]["failed"], 0, "{starts:#}");
    }
    let logs = &found["logs"];
    assert_eq!(logs["lines"], (64 << 20) / 64_000 * 1_000);
    positive(logs, &["mb_per_second", "cpu_s_per_gb", "page_cache_mb_per_second", "kept_lines"]);
    let idle = &found["idle"];
    positive(idle, &["resident_mib", "proportional_mib", "private_mib", "core_percent"]);
    positive(&found["leader"], &["resident_mib", "samples_us_per_machine", "us_per_window"]);
}

#[test]
fn a_server_answers_beside_batch_tasks() {
    let found = found("isolation --pairs 1 --seconds 1 --rate 200");
    for mode in ["shares", "exclusive"] {
        for what in ["alone", "beside"] {
            let measured = &found[mode][what];
            assert_eq!(measured["requests"], 200, "{found:#}");
            positive(measured, &["p50_us", "p99_us", "max_us"]);
        }
        positive(&found[mode], &["p99_ratio", "p99_ratio_min", "p99_ratio_max"]);
    }
}

#[test]
fn packages_are_measured_by_parts() {
    needs("/bin/busybox", "busybox-static");
    let mut terminal = Terminal::new();
    let place = terminal.path("place");
    std::fs::create_dir(&place).expect("a directory");
    terminal.set("TMPDIR", place.clone());
    let sizes =
        "--image-mib 8 --files 200 --runs 2 --machines 2 --package-mib 3 --packages 500 --users 50";
    let found = says(&terminal, &format!("packages {sizes}"));
    assert!(is_empty(&place), "something is left in {}", place.display());
    positive(&found["import"], &["plain_mb_per_second", "gzip_mb_per_second"]);
    positive(&found["import"], &["sha256sum_mb_per_second", "gzip_dc_mb_per_second"]);
    let upload = &found["upload"];
    assert_eq!((&upload["files"], &upload["changed_files"]), (&200.into(), &2.into()));
    // Two files of 64 KiB and the list of all files, of 13 MB.
    let share = upload["sent_share"].as_f64().expect("a number");
    assert!(share > 0.009 && share < 0.03, "{upload:#}");
    positive(&found["start"], &["with_image_ms", "without_image_ms", "ratio"]);
    let fetch = &found["fetch"];
    positive(fetch, &["seconds"]);
    // Each machine has the package, and no machine has it twice.
    let copies = fetch["copies"].as_f64().expect("a number");
    assert!(copies > 0.9 && copies < 2.1, "{fetch:#}");
    assert_eq!(
        (&found["memory"]["packages"], &found["memory"]["held"]),
        (&500.into(), &true.into())
    );

    let only = says(&terminal, "packages --part memory --packages 100 --users 10");
    let parts: Vec<&String> = only.as_object().expect("an object").keys().collect();
    assert_eq!(parts, ["memory"]);
}

#[test]
fn files_and_secrets_are_measured() {
    let terminal = Terminal::new();
    let found = says(&terminal, "files --runs 2 --jobs 50");
    positive(&found["secret"], &["with_secret_ms", "without_secret_ms"]);
    assert_eq!((&found["memory"]["jobs"], &found["memory"]["held"]), (&50.into(), &true.into()));
    let only = says(&terminal, "files --part memory --jobs 10 --file-kib 1");
    let parts: Vec<&String> = only.as_object().expect("an object").keys().collect();
    assert_eq!(parts, ["memory"]);
}

#[test]
fn each_page_of_a_cell_is_measured_and_viewers_see_changes() {
    let size = "--machines 30 --tasks 300 --poll-seconds 1";
    let found = found(&format!("sigma {size} --viewers 10 --rate 11 --seconds 2"));
    let pages = found["pages"].as_array().expect("pages");
    let names: Vec<&str> = pages.iter().filter_map(|page| page["page"].as_str()).collect();
    let kinds = "cell jobs job task machines machine pending why users names events";
    assert_eq!(names.join(" "), kinds);
    for page in pages {
        positive(page, &["requests", "p50_ms", "p99_ms", "max_ms", "bytes", "compressed_bytes"]);
        positive(page, &["server_p50_ms", "server_p99_ms"]);
    }
    positive(
        &found,
        &["page_server_p99_ms", "page_p99_ms", "cell_page_bytes", "cell_page_compressed_bytes"],
    );
    positive(&found, &["masters_cores_alone", "masters_cores_pages", "masters_cores_viewers"]);
    positive(&found, &["events_per_viewer_second", "bytes_per_viewer_second"]);
    positive(&found, &["rendered_per_viewer_second", "page_p99_with_viewers_ms"]);
    positive(&found, &["tasks_started_per_second", "masters_resident_bytes"]);
    positive(&found, &FSYNC);
}

/// Those that have a test of their own above, and the one below.
const ALONE: [&str; 11] = [
    "agents",
    "arrivals",
    "borglet",
    "commit",
    "failover",
    "files",
    "isolation",
    "packages",
    "reads",
    "sigma",
    "sim",
];
/// The others, with small parameters and their figures.
const IN_SMALL: [(&str, &[&str]); 15] = [
    ("start --runs 2", &["median_ms", "p99_ms", "min_ms", "max_ms", "runs", "exec_median_ms"]),
    (
        "fanout --machines 8 --size 4MiB",
        &["store_only_copies", "tree_seconds", "swarm_copies", "swarm_seconds"],
    ),
    ("recovery --operations 2000", &["operations", "log_bytes", "operations_per_second"]),
    ("history --operations 2000", &["operations", "log_bytes"]),
    ("cell --machines 100 --tasks 1000", &["placed", "accepted", "passes"]),
    ("pack --machines 60 --tasks 500 --orders 2", &["machines", "tasks", "peak_rss_bytes"]),
    ("placement --machines 60 --jobs 150 --packages 12", &["machines", "jobs", "packages"]),
    ("queue --tasks 2000 --users 20 --passes 50", &["tasks", "users", "jobs", "passes"]),
    (
        "why --machines 100 --tasks 1000 --repetitions 2 --shapes",
        &["machines", "placed", "answer_ms"],
    ),
    ("pass --machines 100 --tasks 1000 --passes 10", &["passes", "arrivals", "placements"]),
    ("update --machines 60 --tasks 300 --updated 50 --at-once 5 --plans 2", &["machines", "tasks"]),
    ("names --machines 50 --tasks 500 --changes 20", &["jobs", "tasks", "operations", "largest"]),
    (
        "resolver --machines 50 --tasks 500 --misses 20 --changes 5 --watchers 10 --seconds 1",
        &["miss_p50_ms", "visible_p50_ms", "watched_changes", "messages"],
    ),
    ("apply --machines 50 --tasks 500 --operations 2000", &["operations", "state_bytes"]),
    (
        "estimate --machines 50 --tasks 500 --hours 1",
        &["round_ms_median", "reserve_bytes_an_hour", "used_percent", "reserved_percent"],
    ),
];

#[test]
fn every_other_benchmark_runs_in_small_and_leaves_nothing() {
    for (line, keys) in IN_SMALL {
        let mut terminal = Terminal::new();
        let place = terminal.path("place");
        std::fs::create_dir(&place).expect("a directory");
        terminal.set("TMPDIR", place.clone());
        positive(&says(&terminal, line), keys);
        assert!(is_empty(&place), "{line} leaves something in {}", place.display());
    }
}

#[test]
fn no_benchmark_is_without_a_test() {
    let help = Terminal::new().ok("bourg bench --help");
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let commands = commands.filter_map(|line| line.split_whitespace().next());
    let commands: BTreeSet<&str> = commands.filter(|command| *command != "help").collect();
    let small = IN_SMALL.iter().filter_map(|(line, _)| line.split_whitespace().next());
    assert_eq!(commands, small.chain(ALONE).collect());
}

#[test]
fn cells_are_simulated() {
    // Unoptimized, three replicas take half a minute of one core.
    let found = says(&Terminal::new(), "sim --minutes 1 --replicas 1 --poll-interval 10");
    assert_eq!(found["replicas"], 1);
    positive(&found, &["polls_per_second", "poll_interval_p95_s", "virtual_seconds_per_second"]);
    assert_eq!(found["campaign"]["failures"], 0);
}

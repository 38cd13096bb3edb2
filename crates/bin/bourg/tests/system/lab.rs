//! The paper's experiments, with small inputs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::terminal::Terminal;

/// `bourg lab estimator` with these options, as JSON.
#[track_caller]
fn found(terminal: &Terminal, line: &str) -> Value {
    let said = terminal.ok(&format!("bourg lab estimator {line} --json"));
    serde_json::from_str(&said).expect("JSON")
}

const SMALL: &str = "--requests 2019-a --tasks 60 --hours 2 --orders 0";
const HEADER: &str = "task,priority,started_us,start_us,end_us,cpu_limit_milli,ram_limit_bytes,\
    cpu_avg_milli,cpu_max_milli,ram_avg_bytes,ram_max_bytes";

/// Two hours of a service that uses a tenth of its limit, and of batch tasks that use half of
/// theirs.
fn recorded() -> String {
    let mut table = format!("{HEADER}\n");
    for window in 0..24_u64 {
        let (start, end) = (window * 300_000_000, (window + 1) * 300_000_000);
        let line = format!("ana/web/0,200,0,{start},{end},40000,100000,4000,8000,10000,10000");
        writeln!(table, "{line}").expect("a line");
        let line = format!("ana/count/0,25,,{start},{end},4000,10000,2000,4000,5000,5000");
        writeln!(table, "{line}").expect("a line");
    }
    table
}

#[test]
fn drawn_usage_is_replayed_with_every_setting_deterministically_by_seed() {
    let terminal = Terminal::new();
    for shape in ["calibrated", "calibrated-2011", "bursty", "steps", "leaking"] {
        let line = format!("{SMALL} --shape {shape} --synthetic --seed 3");
        let first = found(&terminal, &line);
        assert_eq!(found(&terminal, &line), first, "{shape}");
        let settings = first["settings"].as_array().expect("settings");
        let names: Vec<_> = settings.iter().filter_map(|one| one["setting"].as_str()).collect();
        assert_eq!(names, ["off", "baseline", "medium", "aggressive"]);
        for of in settings.iter().chain(first["memory_alone"].as_array().expect("settings")) {
            for never in [
                "production_killed_within_limit",
                "reservations_above_limit",
                "reservations_below_usage_after_a_round",
                "rejected_samples",
            ] {
                assert_eq!(of[never], 0, "{shape}: {never}: {of:#}");
            }
        }
        let reserved = |nth: usize| {
            settings[nth]["production_reservation_percent"]["ram"].as_f64().expect("a number")
        };
        assert!((reserved(0) - 100.0).abs() < 0.01, "off: {}", reserved(0));
        assert!(reserved(0) >= reserved(1) && reserved(1) >= reserved(2), "{first:#}");
        assert!(reserved(2) >= reserved(3), "{first:#}");
    }
    let other = found(&terminal, &format!("{SMALL} --seed 4"));
    assert_ne!(other["settings"], found(&terminal, &format!("{SMALL} --seed 3"))["settings"]);
    let said = terminal.ok(&format!("bourg lab estimator {SMALL}"));
    assert!(
        said.starts_with("calibrated synthetic usage in the shape calibrated, seed 1; "),
        "{said}"
    );
    assert!(said.contains("about 20 % in a median cell"), "{said}");
    assert!(said.contains("\nWhat the data could not carry:\n- "), "{said}");
}

#[test]
fn figures_are_written_as_csv_and_as_svg_without_scripts() {
    let terminal = Terminal::new();
    let (csv, svg) = (terminal.path("csv"), terminal.path("a/b/svg"));
    let line = format!(
        "--requests 2019-a --tasks 60 --setting baseline --hours 1 --csv {} --svg {}",
        csv.display(),
        svg.display()
    );
    let report = found(&terminal, &line);
    let cells = report["machines_needed"].as_array().expect("cells");
    assert_eq!(cells.len(), 9);
    for cell in cells {
        let needed = |of: &Value| of.as_u64().expect("a number");
        assert!(needed(&cell["with"][0]["machines"]) <= needed(&cell["without"]), "{cell:#}");
    }
    let read = |path: &Path| std::fs::read_to_string(path).expect("a file");
    for (name, header, lines) in [
        ("timeline.csv", "machines,start_s,setting,", 1 + 2 * 12),
        ("distributions.csv", "setting,ratio,of_limit_permille,share_permille", 1 + 4 * 401),
        ("machines.csv", "cell,tasks,setting,machines,machines_without", 1 + 9),
    ] {
        let text = read(&csv.join(name));
        assert!(text.starts_with(header), "{name}: {text}");
        assert_eq!(text.lines().count(), lines, "{name}");
        let columns = header
            .matches(',')
            .count()
            .max(text.lines().next().map_or(0, |line| line.matches(',').count()));
        assert!(text.lines().all(|line| line.matches(',').count() == columns), "{name}");
    }
    for name in ["figure-10.svg", "figure-11.svg", "figure-12.svg"] {
        let text = read(&svg.join(name));
        assert!(text.starts_with("<svg xmlns=") && text.ends_with("</svg>\n"), "{name}");
        assert!(!text.contains("<script") && text.contains("polyline"), "{name}");
    }
}

#[test]
fn recorded_usage_is_replayed_gzipped_too_and_settings_follow_each_other() {
    let terminal = Terminal::new();
    let path = terminal.path("usage.csv");
    std::fs::write(&path, recorded()).expect("a file");
    let zipped = terminal.path("usage.csv.gz");
    let status = std::process::Command::new("sh")
        .args(["-c", "gzip -c \"$0\" > \"$1\""])
        .args([&path, &zipped])
        .status();
    assert!(status.expect("gzip runs").success());
    let machine = "--machines 1 --machine-cpu 50 --machine-ram 100000";
    let read = |path: &Path| found(&terminal, &format!("--usage {} {machine}", path.display()));
    let plain = read(&path);
    assert_eq!(read(&zipped)["settings"], plain["settings"]);
    let of = |nth: usize| &plain["settings"][nth];
    // The service's limit is all of the memory: without reclamation nothing else runs.
    assert_eq!(of(0)["task_hours"], 2.0);
    assert_eq!(of(0)["work_in_reclaimed_percent"], 0.0);
    assert!(of(1)["task_hours"].as_f64().is_some_and(|hours| hours > 4.0), "{plain:#}");
    assert_eq!(of(1)["production_usage_percent"]["ram"], 10.0);
    let line = format!(
        "--usage {} {machine} --hours 2 --schedule baseline,aggressive,medium,baseline",
        path.display()
    );
    let schedule = found(&terminal, &line);
    let settings = schedule["settings"].as_array().expect("settings");
    let names: Vec<_> = settings.iter().filter_map(|one| one["setting"].as_str()).collect();
    assert_eq!(names, ["baseline", "aggressive", "medium", "baseline"]);
}

#[test]
fn an_invalid_table_is_reported_and_no_output_is_written() {
    let terminal = Terminal::new();
    let path = terminal.path("usage.csv");
    let shown = path.display();
    let csv = terminal.path("csv");
    let write = |bytes: &[u8]| {
        let mut file = std::fs::File::create(&path).expect("a file");
        file.write_all(bytes).expect("bytes");
    };
    let line = "a,200,,0,300000000,1000,8192,10,20,10,20";
    let cases: [(String, &str); 6] = [
        (String::new(), "line 1: must be the names of the columns"),
        (format!("{HEADER}\n"), "line 1: no usage follows the header"),
        (format!("{HEADER}\n{line}\na,200\n"), "line 3: has 2 columns, and must have 11"),
        (format!("{HEADER}\n{line}\n{line}\n"), "line 3: windows of a task must be in the order"),
        (format!("{HEADER}\n{}\n", line.replace(",10,20,10", ",NaN,20,10")), "is 'NaN'"),
        (format!("{HEADER}\n{}\n", line.replace(",10,20,10", ",-1,20,10")), "is '-1'"),
    ];
    for (table, told) in cases {
        write(table.as_bytes());
        let command = format!("bourg lab estimator --usage {shown} --csv {}", csv.display());
        let said = terminal.fails(2, &command);
        assert!(said.contains(told) && said.contains("usage.csv, line "), "{told}: {said}");
        assert!(said.contains("next: "), "{said}");
    }
    // The beginning of a gzipped file.
    write(&[0x1f, 0x8b, 8, 0, 0, 0]);
    let said = terminal.fails(2, &format!("bourg lab estimator --usage {shown}"));
    assert!(said.contains("line 1: cannot be read: "), "{said}");
    assert!(!csv.exists());
    for (options, told) in [
        ("--usage /nowhere/usage.csv", "cannot read /nowhere/usage.csv"),
        ("--setting fast", "use one of off, baseline, medium, aggressive"),
        ("--schedule baseline,fast", "use one of off, baseline, medium, aggressive"),
        ("--shape square", "use calibrated, calibrated-2011, bursty, steps or leaking"),
        ("--requests 2019-z", "use 2011, 2019-a"),
        ("--tasks 100", "add --requests 2019-a"),
        ("--every 0s", "must be 1s to 5m"),
        ("--every 301s", "must be 1s to 5m"),
        ("--hours 0", "1..=1000"),
        ("--machines 3", "--usage"),
        ("--usage x.csv --shape steps", "cannot be used with"),
        ("--setting off --schedule baseline", "cannot be used with"),
    ] {
        let said = terminal.fails(2, &format!("bourg lab estimator {options}"));
        assert!(said.contains(told), "{options}: {said}");
    }
}

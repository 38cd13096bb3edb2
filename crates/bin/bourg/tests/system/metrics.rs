//! The metrics of a cell's processes: read by curl, by promtool, and by a real Prometheus, and
//! compared with the guide.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cell::Cell;
use crate::enrolment::free_address;
use crate::eventually::{PATIENCE, until};
use crate::pages::{Of, fed, metrics, value, value_is};
use crate::tools::needs;

/// A job of three tasks in the free band.
fn run_hello(cell: &Cell) {
    cell.write(
        "hello.bcl",
        "local borg = import 'borg.libsonnet';
         borg.service('hello', tasks=3, cmd=['bourg', 'example-server', '--port', borg.port('http')])
         { cpu: 0.1, ram: '64 MiB', priority: 'free' }",
    );
    cell.ok("bourg run hello.bcl");
}

#[test]
fn metrics_count_the_events_of_a_cell() {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    let cell = Cell::start();
    run_hello(&cell);
    let running = "bourg_tasks{state=\"running\",band=\"free\"}";
    value_is(&cell, Of::Master, running, 3.0);
    value_is(&cell, Of::Master, "bourg_machines{state=\"up\"}", 1.0);
    value_is(&cell, Of::Borglet, "bourg_borglet_tasks{state=\"healthy\"}", 3.0);
    cell.ok("bourg kill hello");
    value_is(&cell, Of::Master, "bourg_tasks{state=\"dead\",band=\"free\"}", 3.0);
    value_is(&cell, Of::Master, running, 0.0);

    let (master, borglet) = (metrics(&cell, Of::Master), metrics(&cell, Of::Borglet));
    let submit = "{method=\"bourg.v1.Jobs/Submit\",class=\"ok\"}";
    let submitted = format!("bourg_request_duration_seconds_count{submit}");
    assert_eq!(value(&master, &submitted), Some(1.0), "{master}");
    let index = value(&master, "bourg_applied_index");
    for (name, expected) in [
        ("bourg_leads", Some(1.0)),
        ("bourg_term", Some(1.0)),
        ("bourg_commit_index", index),
        ("bourg_log_records_total", index),
        ("bourg_elections_won_total", Some(1.0)),
        ("bourg_leaderships_lost_total", Some(0.0)),
        ("bourg_apply_batch_operations_sum", index),
        ("bourg_schedulers", Some(1.0)),
        ("bourg_jobs", Some(1.0)),
        ("bourg_contradictions", Some(0.0)),
        ("bourg_events_lost_total", Some(0.0)),
        ("bourg_waiting_requests", Some(0.0)),
        ("bourg_queue_length{queue=\"core\"}", Some(0.0)),
        // A new cell has none.
        ("bourg_checkpoint_age_seconds", None),
    ] {
        assert_eq!(value(&master, name), expected, "{name} in\n{master}");
    }
    for name in [
        "bourg_step_duration_seconds_count",
        "bourg_commit_duration_seconds_count",
        "bourg_fsync_duration_seconds_count",
        "bourg_log_bytes",
        "bourg_log_segments",
        "bourg_log_written_bytes_total",
        "bourg_events_written_total",
        "bourg_polls_total",
        "bourg_proposals_total",
        "bourg_assignments_accepted_total",
        "bourg_sessions",
    ] {
        assert!(value(&master, name) > Some(0.0), "{name} in\n{master}");
    }
    for name in ["bourg_borglet_polls_total", "bourg_borglet_orders_obeyed_total"] {
        assert!(value(&borglet, name) > Some(0.0), "{name} in\n{borglet}");
    }
    for text in [&master, &borglet] {
        let started = value(text, "bourg_process_start_time_seconds").expect("it is there");
        let after = started - since.as_secs_f64();
        assert!((-1.0..PATIENCE.as_secs_f64()).contains(&after), "{after} s after the test began");
    }
    for name in [
        "bourg_process_resident_memory_bytes",
        "bourg_process_cpu_seconds_total",
        "bourg_process_open_fds",
    ] {
        for text in [&master, &borglet] {
            assert!(value(text, name) > Some(0.0), "{name} in\n{text}");
        }
    }
}

#[test]
fn only_usage_metrics_name_users_or_jobs_and_none_name_machines() {
    let cell = Cell::start();
    run_hello(&cell);
    let machine = cell.ok("bourg machines -o name");
    for of in [Of::Master, Of::Borglet] {
        let text = metrics(&cell, of);
        for name in ["root", "hello", machine.trim()] {
            // How many jobs usage names is bounded.
            let is_usage = |line: &str| line.starts_with("bourg_job_");
            let named = text.lines().filter(|line| !is_usage(line)).find(|line| {
                !line.starts_with('#') && line.split('"').skip(1).step_by(2).any(|is| is == name)
            });
            assert_eq!(named, None, "{of:?}");
        }
    }
}

#[test]
fn promtool_has_nothing_to_say_about_what_is_exported() {
    needs("promtool", "prometheus");
    let cell = Cell::start();
    run_hello(&cell);
    for of in [Of::Master, Of::Borglet] {
        let text = metrics(&cell, of);
        assert_eq!(fed(&cell, "promtool check metrics 2>&1", &text), "", "{of:?}");
    }
}

#[test]
fn a_prometheus_with_a_certificate_scrapes_the_master_and_the_machine() {
    needs("prometheus", "prometheus");
    let cell = Cell::start();
    cell.ok("bourg user add prometheus");
    let of = |job: &str, of: Of| {
        let (name, address) = (of.server_name(), of.address(&cell));
        format!(
            "  - job_name: {job}\n    scheme: https\n    tls_config:\n      ca_file: \
             prometheus/user.ca.pem\n      cert_file: prometheus/user.pem\n      key_file: \
             prometheus/user.key\n      server_name: {name}\n    static_configs: [{{ targets: \
             ['{address}'] }}]\n"
        )
    };
    cell.write(
        "prometheus.yml",
        format!(
            "global: {{ scrape_interval: 1s }}\nscrape_configs:\n{}{}",
            of("master", Of::Master),
            of("borglet", Of::Borglet)
        ),
    );
    let web = free_address();
    let listen = format!("--web.listen-address={web}");
    let flags = ["--config.file=prometheus.yml", "--storage.tsdb.path=series", &listen];
    let prometheus = cell.start("prometheus", &flags);
    let asks =
        |query: &str| cell.types(&format!("promtool query instant http://{web} '{query}'")).stdout;
    until("both targets are up", || {
        let is = |job: &str| asks(&format!("up{{job=\"{job}\"}}")).contains("=> 1 @");
        is("master") && is("borglet")
    });
    assert!(asks("bourg_leads").contains("job=\"master\"} => 1 @"), "{}", prometheus.stderr());
    let machines = asks("bourg_machines{state=\"up\"}");
    assert!(machines.contains("=> 1 @"), "{machines}");
}

/// The tables of the guide match the exported metrics and their help texts.
#[test]
fn the_guide_has_every_metric_with_its_meaning() {
    let cell = Cell::start();
    run_hello(&cell);
    cell.ok("bourg checkpoint save saved");
    let guide = include_str!("../../../../../docs/metrics.md");
    for (of, title) in [(Of::Master, "### Of a master"), (Of::Borglet, "### Of a Borglet")] {
        if let Of::Master = of {
            until("the job is measured", || metrics(&cell, of).contains("bourg_job_cpu_cores{"));
        } else {
            let machine = cell.ok("bourg machines -o name").trim().to_owned();
            let directory = cell.path("volume");
            std::fs::create_dir(&directory).expect("a directory");
            cell.ok(&format!("bourg machine volume add {machine} data {}", directory.display()));
            let volume = "{ name: 'keeper', cmd: ['true'], cpu: 0.1, ram: '16 MiB', priority: 'free', \
                          restart: 'never', volumes: [{ volume: 'data', path: '/data' }] }";
            cell.write("keeper.bcl", volume);
            cell.ok("bourg run keeper.bcl --wait");
            until("a volume is measured", || metrics(&cell, of).contains("volume=\"data\""));
        }
        let exported = table(&metrics(&cell, of));
        let (_, section) = guide.split_once(title).expect("the guide has its section");
        let section = section.split("\n#").next().unwrap_or_default();
        let lines = section.lines().filter(|line| line.starts_with("| `"));
        let said: Vec<&str> = lines.collect();
        let exported: Vec<&str> = exported.lines().collect();
        assert_eq!(said, exported, "below {title:?} must be\n{}", exported.join("\n"));
    }
}

/// The metrics as rows of a table: name, type, labels, meaning.
fn table(metrics: &str) -> String {
    let mut labels: BTreeMap<&str, String> = BTreeMap::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, rest)) = line.split_once('{') else { continue };
        let words = rest.split('"').step_by(2).map(|word| word.trim_matches([',', '=', '}', ' ']));
        let words = words.filter(|word| word.chars().all(|c| c.is_ascii_lowercase()));
        let words =
            words.filter(|word| !word.is_empty() && *word != "le").map(|w| format!("`{w}`"));
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let words: Vec<String> = words.collect();
        labels.insert(family.unwrap_or(name), words.join(", "));
    }
    let mut rows: Vec<String> = Vec::new();
    let mut help = "";
    for line in metrics.lines() {
        if let Some((_, text)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            help = text;
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|r| r.split_once(' ')) {
            let of = labels.get(name).filter(|of| !of.is_empty()).map_or("–", String::as_str);
            rows.push(format!("| `{name}` | {kind} | {of} | {help} |"));
        }
    }
    rows.sort();
    rows.join("\n")
}

#[test]
fn a_row_of_the_table_says_all_of_a_metric() {
    let text = "# HELP a_seconds How long.\n# TYPE a_seconds histogram\n\
                a_seconds_bucket{le=\"1.0\",method=\"x/Y\",class=\"ok\"} 1\n\
                a_seconds_count{method=\"x/Y\",class=\"ok\"} 1\n\
                # HELP leads Whether.\n# TYPE leads gauge\nleads 0\n";
    let expected = "| `a_seconds` | histogram | `method`, `class` | How long. |\n\
                    | `leads` | gauge | – | Whether. |";
    assert_eq!(table(text), expected);
}

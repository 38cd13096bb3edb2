//! Where the time of the starts of tasks goes.

use std::fs::{create_dir_all, write};

use crate::cell::Cell;

/// A part of the start of a job's only task, in seconds; `None` if it is not known.
fn part(cell: &Cell, job: &str, part: &str) -> Option<f64> {
    let status = cell.status(job);
    let took = status["tasks"][0]["startLatency"][part].as_str()?;
    Some(took.trim_end_matches('s').parse().expect("seconds"))
}

/// Submits a batch job with one task.
fn run(cell: &Cell, name: &str, more: &str) {
    let job = format!(
        "(import 'borg.libsonnet').batch('{name}', cmd=['sleep', '1000']) \
         {{ tasks: 1, cpu: 0.1, ram: '16 MiB', {more} }}"
    );
    cell.write(&format!("{name}.bcl"), job);
    cell.ok(&format!("bourg run --detach {name}.bcl"));
    cell.is_healthy(name);
}

#[test]
fn a_package_takes_time_once() {
    let cell = Cell::start();
    create_dir_all(cell.path("app")).expect("it is made");
    let data: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
    write(cell.path("app/data"), data).expect("it is written");
    cell.ok("bourg package build app --name app --version 1");

    let with_package = "packages: ['app@1']";
    run(&cell, "first", with_package);
    run(&cell, "second", with_package);
    let fetched = part(&cell, "first", "fetch").expect("it was measured");
    assert!(fetched > 0.0, "{fetched} s");
    assert_eq!(part(&cell, "second", "fetch"), Some(0.0), "it was there");
    for job in ["first", "second"] {
        for known in ["queue", "decide", "start"] {
            let took = part(&cell, job, known).expect(known);
            assert!((0.0..600.0).contains(&took), "{known} of {job}: {took} s");
        }
        assert_eq!(part(&cell, job, "healthy"), None, "{job} has no health check");
    }

    let wide = cell.ok("bourg status first -o wide");
    let heading = "TASK  QUEUE ";
    assert!(
        wide.contains("where the time of the starts went:\n") && wide.contains(heading),
        "{wide}"
    );
    let one = cell.ok("bourg status first/0");
    assert!(one.contains("task 0 started in ") && one.contains(", fetch "), "{one}");
    let narrow = cell.ok("bourg status first");
    assert!(!narrow.contains("started in ") && !narrow.contains("QUEUE"), "{narrow}");
    let start = cell.ok("bourg events first/0 | grep START");
    for known in ["queue ", "decide ", "fetch ", "start "] {
        assert!(start.contains(known), "{start}");
    }
    let events = cell.ok("bourg events second/0 -o json | grep '\"start\"'");
    assert!(events.contains("\"fetch\":\"0s\""), "{events}");
}

#[test]
fn a_health_check_shows_how_long_it_took_to_succeed() {
    let cell = Cell::start();
    // It becomes healthy a second after its program runs.
    let check = "healthCheck: { exec: ['test', '-e', 'ready'], interval: '100 ms', failures: 100 }";
    let job = format!(
        "(import 'borg.libsonnet').batch('web', \
         cmd=['sh', '-c', 'sleep 1; touch ready; sleep 1000']) \
         {{ tasks: 1, cpu: 0.1, ram: '16 MiB', {check} }}"
    );
    cell.write("web.bcl", job);
    cell.ok("bourg run --detach web.bcl");
    cell.is_healthy("web");
    let took = part(&cell, "web", "healthy").expect("it was measured");
    assert!((0.9..120.0).contains(&took), "{took} s");
    let healthy = cell.ok("bourg events web/0 | grep HEALTHY");
    assert!(healthy.contains("after 1") || took >= 2.0, "{healthy}");
    let field = cell.ok("bourg status web -o tasks.0.startLatency.healthy");
    assert!(field.trim().ends_with('s'), "{field}");
}

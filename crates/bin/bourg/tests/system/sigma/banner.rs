//! How long it takes until a page that is open shows what needs attention.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::{link, origin};
use crate::cell::Cell;
use crate::tools::needs;

/// From the third failure of a task to the page that names it.
const MOST: Duration = Duration::from_secs(1);

#[test]
fn the_open_page_of_the_cell_shows_a_problem_within_a_second() {
    needs("curl", "curl");
    let cell = Cell::start();
    let first = link(&cell, None);
    let used =
        "curl --silent --show-error --fail --cacert cell/client/user.ca.pem --cookie-jar jar";
    cell.ok(&format!("{used} --request POST '{first}'"));
    let directory = cell.path("");
    let mut curl = Command::new("curl")
        .args(["--silent", "--show-error", "--no-buffer", "--max-time", "60"])
        .args(["--cacert", "cell/client/user.ca.pem", "--cookie", "jar"])
        .arg(format!("{}/live?page=/", origin(&first)))
        .current_dir(directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl starts");
    let events = BufReader::new(curl.stdout.take().expect("its output"));
    let mut lines = events.lines().map(|line| line.expect("a line of the page's events"));
    assert!(lines.any(|line| line.contains("Nothing is wrong.")), "the page is open");

    cell.write(
        "crashes.bcl",
        "(import 'borg.libsonnet').service('crashes', cmd=['false']) { cpu: 0.1, ram: '16 MiB' }",
    );
    cell.ok("bourg run crashes.bcl --detach");
    assert!(lines.any(|line| line.contains("ends again and again")), "the page names it");
    let shown = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    curl.kill().expect("it runs");
    curl.wait().expect("it has ended");

    let failures: Vec<Value> = cell
        .ok("bourg events crashes -o json")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .filter(|event: &Value| event["fail"].is_object())
        .collect();
    let third = failures.get(2).unwrap_or_else(|| panic!("three failures: {failures:?}"));
    let third = third["time"].as_str().and_then(|time| time.parse().ok()).expect("its time");
    let took = shown.saturating_sub(Duration::from_micros(third));
    println!("from the third failure to the page: {} ms", took.as_millis());
    assert!(took < MOST, "{took:?}");
}

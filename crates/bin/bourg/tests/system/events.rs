//! Events: shown, filtered, followed across a master's restart, and neither lost nor duplicated.

use api::v1;
use client::MasterClient;
use nix::sys::signal::Signal;
use serde_json::Value;
use tonic::Code;

use crate::cell::{Cell, Role};
use crate::eventually::{PATIENCE, until};
use crate::grown::Grown;
use crate::pages::{Of, metrics, value, value_is};
use crate::security::{issued, to, wait};
use crate::{processes, relations};

/// A job that stays pending: there is no machine.
const JOB: &str = "(import 'borg.libsonnet').batch('audited', cmd=['true']) { priority: 'free' }";

/// The names of events, each with its subject's task or job: `SUBMIT web/0`.
fn names(lines: &str) -> Vec<String> {
    let name = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Date, time, subject, name.
        format!("{} {}", words[3], words[2].trim_start_matches("root/"))
    };
    lines.lines().map(name).collect()
}

/// Every stored event, by its name in the log.
fn all(cell: &Cell) -> Vec<(u64, u64, Value)> {
    let text = cell.ok("bourg events --all -o json");
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let index = event["index"].as_str().expect("a number").parse().expect("a number");
        (index, event["subIndex"].as_u64().expect("a number"), event)
    };
    text.lines().map(event).collect()
}

/// More events than fit in the queue, generated at once by a replay of the log.
#[test]
fn events_that_are_there_are_not_called_lost_after_a_restart() {
    let cell = Cell::start();
    let names: Vec<String> = (0..8).map(|number| format!("large-{number}")).collect();
    for name in &names {
        let text = format!(
            "(import 'borg.libsonnet').batch('{name}', tasks=100000, cmd=['true'])
               {{ cpu: 1000, priority: 'free' }}"
        );
        cell.write("large.bcl", text);
        cell.ok("bourg run --detach large.bcl");
    }
    cell.ok(&format!("bourg kill --detach {}", names.join(" ")));
    let written = || value(&metrics(&cell, Of::Master), "bourg_events_written_total");
    until("all are written", || written().is_some_and(|events| events >= 1.6e6));
    cell.kill(Role::Master);
    until("it answers again", || cell.types("bourg cell").code == 0);
    value_is(&cell, Of::Master, "bourg_events_waiting_bytes", 0.0);
    value_is(&cell, Of::Master, "bourg_events_lost_total", 0.0);
    assert!(!cell.said().contains("could not be kept"), "{}", cell.said());
    // Later events are stored, too.
    cell.ok("bourg run $EXAMPLES/hello.bcl --detach");
    until("it is written", || cell.ok("bourg events hello -n 1").contains(" root/hello"));
}

#[test]
fn a_life_cycle_is_told_step_by_step_with_who_did_it() {
    let cell = Cell::start();
    cell.write(
        "jobs.bcl",
        "local borg = import 'borg.libsonnet';
         [borg.batch('once', cmd=['sh', '-c', 'trap \"exit 0\" USR1; echo ready; while :; do sleep 0.1; done'])
            { labels: { team: 'search' } },
          borg.batch('never', cmd=['sh', '-c', 'exit 3']) { restart: { failures: 0 } }]",
    );
    cell.types("bourg run jobs.bcl");
    // It runs until the status shows it.
    relations::end(&cell, "once", Signal::SIGUSR1);
    cell.job("once", "is finished", |job| job["state"] == "finished");
    cell.job("never", "has failed", |job| job["state"] == "failed");
    let once = cell.ok("bourg events once");
    assert_eq!(
        names(&once),
        [
            "SUBMIT once",
            "QUEUE once",
            "SUBMIT once/0",
            "QUEUE once/0",
            "ENABLE once",
            "ENABLE once/0",
            "SCHEDULE once",
            "SCHEDULE once/0",
            "START once/0",
            "FINISH once/0",
            "FINISH once",
        ]
    );
    assert!(once.lines().next().expect("a line").ends_with("new, by root"), "{once}");
    assert!(once.lines().nth(7).expect("a line").ends_with(", by scheduler main"), "{once}");
    assert_eq!(cell.ok("bourg events -l team=search"), once, "labels choose");
    assert_eq!(names(&cell.ok("bourg events once/0 -n 2")), ["START once/0", "FINISH once/0"]);
    let failed = cell.ok("bourg events never -n 1");
    assert_eq!(names(&failed), ["FAIL never"]);
    assert!(cell.ok("bourg events never/0 -n 1").contains("exit code 3"));
    assert_eq!(cell.ok("bourg events --since 1h --machine nowhere"), "");
    let first = cell.ok("bourg events --all");
    assert!(first.lines().next().expect("a line").contains("  the cell  "), "{first}");

    // Up to a time, and from an event on.
    let finished = all(&cell).into_iter().find(|(_, _, event)| event.get("finish").is_some());
    let (index, sub, _) = finished.expect("it finished");
    let before = cell.ok(&format!("bourg events once --at {}", index - 1));
    assert_eq!(names(&before).last().map(String::as_str), Some("START once/0"));
    let after = cell.ok(&format!("bourg events once --from {index}.{sub}"));
    assert_eq!(names(&after), ["FINISH once/0", "FINISH once"]);
    assert!(cell.fails(2, "bourg events once --from x").contains("88412"));
    assert!(cell.fails(2, "bourg events onse").contains("the nearest is root/once"));
}

#[test]
fn a_follower_sees_each_event_once_over_a_masters_end() {
    let mut cell = Cell::start();
    let follower = cell.start("bourg", &["events", "--follow", "--all", "-o", "wide"]);
    let newer = cell.start("bourg", &["events", "--follow", "--since", "0s"]);
    cell.ok("bourg run --detach $EXAMPLES/batch.bcl");
    until("it sees the job", || follower.stdout().contains("root/pi"));
    cell.kill(Role::Master);
    cell.job("pi", "is finished", |job| job["state"] == "finished");
    let kept = all(&cell);
    let seen = |follower: &str| -> Vec<(u64, u64)> {
        let name = |line: &str| {
            let (index, sub) = line.split_whitespace().next()?.split_once('.')?;
            Some((index.parse().ok()?, sub.parse().ok()?))
        };
        follower.lines().filter_map(name).collect()
    };
    let expected: Vec<(u64, u64)> = kept.iter().map(|(index, sub, _)| (*index, *sub)).collect();
    assert!(expected.is_sorted_by(|one, other| one < other), "each once, in order: {expected:?}");
    until("it sees all that is kept", || seen(&follower.stdout()).len() >= expected.len());
    assert_eq!(seen(&follower.stdout())[..expected.len()], expected);
    until("so does the other", || newer.stdout().contains("FINISH"));
    assert!(!newer.stdout().contains("  FOUND "), "what was before is not asked for");

    // A restarted cell generates none of them twice.
    cell.stop();
    cell.start_again(&[]);
    let again = all(&cell);
    assert_eq!(again[..kept.len()], kept, "what was kept is there, once");
}

#[test]
fn events_missing_after_a_restoration_are_shown_as_one_line() {
    let mut cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/batch.bcl");
    cell.job("pi", "is finished", |job| job["state"] == "finished");
    // A cell restored from a checkpoint does not have events from before it.
    cell.ok("bourg checkpoint save saved");
    let index = cell.ok("bourg checkpoint verify saved -o index");
    let index: u64 = index.trim().parse().expect("a number");
    cell.stop();
    assert_eq!(cell.types("bourg checkpoint load saved --dir other/master").code, 0);
    let line = "bourg dev --dir other -- sh -c 'bourg events --from 1 > shown; echo $? > code;
        bourg events --from 1 -o json > lines; bourg events --since 1h > hour'";
    let next = index + 1;
    let ended = cell.types(line);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(cell.ok("cat code"), "0\n");
    let shown = cell.ok("cat shown");
    let gap = format!("-- the events from 1.0 until {next}.0 are not stored at this replica");
    assert!(shown.starts_with(&gap), "{shown}");
    for shown in [shown, cell.ok("cat hour")] {
        assert!(shown.contains("  ADD "), "from there on there is everything: {shown}");
    }
    let lines = cell.ok("cat lines");
    let first: Value =
        serde_json::from_str(lines.lines().next().unwrap_or_default()).expect("JSON");
    assert_eq!(first["gap"]["until"]["index"], next.to_string());
}

/// The words of the events that are shown, by a client directory.
#[track_caller]
fn shown(cell: &Grown, of: &str) -> String {
    cell.terminal.ok(&format!("bourg --cell {of} events --from 1"))
}

/// Who did what is known after the loss of every replica but one directory, and after that one is
/// replaced, too.
#[test]
fn events_survive_a_restoration_and_the_replica_that_had_them() {
    let (cell, first) = Grown::found(&[]);
    cell.ok("user add ben");
    cell.terminal.write("job.bcl", JOB);
    cell.ok("run --detach job.bcl");
    cell.ok("checkpoint save saved");
    cell.ok("user add zoe");
    let index = cell.terminal.ok("bourg checkpoint verify saved -o index");
    let has = |text: &str, who: &str| text.lines().any(|line| line.contains(who));
    let before = shown(&cell, "ana");
    assert!(["ben", "zoe", "ana/audited"].iter().all(|who| has(&before, who)), "{before}");
    processes::signal(first.pid(), Signal::SIGKILL);
    first.ends();

    let load = "bourg checkpoint load saved --dir again --tls r1 --replace-cell";
    let told = cell.terminal.types(load);
    assert_eq!(told.code, 0, "{}", told.stderr);
    let says = format!("those after index {} stay there", index.trim());
    assert!(
        told.stderr.contains("events are taken over") && told.stderr.contains(&says),
        "{}",
        told.stderr
    );
    let again = cell.starts("again", &cell.at[0], &[]);
    cell.has_voters(1);
    let is_whole = |text: &str| {
        // The record of the backup comes after it, too.
        let after = |line: &&str| !line.contains("zoe") && !line.contains(" BACKUP ");
        let same = before.lines().take_while(after).all(|line| has(text, line));
        same && has(text, "ben") && has(text, "ana/audited") && !text.contains("are not stored")
    };
    let restored = shown(&cell, "ana");
    assert!(is_whole(&restored) && !has(&restored, "zoe"), "{restored}");

    // A replica that begins with a snapshot takes the events before it from another.
    let _second = cell.adds("r2", &cell.at[1]);
    cell.has_voters(2);
    let only = format!("bourg master certify user/ana --dir r2 --to two --master {}", cell.at[1]);
    cell.terminal.ok(&only);
    cell.terminal.ok("echo 'learn = false' >> two/cell.toml");
    until("the second has all events", || is_whole(&shown(&cell, "two")));
    cell.ok("master remove 1");
    again.ends();
    cell.has_voters(1);
    assert!(is_whole(&shown(&cell, "two")), "{}", shown(&cell, "two"));
}

#[test]
fn one_user_does_not_keep_the_others_from_following() {
    let cell = Cell::start();
    wait(async {
        let mut client = MasterClient::over(to(&cell, Of::Master, issued(&cell, "user/root")));
        let asked = v1::EventsRequest { follow: true, ..v1::EventsRequest::default() };
        let mut following = Vec::new();
        for _ in 0..128 {
            following.push(
                client.history.events(asked.clone()).await.expect("there is room").into_inner(),
            );
        }
        let refused = client.history.events(asked.clone()).await.expect_err("that is one too many");
        assert_eq!(refused.code(), Code::ResourceExhausted);
        let why = "root has 128 calls that follow the events already, as many as its share of what all \
                   users have: end one of them";
        assert_eq!(refused.message(), why);
        // Reads that do not follow count separately, and hold their permit for a moment.
        let once = v1::EventsRequest { follow: false, ..asked.clone() };
        client.history.events(once).await.expect("it is answered");
        following.pop();
        let again = async { while client.history.events(asked.clone()).await.is_err() {} };
        tokio::time::timeout(PATIENCE, again).await.expect("there is room again");
    });
}

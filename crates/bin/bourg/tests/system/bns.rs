//! The Borg name service: records of tasks, and watches that miss nothing.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use api::v1;
use client::MasterClient;
use nix::sys::signal::Signal;
use rpc::service::names_client::NamesClient;
use rpc::{Expect, Role, Rotating};
use serde_json::Value;
use tonic::{Code, Status};

use crate::cell::Cell;
use crate::eventually::until;
use crate::processes;
use crate::replicas::Three;
use crate::security::{issued, wait};
use crate::terminal::Terminal;

/// Begins a watch, and gives its lines.
fn watched(terminal: &Terminal, words: &[&str]) -> (std::process::Child, Receiver<String>) {
    let mut command = terminal.program("bourg");
    command.args(["bns", "watch"]).args(words).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut watch = command.spawn().expect("it can be started");
    let lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let (to_us, received) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if to_us.send(line).is_err() {
                return;
            }
        }
    });
    (watch, received)
}

/// The next line that contains all of these.
#[track_caller]
fn sees(lines: &Receiver<String>, words: &[&str]) -> String {
    let mut seen = Vec::new();
    loop {
        match lines.recv_timeout(Duration::from_secs(60)) {
            Ok(line) if words.iter().all(|word| line.contains(word)) => return line,
            Ok(line) => seen.push(line),
            Err(_) => panic!("no line with {words:?} after {seen:#?}"),
        }
    }
}

fn web(tasks: u32, more: &str) -> String {
    format!(
        "local borg = import 'borg.libsonnet';
         borg.service('web', tasks={tasks}, cmd=['bourg', 'example-server', '--port', borg.port('http')])
           {{ cpu: 0.1, ram: '64 MiB', labels: {{ team: 'search' }}, {more} }}"
    )
}

#[test]
fn a_name_follows_its_tasks_and_a_watch_misses_nothing() {
    let cell = Cell::start();
    let (mut watch, lines) = watched(&cell, &["-l", "team=search"]);
    cell.write("web.bcl", web(2, ""));
    cell.ok("bourg run web.bcl");
    let line = sees(&lines, &["+ root/web/0", "127.0.0.1", "http=", "running", "healthy"]);
    let index = line.split_whitespace().next().expect("an index").to_owned();
    let found: Value = serde_json::from_str(&cell.ok("bourg bns get web -o json")).expect("JSON");
    let tasks = found.as_array().expect("a list");
    assert_eq!(tasks.len(), 2);
    for task in tasks {
        assert_eq!((&task["state"], &task["serves"]), (&"running".into(), &true.into()));
    }
    let port = tasks[1]["ports"][0]["port"].as_u64().expect("a port");
    assert_eq!(cell.ok("bourg bns get web/1 -o name"), format!("127.0.0.1:{port}\n"));
    assert!(cell.ok(&format!("curl -fsS http://127.0.0.1:{port}/")).contains("web/1"));
    let table = cell.ok("bourg bns list");
    let row: Vec<&str> = table.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(row, ["root/web", "2", "2", "2"]);
    assert_eq!(cell.ok("bourg bns list -l team=other -o name"), "");

    // A task that is killed by the kernel has a new incarnation; a name never has two.
    let generation = |index: usize| {
        let found = cell.ok("bourg bns get web -o generation");
        found.lines().nth(index).and_then(|line| line.parse::<u32>().ok()).unwrap_or_default()
    };
    assert_eq!(generation(1), 1);
    processes::signal(cell.tasks("web")[&1], Signal::SIGKILL);
    sees(&lines, &["- root/web/1"]);
    sees(&lines, &["+ root/web/1", "running", "healthy"]);
    until("it is there again", || generation(1) == 2);

    // A watch that begins later at an earlier index learns what it missed.
    cell.ok("bourg kill web/0");
    let (mut later, missed) = watched(&cell, &["web", "--after", &index, "-o", "json"]);
    let change: Value = serde_json::from_str(&sees(&missed, &["\"web\""])).expect("JSON");
    assert_eq!(change["complete"], false);
    let left = &change["records"][0];
    assert_eq!((&left["size"], left["tasks"].as_array().map(Vec::len)), (&2.into(), Some(1)));
    later.kill().and_then(|()| later.wait()).expect("it runs");

    cell.ok("bourg kill web");
    sees(&lines, &["- root/web/1"]);
    let said = cell.fails(2, "bourg bns get web");
    assert!(
        said.contains("root/web has no name: it is dead")
            || said.contains("web has no name: it is dead"),
        "{said}"
    );
    let said = cell.fails(2, "bourg bns get webb");
    assert!(said.contains("the nearest is root/web"), "{said}");
    watch.kill().and_then(|()| watch.wait()).expect("it runs");
}

#[test]
fn every_replica_has_the_names_and_a_watch_outlives_the_leader() {
    let cell = Three::start();
    cell.write("web.bcl", web(2, ""));
    cell.ok("bourg run web.bcl");
    let of = |replica: u64| {
        let only = cell.only(replica).display().to_string();
        cell.types(&format!("bourg --consistent --cell {only} bns get web -o json")).stdout
    };
    let first = of(1);
    assert!(first.contains("\"serves\""), "{first}");
    assert_eq!([of(2), of(3)], [first.clone(), first]);
    let (mut watch, lines) = watched(&cell, &["web"]);
    sees(&lines, &["+ root/web/1", "healthy"]);
    let leader = cell.leader();
    processes::signal(cell.pid(leader), Signal::SIGKILL);
    cell.ok("bourg resize web 3 --detach");
    sees(&lines, &["+ root/web/2", "running", "healthy"]);
    watch.kill().and_then(|()| watch.wait()).expect("it runs");
}

/// A replica that lags compares what it knew with what it catches up with at once: changes that took
/// themselves back meanwhile are changes all the same for a reader that has seen one of them elsewhere.
#[test]
fn a_watch_resumed_at_a_lagging_replica_misses_no_change() {
    let cell = Three::start();
    cell.write("web.bcl", web(1, ""));
    for tier in ["one", "two"] {
        let text = format!("(import 'web.bcl') + {{ labels+: {{ tier: '{tier}' }} }}");
        cell.write(&format!("{tier}.bcl"), text);
    }
    cell.ok("bourg run one.bcl");
    let leader = cell.leader();
    let lags = leader % 3 + 1;
    let at = |replica: u64| cell.only(replica).display().to_string();
    let (here, there) = (at(leader), at(lags));
    let watch = |cell_of: &str, after: u64| {
        let after = after.to_string();
        watched(&cell, &["--cell", cell_of, "web", "--after", &after, "-o", "json"])
    };
    let index = |line: &str| {
        let change: Value = serde_json::from_str(line).expect("JSON");
        change["index"].as_str().and_then(|text| text.parse().ok()).or(change["index"].as_u64())
    };
    for round in 0..5 {
        processes::signal(cell.pid(lags), Signal::SIGSTOP);
        cell.ok(&format!("bourg --cell {here} run two.bcl --detach"));
        let (mut first, lines) = watch(&here, 0);
        let seen = index(&sees(&lines, &["\"tier\":\"two\""])).expect("an index");
        first.kill().and_then(|()| first.wait()).expect("it runs");
        cell.ok(&format!("bourg --cell {here} run one.bcl --detach"));
        processes::signal(cell.pid(lags), Signal::SIGCONT);
        let (mut next, lines) = watch(&there, seen);
        let line = sees(&lines, &["\"tier\":\"one\""]);
        assert!(index(&line) > Some(seen), "in round {round}: {line} after {seen}");
        next.kill().and_then(|()| next.wait()).expect("it runs");
    }
}

/// The first answers of watches of names, a job and files to a reader that knows a later index: those of
/// a replica.
async fn first_answers(cell: &Three, replica: u64, index: u64) -> [Result<u64, Status>; 3] {
    let known = std::fs::read_to_string(cell.only(replica).join("cell.toml")).expect("it is there");
    let address = known.split('"').find(|text| text.starts_with("127.0.0.1:")).expect("one");
    let credentials = Rotating::new(issued(cell, "user/root")).expect("credentials");
    let channel = rpc::transport::connect(address, &credentials, &Expect::Role(Role::Master));
    let channel = channel.expect("an address");
    let client = MasterClient::over(channel.clone());
    let names = async {
        let request = v1::WatchNamesRequest { query: None, after: index };
        let mut stream = NamesClient::new(channel).watch(request).await?.into_inner();
        stream.message().await.map(|change| change.expect("it goes on").index)
    };
    let job = async {
        let job = v1::JobAddress { user: "root".to_owned(), job: "web".to_owned() };
        let request = v1::WatchJobRequest { job: Some(job), index };
        let mut stream = client.clone().jobs.watch(request).await?.into_inner();
        stream.message().await.map(|status| status.expect("it goes on").index)
    };
    let files = async {
        let request = v1::WatchFilesRequest { path: ["", "root", ""].join("/"), index };
        let mut stream = client.clone().locks.watch(request).await?.into_inner();
        stream.message().await.map(|files| files.expect("it goes on").index)
    };
    [names.await, job.await, files.await]
}

#[test]
fn a_first_answer_is_never_older_than_what_its_reader_knows() {
    let cell = Three::start();
    cell.write("web.bcl", web(1, ""));
    cell.ok("bourg run web.bcl");
    let leader = cell.leader();
    let alone = leader % 3 + 1;
    let others = [leader, (leader + 1) % 3 + 1].map(|replica| cell.pid(replica));
    let codes = |index: u64| {
        let answers = wait(first_answers(&cell, alone, index));
        answers.map(|answer| answer.map_err(|status| status.code()))
    };
    for known in [codes(1), codes(10)] {
        assert!(
            known.iter().all(|index| index.as_ref().is_ok_and(|index| *index > 10)),
            "{known:?}"
        );
    }
    // After everything there is: that is no index of this cell.
    assert_eq!(codes(1_000_000), [(); 3].map(|()| Err(Code::OutOfRange)));
    // A replica that is cut off cannot tell.
    others.iter().for_each(|pid| processes::signal(*pid, Signal::SIGSTOP));
    assert_eq!(codes(1_000_000), [(); 3].map(|()| Err(Code::Unavailable)));
    others.iter().for_each(|pid| processes::signal(*pid, Signal::SIGCONT));
    until("it has heard of the others again", || {
        codes(1_000_000).iter().all(|code| *code == Err(Code::OutOfRange))
    });
}

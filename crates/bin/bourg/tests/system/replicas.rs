//! A master of three replicas: real processes that are killed, paused and restarted, while clients
//! keep running and tasks are not affected.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use api::v1;
use client::MasterClient;
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::task::JoinSet;
use tonic::Code;

use crate::borglets::Machine;
use crate::cell::Cell;
use crate::eventually::{PATIENCE, eventually, until};
use crate::jobs;
use crate::pages::{Of, metrics, value};
use crate::processes;
use crate::security::{issued, to, wait};

/// A cell whose master has three replicas.
pub(crate) struct Three(Cell);

impl std::ops::Deref for Three {
    type Target = Cell;

    fn deref(&self) -> &Cell {
        &self.0
    }
}

impl Three {
    #[track_caller]
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with more arguments.
    #[track_caller]
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self(Cell::start_with(&[&["--replicas", "3"], arguments].concat()))
    }

    fn replicas(&self) -> Vec<Value> {
        let told = self.types("bourg master list -o json");
        let listed: Option<Value> = serde_json::from_str(&told.stdout).ok();
        listed.and_then(|listed| listed.as_array().cloned()).unwrap_or_default()
    }

    /// The leader, as reported by any replica that answers.
    #[track_caller]
    pub(crate) fn leader(&self) -> u64 {
        eventually("somebody leads", || {
            let told = self.types("bourg master list").stdout;
            let line = told.lines().find(|line| line.contains(" leads "))?.to_owned();
            line.split_whitespace().next()?.parse().ok()
        })
    }

    /// The pid of a replica's process.
    pub(crate) fn pid(&self, replica: u64) -> i32 {
        let name = match replica {
            1 => "master.pid".to_owned(),
            replica => format!("master-{replica}.pid"),
        };
        let path = self.directory().join("run").join(name);
        let text = std::fs::read_to_string(path).expect("its pid is kept");
        text.trim().parse().expect("a pid")
    }

    /// Waits until all replicas answer and are up to date.
    #[track_caller]
    fn agree(&self) {
        until("all replicas have everything", || {
            let replicas = self.replicas();
            let index = |replica: &Value| replica["progress"]["index"].clone();
            replicas.len() == 3
                && replicas.iter().all(|replica| {
                    replica["progress"]["answers"] == true && index(replica) == index(&replicas[0])
                })
        });
    }

    /// A client directory that knows only one replica.
    pub(crate) fn only(&self, replica: u64) -> PathBuf {
        let client = self.directory().join("client");
        let only = self.path(&format!("only-{replica}"));
        std::fs::create_dir_all(&only).expect("a directory");
        for file in std::fs::read_dir(&client).expect("a directory").flatten() {
            std::fs::copy(file.path(), only.join(file.file_name())).expect("it can be copied");
        }
        let place = usize::try_from(replica).expect("few") - 1;
        let known = std::fs::read_to_string(client.join("cell.toml")).expect("it is there");
        let masters = known.split('"').filter(|text| text.starts_with("127.0.0.1:"));
        let address = masters.collect::<Vec<_>>()[place];
        let text = format!("cell = \"dev\"\nmasters = [\"{address}\"]\nlearn = false\n");
        std::fs::write(only.join("cell.toml"), text).expect("it can be written");
        only
    }

    fn task_pids(&self) -> BTreeMap<u32, i32> {
        self.tasks("hello")
    }
}

#[test]
fn changes_are_acknowledged_after_repeated_kills_of_the_leader() {
    let cell = Three::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let before = cell.task_pids();
    for round in 0..4 {
        let leader = cell.leader();
        let dead = cell.pid(leader);
        processes::signal(dead, Signal::SIGKILL);
        let name = format!("probe-{round}");
        let text = format!("(import 'borg.libsonnet').batch('{name}', cmd=['true'])");
        cell.write("probe.bcl", text);
        // One command, which finds the next leader by itself.
        cell.ok("bourg run probe.bcl --detach");
        until("the one that was killed runs again", || cell.pid(leader) != dead);
        cell.job(&name, "is finished", |job| job["state"] == "finished");
        assert_eq!(cell.task_pids(), before, "in round {round}");
    }
    cell.agree();
}

#[test]
fn every_replica_answers_and_passes_on_what_it_is_asked() {
    let cell = Three::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    for replica in 1..=3 {
        let only = cell.only(replica);
        let at = only.display();
        let status = cell.ok(&format!("bourg --cell {at} --consistent status hello"));
        assert!(status.contains("hello"), "{}", status);
        let name = format!("by-{replica}");
        let text = format!("(import 'borg.libsonnet').batch('{name}', cmd=['true'])");
        cell.write("by.bcl", text);
        cell.ok(&format!("bourg --cell {at} run by.bcl"));
        // Its changes can be read from it at once.
        let read = cell.ok(&format!("bourg --cell {at} status {name}"));
        assert!(read.contains(&name), "{}", read);
    }
    let leader = cell.leader();
    let to = leader % 3 + 1;
    let moved = cell.types(&format!("bourg master transfer {to}"));
    assert_eq!(moved.code, 0, "{}", moved.stderr);
    // Another replica may know of it a moment later than the one that executed it.
    until("the other leads", || cell.leader() == to);
    cell.ok("bourg master transfer");
    until("a third, or the first", || cell.leader() != to);
    let refused = cell.types("bourg master transfer 9");
    assert_eq!(refused.code, 3);
    assert!(refused.stderr.contains("replica 9 has no vote"), "{}", refused.stderr);
}

/// raft resets its record of recently active replicas twice a second. One listing in five reported
/// a healthy replica as silent.
#[test]
fn healthy_followers_of_an_idle_cell_answer() {
    let cell = Three::start();
    cell.agree();
    let listed: Vec<String> = (0..100).map(|_| cell.ok("bourg master list")).collect();
    let untrue = listed.iter().filter(|said| said.contains("does not answer")).count();
    assert!(untrue < 5, "in {untrue} of {} listings: {}", listed.len(), listed[0]);
    let (leader, frozen) = (cell.leader(), cell.leader() % 3 + 1);
    processes::signal(cell.pid(frozen), Signal::SIGSTOP);
    let only = cell.only(leader);
    let list = format!("bourg --cell {} master list", only.display());
    until("the one that is frozen is named", || cell.ok(&list).contains("does not answer"));
    processes::signal(cell.pid(frozen), Signal::SIGCONT);
    until("all answer", || !cell.ok(&list).contains("does not answer"));
}

#[test]
fn five_replicas_are_started_as_three_are() {
    let mut cell = Cell::start_with(&["--replicas", "5"]);
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let listed = cell.ok("bourg master list -o name");
    assert_eq!(listed.lines().collect::<Vec<_>>(), ["1", "2", "3", "4", "5"]);
    cell.stop();
}

#[test]
fn a_frozen_leader_is_replaced_and_a_minority_reads_but_changes_nothing() {
    let cell = Three::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let before = cell.task_pids();
    let leader = cell.leader();
    let frozen = cell.pid(leader);
    let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    processes::signal(frozen, Signal::SIGSTOP);
    let (one, two) = (cell.only(others[0]), cell.only(others[1]));
    cell.write("more.bcl", "(import 'borg.libsonnet').batch('more', cmd=['true'])");
    cell.ok(&format!("bourg --cell {} run more.bcl", one.display()));
    // Two of three are down.
    let second = cell.pid(others[1]);
    processes::signal(second, Signal::SIGSTOP);
    until("nobody leads any more", || {
        let told = cell.types(&format!("bourg --cell {} master list", one.display()));
        told.stderr.contains("no replica leads")
    });
    let read = cell.ok(&format!("bourg --cell {} status hello", one.display()));
    assert!(read.contains("hello"), "{}", read);
    let refused = cell.types(&format!("bourg --cell {} --consistent status hello", one.display()));
    assert_eq!(refused.code, 6, "{}", refused.stderr);
    processes::signal(second, Signal::SIGCONT);
    processes::signal(frozen, Signal::SIGCONT);
    cell.write("again.bcl", "(import 'borg.libsonnet').batch('again', cmd=['true'])");
    cell.ok(&format!("bourg --cell {} run again.bcl", two.display()));
    cell.agree();
    assert_eq!(cell.task_pids(), before);
}

#[test]
fn machines_are_polled_by_several_replicas_which_replace_each_other() {
    let cell = Three::start();
    let machines = ["m2", "m3"].map(|name| Machine::start(&cell, name));
    let pollers = || {
        let table: Value = serde_json::from_str(&cell.ok("bourg machines -o json")).expect("JSON");
        let machines = table.as_array().expect("a list").iter();
        machines.map(|machine| machine["polledBy"].to_string()).collect::<BTreeSet<_>>()
    };
    until("they are polled by several", || pollers().len() == 2);
    let one = cell.ok("bourg machine show m2");
    let by = one.lines().find(|line| line.starts_with("polled ")).expect("it is said").to_owned();
    let (_, by) = by.split_once("by replica ").expect("by whom");
    let pid = cell.pid(by.parse().expect("a number"));
    processes::signal(pid, Signal::SIGSTOP);
    until("others poll its machines", || !pollers().iter().any(|poller| poller.contains(by)));
    machines.iter().for_each(|machine| machine.is("up"));
    processes::signal(pid, Signal::SIGCONT);
    until("it polls its own again", || pollers().iter().any(|poller| poller.contains(by)));
}

#[test]
fn an_election_alone_dials_no_machine_again() {
    let cell = Three::start();
    let _machines = ["m2", "m3", "m4"].map(|name| Machine::start(&cell, name));
    let table: Value = serde_json::from_str(&cell.ok("bourg machines -o json")).expect("JSON");
    let port = |machine: &Value| machine["address"].as_str()?.rsplit(':').next()?.parse().ok();
    let ports: BTreeSet<u16> = table.as_array().expect("a list").iter().filter_map(port).collect();
    assert_eq!(ports.len(), 4);
    // The connections of each replica's process: local port and machine.
    let links = |replicas: &[u64]| -> BTreeSet<(i32, u16, u16)> {
        let of = |id: &u64| {
            let pid = cell.pid(*id);
            processes::connections(pid).into_iter().map(move |(own, other)| (pid, own, other))
        };
        replicas.iter().flat_map(of).filter(|(.., other)| ports.contains(other)).collect()
    };
    let runs = |name: &str| {
        let text = format!("(import 'borg.libsonnet').batch('{name}', tasks=8, cmd=['true'])");
        cell.write("probe.bcl", text);
        cell.ok("bourg run probe.bcl --detach");
        cell.job(name, "is finished", |job| job["state"] == "finished");
    };
    runs("first");
    // Machines are reassigned while replicas are still discovering each other.
    let mut before = BTreeSet::new();
    until("each machine is somebody's", || {
        let last = std::mem::replace(&mut before, links(&[1, 2, 3]));
        let linked: BTreeSet<u16> = before.iter().map(|(.., machine)| *machine).collect();
        linked == ports && last == before
    });
    let linking: BTreeSet<i32> = before.iter().map(|(pid, ..)| *pid).collect();
    assert!(linking.len() > 1, "several replicas poll: {before:?}");
    let leader = cell.leader();
    for to in [leader % 3 + 1, (leader + 1) % 3 + 1, leader] {
        cell.ok(&format!("bourg master transfer {to}"));
        until("the other leads", || cell.leader() == to);
        runs(&format!("while-{to}-leads"));
        assert_eq!(links(&[1, 2, 3]), before, "replica {to} leads");
    }
    // Followers of the lost leader do not reconnect either.
    let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    let before = links(&others);
    processes::signal(cell.pid(leader), Signal::SIGKILL);
    runs("after");
    let after = links(&others);
    assert!(before.is_subset(&after), "{before:?} became {after:?}");
}

#[test]
fn a_removed_replica_ends_and_is_not_started_again() {
    let mut cell = Three::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let (leader, before) = (cell.leader(), cell.task_pids());
    let pid = cell.pid(leader);
    cell.ok(&format!("bourg master remove {leader}"));
    until("there are two", || cell.replicas().len() == 2);
    until("it has ended", || !processes::is_there(pid));
    cell.write("more.bcl", "(import 'borg.libsonnet').batch('more', cmd=['true'])");
    cell.ok("bourg run more.bcl");
    assert_eq!(cell.task_pids(), before);
    let said = cell.0.stop_by(Signal::SIGTERM).stderr;
    assert!(said.contains("cannot be restarted in its current state and stays stopped"), "{said}");
    assert!(!said.contains("is restarted"), "{said}");
}

#[test]
fn a_scheduler_leaves_a_replica_that_hears_of_no_leader() {
    let cell = Three::start();
    let only = [1, 2, 3].map(|id| (id, cell.only(id)));
    let schedulers =
        |only: &PathBuf| cell.ok(&format!("bourg --cell {} cell -o schedulers", only.display()));
    let mut followed = None;
    until("the scheduler follows a replica", || {
        followed = only.iter().find(|(_, only)| schedulers(only) == "1\n");
        followed.is_some()
    });
    let (followed, only) = followed.expect("just seen");
    let others: Vec<i32> =
        [1, 2, 3].iter().filter(|id| *id != followed).map(|id| cell.pid(*id)).collect();
    others.iter().for_each(|pid| processes::signal(*pid, Signal::SIGSTOP));
    until("it has left", || schedulers(only) == "0\n");
    others.iter().for_each(|pid| processes::signal(*pid, Signal::SIGCONT));
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    cell.agree();
}

#[test]
fn replicas_continue_at_other_addresses_after_a_power_loss() {
    let mut cell = Three::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let before = Of::Master.address(&cell);
    cell.0.lose_power();
    // With other ports, and without being told how many replicas there are.
    for keeps in ["addresses.toml", "client/cell.toml"] {
        std::fs::remove_file(cell.directory().join(keeps)).expect("they are kept");
    }
    cell.0.start_again(&[]);
    assert_ne!(Of::Master.address(&cell), before);
    cell.agree();
    cell.is_healthy("hello");
    cell.0.stop();
}

#[test]
fn a_cell_goes_on_from_one_replica_when_the_majority_is_lost() {
    let mut cell = Three::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    cell.agree();
    cell.0.lose_power();
    let place = cell.directory().to_owned();
    let running = cell.types("bourg master restore --dir nowhere");
    assert_eq!(running.code, 1, "{}", running.stderr);
    for lost in ["master-2", "master-3"] {
        std::fs::remove_dir_all(place.join(lost)).expect("it was there");
    }
    let left = place.join("master");
    let told = cell.types(&format!("bourg master restore --dir {}", left.display()));
    assert_eq!(told.code, 0, "{}", told.stderr);
    assert!(told.stderr.contains("continues from replica 1 alone"), "{}", told.stderr);
    assert!(told.stderr.contains("restore epoch 1"), "{}", told.stderr);
    let again = cell.types(&format!("bourg master restore --dir {}", left.display()));
    assert!(again.stderr.contains("restore epoch 2"), "{}", again.stderr);
    cell.0.start_again(&[]);
    cell.is_healthy("hello");
    // It continued alone, and others were added.
    let ids: Vec<_> = cell.replicas().into_iter().map(|replica| replica["id"].clone()).collect();
    assert_eq!(ids[0], "1");
    assert!(ids.len() == 3 && !ids.contains(&"2".into()) && !ids.contains(&"3".into()), "{ids:?}");
    cell.0.stop();
}

/// A repeated request, as from a client that got no answer from one replica and asked another, may
/// arrive when the name means something else.
#[test]
fn a_kill_that_found_nothing_does_nothing_when_it_comes_again() {
    let cell = Cell::start();
    wait(async {
        let mut client = MasterClient::over(to(&cell, Of::Master, issued(&cell, "user/root")));
        let session = client.cell.open_session(v1::OpenSessionRequest {}).await.expect("a session");
        let session = session.into_inner().session;
        let address = v1::JobAddress { user: String::new(), job: "web".to_owned() };
        let kill = |sequence| v1::KillRequest {
            id: Some(v1::RequestId { session, sequence }),
            job: Some(address.clone()),
            tasks: None,
            now: false,
        };
        let submit = |sequence| v1::SubmitRequest {
            id: Some(v1::RequestId { session, sequence }),
            spec: Some(jobs::that_fits_nowhere("web")),
        };
        let refused = client.jobs.kill(kill(1)).await.expect_err("there is none");
        assert_eq!(refused.code(), Code::NotFound);
        client.jobs.submit(submit(2)).await.expect("it is submitted");
        let refused = client.jobs.kill(kill(1)).await.expect_err("that was answered");
        assert_eq!(refused.code(), Code::NotFound, "{refused}");
        assert!(
            refused.message().contains("when this was requested for the first time"),
            "{refused}"
        );
        assert_eq!(cell.ok("bourg status web -o state"), "pending\n");
        // A completed one gets the same answer again, whatever the name means by then.
        let done = client.jobs.kill(kill(3)).await.expect("it is killed").into_inner();
        assert_eq!(done.killed, 1);
        client.jobs.submit(submit(4)).await.expect("it is submitted anew");
        let again = client.jobs.kill(kill(3)).await.expect("it was killed").into_inner();
        assert_eq!(again.killed, 1);
        assert_eq!(cell.ok("bourg status web -o state"), "pending\n");
    });
}

#[test]
fn an_overloaded_cell_refuses_the_free_band_first_and_does_the_rest() {
    let cell = Three::start();
    let only = cell.only(1);
    let frozen = [2, 3].map(|id| cell.pid(id));
    wait(async {
        let channel = to(&cell, Of::Master, issued(&cell, "user/root"));
        let client = MasterClient::over(channel);
        let session = client.clone().cell.open_session(v1::OpenSessionRequest {}).await;
        let session = session.expect("a session").into_inner().session;
        // There is no leader from now on, so all changes wait.
        frozen.iter().for_each(|pid| processes::signal(*pid, Signal::SIGSTOP));
        until("nobody leads", || {
            let told = cell.types(&format!("bourg --cell {} master list", only.display()));
            told.stderr.contains("no replica leads")
        });
        let mut asked = JoinSet::new();
        for sequence in 1..=LARGE_SUBMISSIONS {
            let (mut client, id) = (client.clone(), v1::RequestId { session, sequence });
            let mut spec = jobs::that_fits_nowhere(&format!("large-{sequence}"));
            jobs::lengthen(&mut spec);
            let request = v1::SubmitRequest { id: Some(id), spec: Some(spec) };
            asked.spawn(async move { client.jobs.submit(request).await });
        }
        let first = tokio::time::timeout(PATIENCE, asked.join_next()).await.expect("an answer");
        let refused = first.expect("they were asked").expect("no panic").expect_err("nobody leads");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        assert!(refused.metadata().contains_key("retry-after-ms"), "{refused:?}");
        assert!(refused.message().contains("requests of yours are waiting"), "{refused}");
    });
    let name = "bourg_requests_refused_total{cause=\"overload\",band=\"free\"}";
    let counted = value(&metrics(&cell, Of::Master), name);
    assert!(counted.is_some_and(|count| count >= 1.0), "{counted:?}");
    // More important requests wait, and are executed as soon as there is a leader.
    cell.write("web.bcl", "(import 'borg.libsonnet').service('web', cmd=['sleep', '1d'])");
    let run =
        cell.start("bourg", &["--cell", &only.to_string_lossy(), "run", "--detach", "web.bcl"]);
    frozen.iter().for_each(|pid| processes::signal(*pid, Signal::SIGCONT));
    let ended = run.ends();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    cell.is_healthy("web");
}

/// The number of concurrent submissions of 3 MB. Of 256 MiB that may wait, the free band has a
/// quarter, and one user half of that.
const LARGE_SUBMISSIONS: u64 = 30;

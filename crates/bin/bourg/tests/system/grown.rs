//! Cells to which replicas are added one by one: restored after the loss of a majority, and with
//! several versions of the program.

use std::time::Duration;

use api::v1;
use model::RestoreEpoch;
use nix::sys::signal::Signal;
use rpc::service::borglet_client::BorgletClient;
use rpc::{Authority, Expect, Identity, Role, Rotating, Validity};
use serde_json::Value;

use crate::enrolment::{LEVEL, free_address};
use crate::eventually::{eventually, until};
use crate::processes;
use crate::security::wait;
use crate::terminal::{Background, Ended, Terminal};

const HOUR: Duration = Duration::from_secs(3_600);

/// The flags that make a program a later build than others: it has a level that exists for tests.
const LATER: [&str; 2] = ["--level", TEST_LEVEL];
/// That level; see `cell::TEST_LEVEL`.
const TEST_LEVEL: &str = "1000000";

/// A cell whose replicas are started one by one.
pub(crate) struct Grown {
    pub(crate) terminal: Terminal,
    /// The addresses of its replicas, present and future.
    pub(crate) at: [String; 3],
}

impl Grown {
    /// One replica, with flags, and its administrator.
    #[track_caller]
    pub(crate) fn found(more: &[&str]) -> (Self, Background) {
        let cell = Self { terminal: Terminal::new(), at: [(); 3].map(|()| free_address()) };
        let founds = ["--name", "cc", "--administrator", "ana"];
        let master = cell.starts("r1", &cell.at[0], &[&founds, more].concat());
        until("the cell is bootstrapped", || cell.terminal.path("r1/tls/ca.pem").exists());
        let masters = cell.at.each_ref().map(|at| format!(" --master {at}")).concat();
        cell.terminal.ok(&format!("bourg master certify user/ana --dir r1 --to ana{masters}"));
        cell.has_voters(1);
        (cell, master)
    }

    /// Three replicas, from directories `r1` to `r3`.
    #[track_caller]
    pub(crate) fn of_three() -> (Self, [Background; 3]) {
        let (cell, first) = Self::found(&[]);
        let second = cell.adds("r2", &cell.at[1]);
        cell.has_voters(2);
        let third = cell.adds("r3", &cell.at[2]);
        cell.has_voters(3);
        (cell, [first, second, third])
    }

    pub(crate) fn starts(&self, directory: &str, address: &str, more: &[&str]) -> Background {
        let flags = ["master", "--dir", directory, "--listen", address];
        self.terminal.start("bourg", &[&flags[..], more].concat())
    }

    /// Adds a replica with an empty directory.
    #[track_caller]
    pub(crate) fn adds(&self, directory: &str, address: &str) -> Background {
        let token = self.ok(&format!("master add {address}"));
        self.terminal.write("token", token);
        self.starts(directory, address, &["--join", "@token"])
    }

    pub(crate) fn types(&self, line: &str) -> Ended {
        self.terminal.types(&format!("bourg --cell ana {line}"))
    }

    #[track_caller]
    pub(crate) fn ok(&self, line: &str) -> String {
        self.terminal.ok(&format!("bourg --cell ana {line}"))
    }

    pub(crate) fn listed(&self) -> Vec<Value> {
        serde_json::from_str(&self.types("master list -o json").stdout).unwrap_or_default()
    }

    /// Waits until this many replicas vote and are up to date, and no other is listed.
    #[track_caller]
    pub(crate) fn has_voters(&self, voters: usize) {
        until(&format!("{voters} vote"), || {
            let listed = self.listed();
            let index = |replica: &Value| replica["progress"]["index"].clone();
            let votes = |replica: &Value| {
                replica["member"] == "voter"
                    && replica["progress"]["answers"] == true
                    && index(replica) == index(&listed[0])
            };
            listed.len() == voters && listed.iter().all(votes)
        });
    }
}

/// Sends a machine an order to run nothing, as the leader of a restore epoch; returns whether it is
/// rejected.
fn is_refused(cell: &Grown, machine: &str, epoch: RestoreEpoch, index: u64) -> bool {
    let authority = Authority::open(cell.terminal.path("r1/tls")).expect("the cell's authority");
    let issued = authority.issue(&Identity::Master, Validity::lasting(HOUR));
    let credentials = Rotating::new(issued.expect("a certificate")).expect("credentials");
    wait(async {
        let expect = Expect::Role(Role::Borglet);
        let channel = rpc::transport::connect(machine, &credentials, &expect);
        let RestoreEpoch { counter, random } = epoch;
        let (restore_epoch, restore_random) = (counter, random);
        let stamp = Some(v1::Stamp { restore_epoch, restore_random, term: 1 << 20, index });
        let order = Some(v1::Order { stamp, ..v1::Order::default() });
        let asked = v1::PollRequest { order, ..v1::PollRequest::default() };
        let mut client = BorgletClient::new(channel.expect("an address"));
        client.poll(asked).await.expect("it is answered").into_inner().order_refused
    })
}

/// The restore epoch that a restoration has told.
#[track_caller]
pub(crate) fn restore_epoch(told: &str) -> RestoreEpoch {
    let epoch = told.split("restore epoch ").nth(2).unwrap_or(told).split_whitespace().next();
    epoch.and_then(|epoch| epoch.parse().ok()).unwrap_or_else(|| panic!("no epoch in {told}"))
}

#[test]
fn a_restored_cell_grows_and_refuses_replicas_and_orders_of_before() {
    let (cell, replicas) = Grown::of_three();
    cell.terminal.write("token", cell.ok("machine token m1"));
    let flags = ["--dir", "m1", "--listen", "127.0.0.1:0", "--join", "@token", "--stop-tasks"];
    let borglet = cell.terminal.start("bourg", &[&["borglet"], &flags[..]].concat());
    until("the machine is up", || cell.types("machine show m1 -o state").stdout == "up\n");
    let machine = eventually("it says where it is", || {
        let said = borglet.stderr();
        let (_, after) = said.split_once("listening on ")?;
        Some(after.lines().next()?.trim().to_owned())
    });

    for replica in replicas.into_iter().rev() {
        processes::signal(replica.pid(), Signal::SIGKILL);
        replica.ends();
    }
    let told = cell.terminal.types("bourg master restore --dir r1");
    assert_eq!(told.code, 0, "{}", told.stderr);
    assert!(told.stderr.contains("continues from replica 1 alone"), "{}", told.stderr);
    let _first = cell.starts("r1", &cell.at[0], &[]);
    cell.has_voters(1);

    // A former replica is rejected.
    let before = cell.starts("r2", &cell.at[1], &[]).ends();
    assert_eq!(before.code, 9, "{}", before.stderr);
    let epoch = restore_epoch(&told.stderr);
    let why = format!(
        "the cell was restored since (restore epoch {epoch}, yours is 0): remove this replica's \
         directory"
    );
    assert!(before.stderr.contains(&why), "{}", before.stderr);
    cell.has_voters(1);
    // With an empty directory it is usable again, at the same address.
    let _second = cell.adds("again", &cell.at[1]);
    cell.has_voters(2);
    let _third = cell.adds("third", &cell.at[2]);
    cell.has_voters(3);

    // A former leader's orders are rejected, even with a late term.
    let mut index = 1 << 40;
    until("its orders are refused", || {
        index += 1;
        is_refused(&cell, &machine, RestoreEpoch::NEVER, index)
    });
    until("the machine says so", || borglet.stderr().contains("WARN the order is stamped"));
    let other = RestoreEpoch { random: !epoch.random, ..epoch };
    assert!(is_refused(&cell, &machine, other, index), "one of another restoration");
    assert!(!is_refused(&cell, &machine, epoch, index), "one of now is obeyed");
}

#[test]
fn a_scheduler_finds_the_replicas_that_came_after_its_start() {
    let (cell, first) = Grown::found(&[]);
    cell.terminal.ok("bourg master certify scheduler/main --dir r1 --to s");
    let flags = ["scheduler", "--credentials", "s", "--master", &cell.at[0]];
    let scheduler = cell.terminal.start("bourg", &flags);
    until("it follows the first", || cell.types("cell -o schedulers").stdout == "1\n");
    let _second = cell.adds("r2", &cell.at[1]);
    cell.has_voters(2);
    let _third = cell.adds("r3", &cell.at[2]);
    cell.has_voters(3);
    processes::signal(first.pid(), Signal::SIGKILL);
    first.ends();
    until("it follows another", || {
        scheduler.stderr().matches("following the master from index").count() > 1
    });
}

#[test]
fn a_master_shows_the_past_after_its_program_was_replaced() {
    let (cell, first) = Grown::found(&[]);
    processes::signal(first.pid(), Signal::SIGTERM);
    first.ends();
    let install = "cp \"$(command -v bourg)\" new && mv new installed";
    cell.terminal.ok(install);
    let flags = ["master", "--dir", "r1", "--listen", &cell.at[0]];
    let _master = cell.terminal.start("./installed", &flags);
    cell.has_voters(1);
    let index = cell.ok("cell -o index");
    let past = format!("cell --at {} -o index", index.trim());
    assert_eq!(cell.ok(&past), index);
    cell.terminal.ok(install);
    assert_eq!(cell.ok(&past), index);
}

#[test]
fn a_stopping_leader_hands_over_before_it_ends() {
    let (cell, replicas) = Grown::of_three();
    let mut running = replicas.map(Some);
    for round in 0..2 {
        let (leader, term) = eventually("somebody leads", || {
            let told = cell.types("master list").stdout;
            let line = told.lines().find(|line| line.contains(" leads "))?.to_owned();
            let leader: usize = line.split_whitespace().next()?.parse().ok()?;
            let term: u64 = cell.types("cell -o term").stdout.trim().parse().ok()?;
            Some((leader - 1, term))
        });
        let leads = running[leader].take().expect("it runs");
        processes::signal(leads.pid(), Signal::SIGTERM);
        let ended = leads.ends();
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        // One that stops in an orderly way does not see a later term.
        let later = format!("leads in term {}", term + 1);
        assert!(ended.stderr.contains(&later), "in round {round}, no '{later}': {}", ended.stderr);
        let directory = format!("r{}", leader + 1);
        running[leader] = Some(cell.starts(&directory, &cell.at[leader], &[]));
        cell.has_voters(3);
    }
}

#[test]
fn a_cell_of_mixed_builds_serves_and_upgrades_with_the_last_replica() {
    let (cell, [first, second, third]) = Grown::of_three();
    let mut running = Vec::new();
    let replicas =
        [("r3", &cell.at[2], third), ("r2", &cell.at[1], second), ("r1", &cell.at[0], first)];
    for (number, (directory, address, older)) in replicas.into_iter().enumerate() {
        assert_eq!(cell.ok("cell -o level").trim(), LEVEL, "{directory} is older");
        processes::signal(older.pid(), Signal::SIGTERM);
        let ended = older.ends();
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        // Two of three serve while the newer build replaces the older.
        let job = format!("(import 'borg.libsonnet').batch('job-{number}', cmd=['true'])");
        cell.terminal.write("job.bcl", format!("{job} {{ priority: 'free' }}"));
        cell.ok("run --detach job.bcl");
        running.push(cell.starts(directory, address, &LATER));
        cell.has_voters(3);
    }
    until("all can do what is new", || cell.types("cell -o level").stdout.trim() == TEST_LEVEL);
    cell.ok("machine token m1");
    assert_eq!(cell.ok("status -o name").lines().count(), 3, "nothing was lost");
    // There is no downgrade.
    let third = running.remove(0);
    processes::signal(third.pid(), Signal::SIGTERM);
    third.ends();
    let back = cell.starts("r3", &cell.at[2], &[]).ends();
    assert_eq!(back.code, 1, "{}", back.stderr);
    assert!(back.stderr.contains("this program supports 1: start a newer one"), "{}", back.stderr);
}

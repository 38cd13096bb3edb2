//! A cell that has lost its majority goes on from one replica and grows again. What is of before is
//! refused, be it a replica or an order.

use std::time::Duration;

use nix::sys::signal::Signal;
use proto::v1;
use rpc::service::borglet_client::BorgletClient;
use rpc::{Authority, Expect, Identity, Role, Rotating, Validity};
use serde_json::Value;

use crate::enrolment::free_address;
use crate::eventually::{eventually, until};
use crate::processes;
use crate::security::wait;
use crate::terminal::{Background, Terminal};

const HOUR: Duration = Duration::from_secs(3_600);

/// A cell of replicas that are started one by one.
struct Grown {
    terminal: Terminal,
    /// Where the first replica answers.
    first: String,
}

impl Grown {
    /// One replica, and somebody who may do everything.
    #[track_caller]
    fn found() -> (Self, Background) {
        let cell = Self { terminal: Terminal::new(), first: free_address() };
        let founds = ["--name", "cc", "--administrator", "ana"];
        let master = cell.starts("r1", &cell.first, &founds);
        until("the cell is founded", || cell.terminal.path("r1/tls/ca.pem").exists());
        let whom = "certify user/ana --dir r1 --to ana";
        cell.terminal.ok(&format!("bourg master {whom} --master {}", cell.first));
        cell.has_voters(1);
        (cell, master)
    }

    fn starts(&self, directory: &str, address: &str, more: &[&str]) -> Background {
        let flags = ["master", "--dir", directory, "--listen", address];
        self.terminal.start("bourg", &[&flags[..], more].concat())
    }

    /// One more replica, from an empty directory.
    #[track_caller]
    fn adds(&self, directory: &str, address: &str) -> Background {
        let token = self.ok(&format!("master add {address}"));
        self.terminal.write("token", token);
        self.starts(directory, address, &["--join", "@token"])
    }

    #[track_caller]
    fn ok(&self, line: &str) -> String {
        self.terminal.ok(&format!("bourg --cell ana {line}"))
    }

    /// Waits until so many replicas vote and have everything, and no other is known.
    #[track_caller]
    fn has_voters(&self, voters: usize) {
        until(&format!("{voters} vote"), || {
            let listed = self.terminal.types("bourg --cell ana master list -o json").stdout;
            let listed: Vec<Value> = serde_json::from_str(&listed).unwrap_or_default();
            let index = |replica: &Value| replica["progress"]["index"].clone();
            let votes = |replica: &Value| {
                replica["member"] == "voter" && index(replica) == index(&listed[0])
            };
            listed.len() == voters && listed.iter().all(votes)
        });
    }
}

/// Gives a machine an order to run nothing, as a leader does of a restore epoch; whether it is refused.
fn is_refused(cell: &Grown, machine: &str, restore_epoch: u64, index: u64) -> bool {
    let authority = Authority::open(cell.terminal.path("r1/tls")).expect("the cell's authority");
    let issued = authority.issue(&Identity::Master, Validity::lasting(HOUR));
    let credentials = Rotating::new(issued.expect("a certificate")).expect("credentials");
    wait(async {
        let expect = Expect::Role(Role::Borglet);
        let channel = rpc::transport::connect(machine, &credentials, &expect);
        let stamp = Some(v1::Stamp { restore_epoch, term: 1 << 20, index });
        let order = Some(v1::Order { stamp, ..v1::Order::default() });
        let asked = v1::PollRequest { order, ..v1::PollRequest::default() };
        let mut client = BorgletClient::new(channel.expect("an address"));
        client.poll(asked).await.expect("it is answered").into_inner().order_refused
    })
}

#[test]
fn it_grows_again_and_refuses_replicas_and_orders_of_before() {
    let (cell, first) = Grown::found();
    let second_at = free_address();
    let second = cell.adds("r2", &second_at);
    cell.has_voters(2);
    let third = cell.adds("r3", &free_address());
    cell.has_voters(3);
    cell.terminal.write("token", cell.ok("machine token m1"));
    let flags = ["--dir", "m1", "--listen", "127.0.0.1:0", "--join", "@token", "--stop-tasks"];
    let borglet = cell.terminal.start("bourg", &[&["borglet"], &flags[..]].concat());
    until("the machine is up", || {
        cell.terminal.types("bourg --cell ana machine show m1 -o state").stdout == "up\n"
    });
    let machine = eventually("it says where it is", || {
        let said = borglet.stderr();
        let (_, after) = said.split_once("listens on ")?;
        Some(after.lines().next()?.trim().to_owned())
    });

    for replica in [third, second, first] {
        processes::signal(replica.pid(), Signal::SIGKILL);
        replica.ends();
    }
    let told = cell.terminal.types("bourg master restore --dir r1");
    assert_eq!(told.code, 0, "{}", told.stderr);
    assert!(told.stderr.contains("goes on from replica 1 alone"), "{}", told.stderr);
    let _first = cell.starts("r1", &cell.first, &[]);
    cell.has_voters(1);

    // One that comes back from before is of no use any more.
    let before = cell.starts("r2", &second_at, &[]).ends();
    assert_eq!(before.code, 9, "{}", before.stderr);
    let why = "the cell was restored since (restore epoch 1, yours is 0): remove this replica's directory";
    assert!(before.stderr.contains(why), "{}", before.stderr);
    cell.has_voters(1);
    // With an empty directory it is of use again, at the same place.
    let _second = cell.adds("again", &second_at);
    cell.has_voters(2);
    let _third = cell.adds("third", &free_address());
    cell.has_voters(3);

    // A leader of before gives orders, however late its term.
    let mut index = 1 << 40;
    until("its orders are refused", || {
        index += 1;
        is_refused(&cell, &machine, 0, index)
    });
    until("the machine says so", || borglet.stderr().contains("WARN the order is stamped"));
    assert!(!is_refused(&cell, &machine, 1, index), "one of now is obeyed");
}

//! Packages from machine to machine.

use std::fs::{File, create_dir_all, write};
use std::io::Read as _;

use nix::sys::signal::Signal;

use crate::borglets::Machine;
use crate::cell::Cell;
use crate::eventually::until;
use crate::pages::{Of, call, value};
use crate::tools::needs;

/// The size of the package, in bytes.
const SIZE: u32 = 24 << 20;

/// Builds a package of random bytes.
fn package(cell: &Cell) {
    create_dir_all(cell.path("big")).expect("it is made");
    let mut random = vec![0; usize::try_from(SIZE).expect("it is small")];
    let urandom = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
    urandom.expect("there is randomness");
    write(cell.path("big/random"), random).expect("it is written");
    cell.ok("bourg package build big --name big --version 1");
}

/// A job with a task on each machine.
fn job(cell: &Cell, name: &str, tasks: usize) {
    let job = format!(
        "{{ name: '{name}', cmd: ['wc', '-c', '/packages/big/random'], cpu: 0.05, ram: '16 MiB', \
         priority: 'free', tasks: {tasks}, maxPerMachine: {{ tasks: 1, hard: true }}, packages: ['big@1'] }}"
    );
    cell.write(&format!("{name}.bcl"), job);
}

/// What the Borglet at an address counts.
#[track_caller]
fn counted(cell: &Cell, address: &str, name: &str) -> f64 {
    needs("curl", "curl");
    let client = cell.directory().join("client");
    let (client, server) = (client.display(), Of::Borglet.server_name());
    let text = cell.ok(&format!(
        "curl --silent --show-error --cacert {client}/user.ca.pem --cert {client}/user.pem --key {client}/user.key \
         --connect-to ::{address} 'https://{server}/metrics'"
    ));
    value(&text, name).unwrap_or_default()
}

const FROM_STORES: &str = "bourg_borglet_packages_from_stores_bytes_total";
const FROM_MACHINES: &str = "bourg_borglet_packages_from_machines_bytes_total";
const SENT: &str = "bourg_borglet_packages_sent_bytes_total";

#[test]
fn machines_that_start_together_take_less_than_two_copies_from_the_store() {
    let cell = Cell::start_with(&["--machines", "6"]);
    package(&cell);
    job(&cell, "all", 6);
    cell.ok("bourg run all.bcl --wait");
    let machines = cell.ok("bourg machines -o address");
    let total =
        |name| machines.lines().map(|address| counted(&cell, address.trim(), name)).sum::<f64>();
    let (stores, others) = (total(FROM_STORES), total(FROM_MACHINES));
    let size = f64::from(SIZE);
    assert!(stores >= size && stores < 2.0 * size, "{stores} bytes from the store");
    assert!(stores + others >= 6.0 * size, "{stores} bytes from the store, {others} from machines");
    assert!(total(SENT) >= others, "what has come was sent");
}

#[test]
fn a_machine_that_is_killed_while_it_sends_does_not_fail_the_others() {
    let cell = Cell::start();
    package(&cell);
    let first = cell.ok("bourg machines -o name");
    cell.ok(&format!("bourg machine drain {}", first.trim()));
    let mut slow = Machine::start(&cell, "slow");
    slow.signal(Signal::SIGKILL);
    slow.is_gone();
    slow.start_with(&["--share-packages", "1MiB"]);
    slow.is("up");
    job(&cell, "one", 1);
    cell.ok("bourg run one.bcl --wait");
    cell.ok("bourg machine drain slow");

    let other = Machine::start(&cell, "other");
    job(&cell, "two", 1);
    cell.ok("bourg run two.bcl --detach");
    until("it sends", || counted(&cell, slow.address(), SENT) > 0.0);
    slow.signal(Signal::SIGKILL);
    slow.is_gone();
    until("the task has run", || cell.ok("bourg status two -o tasks.0.state").contains("finished"));
    assert!(counted(&cell, other.address(), FROM_STORES) > 0.0, "the rest is from the store");
}

#[test]
fn a_machine_gives_nothing_without_a_right() {
    let cell = Cell::start();
    package(&cell);
    job(&cell, "one", 1);
    cell.ok("bourg run one.bcl --wait");
    // A user has no right that counts here, whatever it may read.
    let (_, said) = call(&cell, Of::Borglet, "/bourg.v1.PackagePeers/ReadChunks");
    assert!(said.contains("grpc-status: 7"), "{said}");
    // A machine has to show a right of its own.
    write(cell.path("empty"), [0; 5]).expect("it is written");
    let (own, address) = (cell.directory().join("borglet"), Of::Borglet.address(&cell));
    let (ca, server) = (cell.directory().join("client/user.ca.pem"), Of::Borglet.server_name());
    let said = cell.ok(&format!(
        "curl --silent --show-error --http2 --include --cacert {ca} --cert {own}/borglet.pem --key {own}/borglet.key \
         --connect-to ::{address} --header 'content-type: application/grpc' --data-binary @empty \
         'https://{server}/bourg.v1.PackagePeers/ReadChunks'",
        ca = ca.display(),
        own = own.display(),
    ));
    assert!(said.contains("grpc-status: 7") && said.contains("right"), "{said}");
    assert!((counted(&cell, &address, SENT)).abs() < 0.5, "nothing was sent");
}

//! Several cells on one machine, and how commands find them.

use std::net::TcpListener;

use nix::sys::signal::Signal;

use crate::cell::Cell;
use crate::eventually::until;
use crate::pages::Of;
use crate::processes;
use crate::terminal::Background;

/// Another cell with the default name, ready.
#[track_caller]
fn second(cell: &Cell) -> Background {
    let other = cell.start("bourg", &["dev", "--dir", "other"]);
    until("the other is ready", || other.stderr().contains("Ctrl-C stops the cell"));
    other
}

#[test]
fn a_cell_that_is_kept_answers_where_it_did() {
    let mut cell = Cell::start();
    cell.ok("bourg user add ana");
    let (master, borglet) = (Of::Master.address(&cell), Of::Borglet.address(&cell));
    cell.stop();
    // An earlier release had no list of cells.
    let _none = std::fs::remove_file(cell.path("cell/addresses.toml"));
    cell.start_again(&[]);
    assert_eq!(Of::Master.address(&cell), master);
    cell.ok("bourg --cell ./ana status");
    cell.lose_power();
    cell.start_again(&[]);
    cell.ok("bourg --cell ./ana status");
    let moved = Of::Borglet.address(&cell);
    assert_ne!(moved, borglet, "nobody kept it");
    cell.stop();

    // Another user's cells.
    let taken = [&master, &moved].map(|of| TcpListener::bind(of.as_str()).expect("it is free"));
    let said = cell.fails(1, "bourg dev --dir cell -- true");
    let why =
        format!("{master}, the address of the master of this cell, is taken by another program");
    assert!(said.contains(&why) && said.contains("cell/addresses.toml"), "{said}");
    let [master_taken, _borglet_taken] = taken;
    drop(master_taken);
    // No cell knows the Borglet by its address.
    cell.start_again(&[]);
    assert_eq!(Of::Master.address(&cell), master);
    assert_ne!(Of::Borglet.address(&cell), moved);
}

#[test]
fn a_second_cell_of_one_name_is_known_by_another() {
    let cell = Cell::start();
    let other = second(&cell);
    let said = other.stderr();
    assert!(
        said.contains("another cell is registered here as dev: use bourg --cell dev-2"),
        "{said}"
    );
    let id = |name: &str| cell.ok(&format!("bourg --cell {name} cell -o stateHash"));
    assert_ne!(id("dev"), id("dev-2"));
    let said = cell.fails(2, "bourg status");
    assert!(said.contains("several cells are registered here (dev, dev-2)"), "{said}");
    assert_eq!(cell.ok("bourg cells -o name"), "dev\ndev-2\n");
    assert_eq!(cell.ok("bourg cells -o answers"), "true\ntrue\n");
    let shown = cell.ok("bourg cells");
    assert!(shown.contains(&cell.path("other/client").display().to_string()), "{shown}");
    processes::signal(other.pid(), Signal::SIGTERM);
    assert_eq!(other.ends().code, 0);
    assert_eq!(cell.ok("bourg cells -o name"), "dev\n");
    cell.ok("bourg status");
}

#[test]
fn a_dead_cell_is_not_in_the_way_and_can_be_forgotten() {
    let mut cell = Cell::start();
    let other = second(&cell);
    processes::signal(other.pid(), Signal::SIGKILL);
    other.ends();
    // Its processes end with it.
    until("it has ended", || cell.ok("bourg cells").contains("does not answer: it is not running"));
    cell.ok("bourg status");
    assert!(!cell.said().contains("rejected"), "nobody knocks in vain: {}", cell.said());
    // A client directory that somebody gave to this user, of an unreachable cell.
    cell.ok("cp -r other/client config/bourg/cells/far");
    assert_eq!(cell.ok("bourg cells -o name"), "dev\ndev-2\nfar\n");
    let ended = cell.types("bourg cells --prune -o name");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "dev\nfar\n"), "{}", ended.stderr);
    assert_eq!(ended.stderr, "dev-2 removed\n");
    assert_eq!(cell.ok("ls config/bourg/cells"), "dev\nfar\n");
    cell.stop();
    let said = cell.fails(6, "bourg status");
    assert!(said.contains("next: check that the cell is running"), "{said}");
    cell.ok("rm -r config/bourg/cells/far");
    assert_eq!(
        cell.types("bourg cells").stderr,
        "no cell is registered here: bourg dev starts one\n"
    );

    // A registered cell whose directory is gone frees its name.
    std::os::unix::fs::symlink("/no/such/client", cell.path("config/bourg/cells/dev"))
        .expect("a link");
    assert!(cell.ok("bourg cells").contains("does not answer: its directory is gone"));
    assert_eq!(cell.ok("bourg dev -- bourg cells -o name"), "dev\n");
}

//! A cell that is stopped, or loses its master, and restarts: its state is the same.

use store::log::Recovered;

use crate::cell::{Cell, Role};
use crate::eventually::{eventually, until};

/// The index and the state's digest, when nothing changes any more.
fn state(cell: &Cell) -> (u64, String) {
    let look = || {
        let ended = cell.types("bourg cell -o json");
        let cell: serde_json::Value = serde_json::from_str(&ended.stdout).ok()?;
        Some((cell["index"].as_str()?.parse().ok()?, cell["stateHash"].as_str()?.to_owned()))
    };
    let mut last = None;
    eventually("nothing changes any more", || {
        let now = look();
        let same = now.is_some() && now == last;
        last = now;
        same.then(|| last.clone()).flatten()
    })
}

/// The digest of a log's state at an index, computed here.
fn replay(cell: &Cell, index: u64) -> String {
    let log = Recovered::inspect(cell.directory().join("master/log")).expect("a whole log");
    let mut replayed = cell::Cell::default();
    log.for_each(0, |record| {
        if record.index <= index {
            let (at, op) = match record.payload {
                [] => (replayed.time(), cell::Op::Nothing),
                payload => formats::log::decode_record(payload).expect("a record"),
            };
            replayed.apply(at, &op);
        }
        Ok::<(), store::Error>(())
    })
    .expect("the log can be read");
    assert_eq!(replayed.index().0, index);
    formats::image::state_hash(&replayed).to_string()
}

#[test]
fn a_master_replays_its_log_to_the_same_state() {
    let mut cell = Cell::start_with(&["--log", "info"]);
    cell.ok("bourg run $EXAMPLES/batch.bcl");
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    cell.ok("bourg run --detach $EXAMPLES/too-big.bcl");
    cell.job("pi", "is finished", |job| job["state"] == "finished");
    let (index, hash) = state(&cell);
    assert_eq!(replay(&cell, index), hash, "the log gives the state that is served");
    cell.kill(Role::Master);
    let said = eventually("a new master leads", || {
        let said = cell.dev().stderr();
        let line = said.lines().find(|line| line.contains("leads in term 2 "))?;
        Some(line.to_owned())
    });
    // What it replayed, and the record with which its term begins.
    let expected = format!(
        "leads in term 2 at index {}, state {}",
        index + 1,
        &replay(&cell, index + 1)[..16]
    );
    assert!(said.contains(&expected), "{expected} is not in\n{said}");
    until("it answers", || cell.types("bourg cell").code == 0);
    assert_eq!(cell.ok("bourg status -a -o name | sort"), "root/hello\nroot/pi\nroot/too-big\n");
    cell.is_healthy("hello");
}

#[test]
fn jobs_run_again_after_a_stop() {
    let mut cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/batch.bcl");
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    cell.job("pi", "is finished", |job| job["state"] == "finished");
    for generation in 2..=3 {
        let collection = cell.ok("bourg status hello -o collection");
        cell.stop();
        cell.start_again(&[]);
        assert_eq!(cell.ok("bourg status hello -o collection"), collection, "it is the same job");
        cell.job("hello", "is healthy again", |job| {
            job["tasks"][0]["generation"] == generation && job["counts"]["healthy"] == 3
        });
        assert_eq!(cell.ok("bourg status pi -o state"), "finished\n");
        assert!(cell.ok("bourg logs pi").contains("pi/3  seed 3: "), "logs outlive a stop");
        assert_eq!(cell.ok("bourg machines -o state"), "up\n");
    }
}

#[test]
fn a_directory_has_one_master_at_a_time() {
    let cell = Cell::start();
    let holder = cell.pid(Role::Master).expect("the master runs");
    let line = "bourg master --dir cell/master --name dev --administrator root";
    let said = cell.fails(1, line);
    assert!(said.contains(&format!("is in use by process {holder}")), "{said}");
    let said = cell.fails(1, "bourg dev --dir cell -- true");
    assert!(said.contains(&format!("is in use by process {holder}")), "{said}");
    assert_eq!(cell.pid(Role::Master), Some(holder), "the first one runs on");
    cell.ok("bourg run $EXAMPLES/hello.bcl");
}

//! What a master recovers from the log of a long history.

use cell::Cell;
use checkpoint::Origin;
use masterd::Records;
use masterd::recover::{record, recover};
use model::{RestoreEpoch, Term, Time};
use replica::{Input, Output, Replica, Settings};
use store::DataDirectory;
use store::log::{RecordKind, RecordRef};

use crate::history::write_history;

/// Runs a master from its start until it leads, with its records written; returns its cell.
fn start(directory: &DataDirectory) -> Cell {
    let (mut log, recovered) = recover(directory).expect("it can be read");
    let now = Time(1);
    let replica = Replica::new(Settings::default(), Records, now, recovered, None);
    let mut replica = replica.expect("settings are good");
    let (mut inputs, mut leads) = (Vec::new(), false);
    while !leads {
        let mut outputs = Vec::new();
        replica.step(now, inputs.drain(..), &mut outputs).expect("it can go on");
        for output in outputs {
            match output {
                Output::Leads(_) => leads = true,
                Output::Persist(persist) => {
                    if let Some(state) = persist.hard_state {
                        let (kind, term, payload) =
                            (RecordKind::HardState, state.term.0, &state.to_bytes());
                        let record = RecordRef { kind, term, index: 0, level: 0, payload };
                        log.append(&[record]).expect("there is room");
                    }
                    for entry in &persist.entries {
                        log.append(&[record(entry)]).expect("there is room");
                    }
                    log.sync().expect("the disk works");
                    inputs.push(Input::Persisted(persist.number));
                }
                _ => {}
            }
        }
    }
    replica.cell().clone()
}

fn write(directory: &DataDirectory, cell: &Cell, term: u64) {
    let origin = Origin { term: Term(term), restore_epoch: RestoreEpoch::after(4, 0) };
    let written = checkpoint::write_in(&directory.checkpoints(), &cell.image(), origin);
    written.expect("a checkpoint");
}

#[test]
fn a_checkpoint_and_its_later_log_equal_the_whole_log() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let path = place.path().join("master");
    let directory = DataDirectory::create(&path).expect("a data directory");
    write_history(&directory, 2_000, None).expect("a log");
    let early = start(&directory);
    write(&directory, &early, 2);

    let with_checkpoint = start(&directory);
    let (_, recovered) = recover(&directory).expect("it can be read");
    let (cell, _) = recovered.checkpoint.expect("it begins with the checkpoint");
    assert_eq!((cell.index(), recovered.restore_epoch), (early.index(), RestoreEpoch::after(4, 0)));
    assert!(recovered.entries.len() < 10, "and reads only what came after it");

    for checkpoint in store::checkpoint::list(directory.checkpoints()).expect("a list") {
        store::checkpoint::remove(&checkpoint).expect("it can be removed");
    }
    let whole = start(&directory);
    let (one, other) = (with_checkpoint.image(), whole.image());
    assert!(other.index > one.index, "each start adds the entry of its term");
    assert_eq!(
        (one.jobs, one.machines, one.sessions),
        (other.jobs, other.machines, other.sessions)
    );
}

#[test]
fn a_damaged_checkpoint_gives_way_to_the_one_before_it() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let path = place.path().join("master");
    let directory = DataDirectory::create(&path).expect("a data directory");
    write_history(&directory, 100, None).expect("a log");
    let first = start(&directory);
    write(&directory, &first, 2);
    let second = start(&directory);
    write(&directory, &second, 3);
    let newest = &store::checkpoint::list(directory.checkpoints()).expect("a list")[0];
    let mut bytes = std::fs::read(&newest.path).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&newest.path, bytes).expect("written");
    let (_, recovered) = recover(&directory).expect("it can be read");
    let (cell, _) = recovered.checkpoint.expect("the one before it");
    assert_eq!(cell.index(), first.index());
    assert_eq!(start(&directory).image().jobs, second.image().jobs);
}

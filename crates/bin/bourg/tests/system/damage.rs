//! A master whose directory is damaged, emptied, copied, or restored from an older copy reports it,
//! says what to do, and does not use the directory. Acknowledged data is given up only explicitly.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::cell::Cell;
use crate::disk::{newest_segment, overwrite};
use crate::eventually::{eventually, until};
use crate::grown::Grown;
use crate::pages::{Of, metrics, value};
use crate::processes;
use crate::terminal::Background;

/// A cell in a given directory, with this many jobs that fit nowhere, killed like by a power
/// failure.
fn without_power(jobs: usize) -> Cell {
    let mut cell = Cell::start();
    submit(&cell, 0..jobs);
    cell.lose_power();
    cell
}

fn submit(cell: &Cell, jobs: std::ops::Range<usize>) {
    let job =
        |number| format!("b.batch('job-{number}', cmd=['true']) {{ cpu: 1000, priority: 'free' }}");
    let all: Vec<_> = jobs.map(job).collect();
    let text = format!("local b = import 'borg.libsonnet';\n[{}]", all.join(", "));
    cell.write("jobs.bcl", text);
    cell.ok("bourg run --detach jobs.bcl");
}

fn jobs(cell: &Cell) -> usize {
    cell.ok("bourg --consistent status -o name").lines().count()
}

/// Starts the cell, which has to end by itself; returns its output.
#[track_caller]
fn refuses(cell: &mut Cell) -> String {
    cell.begin(&[]);
    let ended = eventually("it ends", || cell.dev().code());
    let said = cell.said();
    assert_eq!(ended, 1, "{said}");
    cell.stop_ended();
    said
}

/// The command in an error that accepts a loss.
#[track_caller]
fn acceptance(said: &str) -> String {
    let (_, command) = said.split_once("bourg master restore").expect("the command is said");
    let (command, _) = command.split_once(" gives up").expect("and what it does");
    format!("bourg master restore{command}")
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp is there").success());
}

/// One changed byte in the last record used to be reported as never acknowledged.
#[test]
fn a_changed_byte_at_the_logs_end_is_no_torn_write() {
    let mut cell = without_power(3);
    let (segment, end) = newest_segment(&cell);
    let bytes = fs::read(&segment).expect("a segment");
    // In the last record, and in one of the last records other than a note.
    for at in [end - 2, end - 200, end - 700] {
        overwrite(&segment, at, &[!bytes[at]]);
        let said = refuses(&mut cell);
        assert!(said.contains("the log is damaged at "), "{said}");
        assert!(said.contains("bourg master remove, bourg master add"), "{said}");
        assert!(
            said.contains("cannot be restarted in its current state, and the cell has no other"),
            "{said}"
        );
        overwrite(&segment, at, &[bytes[at]]);
    }
    cell.start_again(&[]);
    assert_eq!(jobs(&cell), 3);
}

#[test]
fn half_a_log_is_refused_until_its_loss_is_accepted_explicitly() {
    let mut cell = without_power(40);
    let (segment, end) = newest_segment(&cell);
    let whole = fs::metadata(&segment).expect("a segment").len();
    let file = fs::File::options().write(true).open(&segment).expect("a segment");
    file.set_len(end as u64 / 2).expect("it can be cut");
    let said = refuses(&mut cell);
    assert!(said.contains(&format!("bytes and was made with {whole}")), "{said}");
    let other = cell.types("bourg master restore --dir cell/master --accept-loss segment-1");
    assert_eq!(other.code, 1, "{}", other.stderr);
    assert!(other.stderr.contains("name the one found"), "{}", other.stderr);
    let plain = cell.fails(1, "bourg master restore --dir cell/master");
    assert!(plain.contains("nothing was changed"), "{plain}");

    let accepted = cell.types(&acceptance(&said));
    assert_eq!(accepted.code, 0, "{}", accepted.stderr);
    let kept: Vec<_> = accepted.stderr.lines().filter(|line| line.contains("kept in")).collect();
    assert!(kept.len() == 1 && kept[0].ends_with(".lost"), "{}", accepted.stderr);
    cell.start_again(&[]);
    let left = jobs(&cell);
    assert!((1..40).contains(&left), "{left} of 40");
    submit(&cell, 100..101);
    cell.stop();
    cell.start_again(&[]);
    assert_eq!(jobs(&cell), left + 1);
}

#[test]
fn a_log_that_was_deleted_is_missed() {
    let mut cell = without_power(3);
    let (segment, _) = newest_segment(&cell);
    let (log, aside) = (cell.path("cell/master/log"), cell.path("aside"));
    fs::rename(&segment, &aside).expect("it can be moved");
    let said = refuses(&mut cell);
    assert!(said.contains("it had records, and no segment was found"), "{said}");
    assert!(said.contains(&log.display().to_string()), "{said}");
    fs::remove_file(log.join("newest-segment")).expect("it is there");
    let said = refuses(&mut cell);
    assert!(said.contains("it had records, and no segment was found"), "{said}");
    assert!(acceptance(&said).ends_with("--accept-loss log"), "{said}");
    fs::remove_dir_all(&log).expect("it is there");
    let said = refuses(&mut cell);
    assert!(said.contains("it had records, and no segment was found"), "{said}");
    // There is no checkpoint yet from which to continue.
    let nothing = cell.types(&acceptance(&said));
    assert_eq!(nothing.code, 1);
    assert!(nothing.stderr.contains("no state of the cell is left"), "{}", nothing.stderr);
    assert!(nothing.stderr.contains("bourg checkpoint load"), "{}", nothing.stderr);
}

#[test]
fn a_directory_is_known_from_its_copy_and_may_be_moved() {
    let mut cell = Cell::start();
    submit(&cell, 0..2);
    cell.stop();
    copy(&cell.path("cell/master"), &cell.path("copy"));
    fs::rename(cell.path("cell"), cell.path("moved")).expect("it can be moved");
    fs::rename(cell.path("moved"), cell.path("cell")).expect("it can be moved");
    cell.start_again(&[]);
    submit(&cell, 2..4);
    cell.stop();
    // Restored from an older copy: the last two records are missing, and this must be detected.
    fs::remove_dir_all(cell.path("cell/master")).expect("it is there");
    fs::rename(cell.path("copy"), cell.path("cell/master")).expect("it can be moved");
    let said = refuses(&mut cell);
    assert!(said.contains("it was copied or restored from a copy"), "{said}");
    assert!(said.contains("bourg master restore --dir "), "{said}");
    cell.ok("bourg master restore --dir cell/master");
    cell.start_again(&[]);
    assert_eq!(jobs(&cell), 2);
}

/// A dev cell whose only master's directory was deleted does not bootstrap another cell in its
/// place.
#[test]
fn a_directory_deleted_under_a_running_cell_is_not_recreated() {
    let mut cell = Cell::start();
    submit(&cell, 0..2);
    fs::remove_dir_all(cell.path("cell/master")).expect("it is there");
    cell.kill(crate::cell::Role::Master);
    let ended = eventually("it ends", || cell.dev().code());
    let said = cell.said();
    assert_eq!(ended, 1, "{said}");
    assert!(said.contains("the data directory of this replica is gone"), "{said}");
    cell.stop_ended();
    assert!(!cell.path("cell/master").exists());
    let said = refuses(&mut cell);
    assert!(said.contains("belongs to a cell whose master directories are all gone"), "{said}");
}

/// The scenario: all replicas were killed, one was emptied, and one was behind.
#[test]
fn an_emptied_replica_of_a_dev_cell_comes_back_as_another_one() {
    let mut cell = Cell::start_with(&["--replicas", "3"]);
    let third = fs::read_to_string(cell.path("cell/run/master-3.pid")).expect("a pid");
    processes::signal(third.trim().parse().expect("a pid"), Signal::SIGSTOP);
    submit(&cell, 0..20);
    cell.lose_power();
    fs::remove_dir_all(cell.path("cell/master-2")).expect("it is there");
    cell.start_again(&[]);
    assert_eq!(jobs(&cell), 20);
    let said = cell.said();
    assert!(said.contains("the directory of replica 2 is gone"), "{said}");
    let listed = cell.ok("bourg master list -o name");
    assert_eq!(listed.lines().collect::<Vec<_>>(), ["1", "3", "4"]);
}

/// Stops a replica, and waits for its end.
#[track_caller]
fn end(replica: Background) {
    processes::signal(replica.pid(), Signal::SIGTERM);
    replica.ends();
}

/// Starts a replica, which has to exit with status 9; returns its output.
#[track_caller]
fn is_not_to_be_started(cell: &Grown, directory: &str, address: &str) -> String {
    let mut replica = cell.starts(directory, address, &[]);
    let code = eventually("it ends", || replica.code());
    let said = replica.stderr();
    assert_eq!(code, 9, "{said}");
    said
}

/// The users of the cell, read from a replica that is alive.
fn users(cell: &Grown) -> String {
    cell.ok("user list -o name")
}

/// The scenario: one of three replicas was restored, and the two others used to exit because of it.
#[test]
fn a_checkpoint_does_not_take_over_a_cell_that_lives() {
    let (cell, [first, second, third]) = Grown::of_three();
    cell.ok("checkpoint save saved");
    cell.ok("user add ben");
    end(third);
    let directory = |name: &str| cell.terminal.path(name);
    fs::rename(directory("r3"), directory("old")).expect("it can be moved");
    let load = "bourg checkpoint load saved --dir r3 --tls old";
    let said = cell.terminal.fails(2, load);
    for member in &cell.at {
        assert!(said.contains(member), "{said}");
    }
    assert!(said.contains("is of cell cc with replicas 1 at"), "{said}");
    assert!(said.contains("bourg master remove, then bourg master add"), "{said}");
    assert!(said.contains("--replace-cell") && !directory("r3").exists(), "{said}");

    cell.terminal.ok(&format!("{load} --replace-cell"));
    let said = is_not_to_be_started(&cell, "r3", &cell.at[2]);
    assert!(said.contains("the cell is alive: replica "), "{said}");
    assert!(said.contains("remove it and add a new one with an empty directory"), "{said}");
    assert_eq!(users(&cell), "ana\nben\n", "the cell goes on");

    // Its advice helps.
    fs::remove_dir_all(directory("r3")).expect("it is there");
    cell.ok("master remove 3");
    let third = cell.adds("r3", &cell.at[2]);
    cell.has_voters(3);
    assert_eq!(users(&cell), "ana\nben\n");
    [first, second, third].into_iter().for_each(end);
}

/// The restored replica saw nobody when it started: the cell still continues, and reports the
/// conflict.
#[test]
fn a_cell_that_lives_refuses_a_replica_that_was_restored() {
    let (cell, [first, second, third]) = Grown::of_three();
    let led = std::time::Instant::now();
    cell.ok("checkpoint save saved");
    cell.ok("user add ben");
    end(third);
    let directory = |name: &str| cell.terminal.path(name);
    fs::rename(directory("r3"), directory("old")).expect("it can be moved");
    cell.terminal.ok("bourg checkpoint load saved --dir r3 --tls old --replace-cell");
    until("the cell has had a leader for long", || led.elapsed().as_secs() > 10);
    let both = [&first, &second].map(Background::pid);
    both.into_iter().for_each(|pid| processes::signal(pid, Signal::SIGSTOP));
    let third = cell.starts("r3", &cell.at[2], &[]);
    until("it goes on without them", || third.stderr().contains("continues without them"));
    both.into_iter().for_each(|pid| processes::signal(pid, Signal::SIGCONT));
    let says = "continues from a restored checkpoint while this cell is alive, and was rejected";
    // The leader contacts it.
    let said = eventually("the leader refuses it", || {
        [&first, &second].map(Background::stderr).into_iter().find(|said| said.contains(says))
    });
    assert!(said.contains("bourg master remove 3, bourg master add"), "{said}");
    end(third);
    assert_eq!(users(&cell), "ana\nben\n", "the cell goes on");
    [first, second].into_iter().for_each(end);
}

#[test]
fn a_directory_of_another_replica_or_of_before_is_not_started() {
    let (cell, [first, second, third]) = Grown::of_three();
    let directory = |name: &str| cell.terminal.path(name);
    copy(&directory("r2"), &directory("older"));
    cell.ok("user add ben");
    end(second);
    end(third);
    // The third has the second's directory.
    fs::rename(directory("r3"), directory("own")).expect("it can be moved");
    copy(&directory("r2"), &directory("r3"));
    let said = is_not_to_be_started(&cell, "r3", &cell.at[2]);
    assert!(said.contains("it was copied or restored from a copy"), "{said}");
    assert!(said.contains("(bourg master remove, bourg master add)"), "{said}");
    // The second is restored from an older copy: with the third it would lose ben.
    fs::rename(directory("r2"), directory("newer")).expect("it can be moved");
    fs::rename(directory("older"), directory("r2")).expect("it can be moved");
    let said = is_not_to_be_started(&cell, "r2", &cell.at[1]);
    assert!(said.contains("what replica 2 has acknowledged"), "{said}");

    fs::remove_dir_all(directory("r3")).expect("it is there");
    fs::rename(directory("own"), directory("r3")).expect("it can be moved");
    let third = cell.starts("r3", &cell.at[2], &[]);
    until("two of three serve", || cell.types("user list -o name").stdout == "ana\nben\n");
    // With its former file it is another directory than the one that the cell has recorded.
    fs::remove_file(directory("r2/directory-id")).expect("it is there");
    let said = is_not_to_be_started(&cell, "r2", &cell.at[1]);
    assert!(said.contains("has data directory ") || said.contains("by data directory "), "{said}");
    end(first);
    end(third);
}

/// A snapshot of a whole disk is indistinguishable from the disk itself: only the other replicas
/// can detect it.
#[test]
fn a_replica_that_knows_committed_records_stops_and_keeps_them() {
    let (cell, [first, second, third]) = Grown::of_three();
    let directory = |name: &str| cell.terminal.path(name);
    let (segment, _) = newest_in(&directory("r2/log"));
    let before = fs::read(&segment).expect("a segment");
    end(third);
    cell.ok("user add ben");
    until("the second has it", || {
        let listed = cell.listed();
        let index = |id: usize| listed.get(id).map(|it| it["progress"]["index"].clone());
        index(0).is_some() && index(0) == index(1)
    });
    end(second);
    end(first);
    // In place, so that the second cannot notice.
    let file = fs::File::options().write(true).open(&segment).expect("a segment");
    std::os::unix::fs::FileExt::write_all_at(&file, &before, 0).expect("it can be written");
    let (second, third) =
        (cell.starts("r2", &cell.at[1], &[]), cell.starts("r3", &cell.at[2], &[]));
    until("they forgot ben", || cell.types("user list -o name").stdout == "ana\n");
    let said = is_not_to_be_started(&cell, "r1", &cell.at[0]);
    assert!(said.contains("leads without record"), "{said}");
    assert!(said.contains("bourg master restore"), "{said}");
    end(second);
    end(third);
    // It has them all.
    cell.terminal.ok("bourg master restore --dir r1");
    let first = cell.starts("r1", &cell.at[0], &[]);
    until("ben is back", || cell.types("user list -o name").stdout == "ana\nben\n");
    end(first);
}

/// The newest segment of a log.
fn newest_in(log: &Path) -> (PathBuf, u64) {
    let files = fs::read_dir(log).expect("a log").map(|file| file.expect("a file").path());
    let segments = files.filter(|path| path.extension().is_some_and(|it| it == "log"));
    let newest = segments.max().expect("a segment");
    let bytes = fs::metadata(&newest).expect("a segment").len();
    (newest, bytes)
}

/// With its bootstrap flags an emptied replica would bootstrap another cell: nobody accepts it as
/// theirs.
#[test]
fn clients_pass_over_another_cell_at_an_address_of_theirs() {
    let (cell, [first, second, third]) = Grown::of_three();
    cell.ok("user add ben");
    end(first);
    fs::remove_dir_all(cell.terminal.path("r1")).expect("it is there");
    let founds = ["--name", "cc", "--administrator", "ana"];
    let foreign = cell.starts("r1", &cell.at[0], &founds);
    until("another cell is there", || foreign.stderr().contains("leads in term"));
    let listed = cell.types("user list -o name");
    assert_eq!((listed.code, listed.stdout.as_str()), (0, "ana\nben\n"), "{}", listed.stderr);
    let says =
        format!("warning: {} does not belong to cell cc, trying another address", cell.at[0]);
    assert!(listed.stderr.contains(&says), "{}", listed.stderr);
    let followed = cell.types("events");
    assert_eq!(followed.code, 0, "{}", followed.stderr);
    [second, third, foreign].into_iter().for_each(end);
}

/// With the authority left in it, clients would accept it as the same cell, with nothing in it.
#[test]
fn a_directory_that_was_emptied_but_for_its_authority_founds_nothing() {
    let (cell, [first, second, third]) = Grown::of_three();
    end(first);
    let directory = |name: &str| cell.terminal.path(name);
    copy(&directory("r1/tls"), &directory("tls"));
    fs::remove_dir_all(directory("r1")).expect("it is there");
    fs::create_dir(directory("r1")).expect("it can be made");
    fs::rename(directory("tls"), directory("r1/tls")).expect("it can be moved");
    let flags = ["--name", "cc", "--administrator", "ana"];
    let mut replica = cell.starts("r1", &cell.at[0], &flags);
    let code = eventually("it ends", || replica.code());
    let said = replica.stderr();
    assert_eq!(code, 9, "{said}");
    assert!(said.contains("was emptied: there is nothing in it of the cell"), "{said}");
    [second, third].into_iter().for_each(end);
}

#[test]
fn records_that_are_replaced_are_counted() {
    let cell = Cell::start();
    let counted = metrics(&cell, Of::Master);
    assert_eq!(value(&counted, "bourg_log_records_replaced_total"), Some(0.0));
    assert_eq!(value(&counted, "bourg_restored_replicas_refused_total"), Some(0.0));
}

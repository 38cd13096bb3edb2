//! Checkpoints of the whole cell: saving, verifying, showing, editing by hand, and restoring; and
//! past states of the cell.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cell::{Cell, Role};
use crate::eventually::{eventually, until};
use crate::processes;
use crate::terminal::Terminal;

/// The checkpoint of the first level in the repository: a cell named `kept` with every kind of
/// object.
fn with_kept(name: &str) -> Terminal {
    let terminal = Terminal::new();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../boundary/checkpoint/tests/kept/level-1.checkpoint");
    fs::copy(kept, terminal.path(name)).expect("it can be copied");
    terminal
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// A cell that has run two jobs, one of which is still running.
fn busy() -> Cell {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/batch.bcl");
    cell.job("pi", "is finished", |job| job["state"] == "finished");
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    cell
}

#[test]
fn a_cell_is_saved_and_another_one_goes_on_from_it() {
    let mut cell = busy();
    let said = cell.types("bourg checkpoint save saved").stderr;
    assert!(said.starts_with("saved: cell dev as of index "), "{said}");
    let verified = cell.ok("bourg checkpoint verify saved");
    assert!(verified.starts_with("cell      dev\n"), "{verified}");
    assert!(verified.ends_with("consistent\n"), "{verified}");
    assert!(verified.contains("jobs      2 with 7 tasks, dead ones included\n"), "{verified}");
    let index = number(&cell.ok("bourg checkpoint verify saved -o index"));
    let hash = cell.ok("bourg checkpoint verify saved -o stateHash");
    assert_eq!(cell.ok(&format!("bourg cell --at {index} -o stateHash")), hash);
    assert!(said.contains(&format!("index {index}, ")) && said.contains(&hash[..16]), "{said}");

    // A line for the cell, each machine, each job and each session.
    let shown = cell.ok("bourg checkpoint show saved");
    let lines = shown.lines().map(|line| serde_json::from_str(line).expect("this is JSON"));
    let lines: Vec<Value> = lines.collect();
    assert_eq!(lines[0]["head"]["name"], "dev");
    assert_eq!(lines[0]["head"]["index"], index.to_string());
    assert_eq!(lines.iter().filter(|line| line["job"].is_object()).count(), 2);
    assert_eq!(cell.types("bourg checkpoint show saved | head -n 1 > first").code, 0);

    // An earlier state, and again under the same name.
    let earlier = format!("bourg checkpoint save earlier --at {}", index - 3);
    for _ in 0..2 {
        cell.ok(&earlier);
        assert_eq!(
            cell.ok("bourg checkpoint verify earlier -o stateHash"),
            cell.ok(&format!("bourg cell --at {} -o stateHash", index - 3))
        );
    }
    assert_eq!(cell.ok("ls *.tmp 2>&1 | grep -c '^earlier' || true"), "0\n", "nothing is left");
    let said = cell.fails(2, "bourg checkpoint save later --at 1000000");
    assert!(said.contains("index 1000000 is not there yet"), "{said}");
    cell.ok("echo notes > notes");
    let said = cell.fails(2, "bourg checkpoint save notes");
    assert!(said.contains("notes exists and is not a checkpoint"), "{said}");
    assert_eq!(cell.ok("cat notes; ls later 2>&1 | wc -l"), "notes\n1\n");
    let said = cell.fails(2, "bourg checkpoint save missing/saved");
    assert!(said.contains("no directory missing"), "{said}");

    let line = "bourg checkpoint load saved --dir other/master";
    let said = cell.types(line).stderr;
    let loaded = format!("other/master: cell dev as of index {index}, ");
    assert!(said.starts_with(&loaded) && said.contains("restore epoch 1-"), "{said}");
    assert!(said.contains("the certificate authority is new"), "{said}");
    let said = cell.fails(2, line);
    assert!(said.contains("other/master is not empty; nothing was changed"), "{said}");
    let said = cell.fails(2, "bourg checkpoint load saved --dir cell/master");
    assert!(said.contains("cell/master is not empty; nothing was changed"), "{said}");
    cell.ok("mkdir --mode 700 empty && bourg checkpoint load saved --dir empty");
    assert_eq!(cell.ok("ls -A | grep loading || true"), "", "nothing unfinished is left");
    let there = cell.ok("bourg status -a -o json");
    let term = number(&cell.ok("bourg cell -o term"));
    cell.stop();

    let line = "bourg dev --dir other -- sh -c 'bourg status -a -o json > jobs;
        bourg cell -o json > now; bourg checkpoint save again --at INDEX;
        bourg checkpoint show again > begins; bourg checkpoint save again;
        bourg cell --at 1; echo $? > code;
        bourg status pi -o state; bourg status pi -o tasks.0.generation'";
    let ended = cell.types(&line.replace("INDEX", &index.to_string()));
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "finished\n1\n"), "{}", ended.stderr);
    // It starts in the saved state, except for the next ids.
    let begins = cell.ok("cat begins");
    let head = |text: &str| -> Value {
        let first = text.lines().next().unwrap_or_default();
        serde_json::from_str(first).expect("this is JSON")
    };
    assert!(begins.lines().skip(1).eq(shown.lines().skip(1)), "{begins}");
    let last = |text: &str| number(head(text)["head"]["lastCollection"].as_str().unwrap_or("0"));
    assert_eq!(last(&begins), last(&shown) + 1_000_000_000);
    let jobs = |text: &str| -> Vec<Value> {
        let jobs: Value = serde_json::from_str(text).expect("this is JSON");
        let jobs = jobs.as_array().expect("jobs").iter();
        jobs.map(|job| [&job["collection"], &job["spec"], &job["submitted"]].map(Clone::clone))
            .map(|facts| facts.to_vec().into())
            .collect()
    };
    assert_eq!(jobs(&cell.ok("cat jobs")), jobs(&there));
    let now: Value = serde_json::from_str(&cell.ok("cat now")).expect("this is JSON");
    assert_eq!(now["term"], (term + 1).to_string());
    assert_eq!(now["violations"], "0");
    assert!(cell.ok("bourg checkpoint verify again -o restoreEpoch").starts_with("1-"));
    let kept = format!("the retained history starts at index {index}, after the requested state");
    assert!(ended.stderr.contains(&kept), "{}", ended.stderr);
    assert_eq!(cell.ok("cat code"), "2\n");
}

#[test]
fn a_loaded_cell_takes_over_the_machines_of_the_former_one() {
    let mut cell = busy();
    let tasks = cell.tasks("hello");
    assert_eq!(tasks.len(), 3);
    cell.ok("bourg checkpoint save saved");
    // The former cell continues: its orders are newer than everything in the checkpoint.
    cell.ok("bourg kill pi; sed s/\"'hello'\"/\"'other'\"/ $EXAMPLES/hello.bcl > other.bcl");
    cell.ok("bourg run other.bcl");
    let line = "bourg checkpoint load saved --dir restored --tls";
    let said = cell.fails(2, &format!("{line} config"));
    assert!(said.contains("config contains no certificate authority"), "{said}");
    let said = cell.types(&format!("{line} cell/master")).stderr;
    assert!(
        said.contains("restore epoch 1-") && said.contains("\nnext: bourg master --dir restored"),
        "{said}"
    );

    let arguments = ["master", "--dir", "restored", "--name", "dev", "--administrator", "root"];
    let mut refused = cell.start("bourg", &arguments);
    assert_eq!(eventually("it ends", || refused.code()), 9, "the former cell lives");
    let said = refused.stderr();
    assert!(said.contains("would take over its machines. Remove this directory"), "{said}");
    // It looks gone until the new one has started.
    let former = cell.pid(Role::Master).expect("it runs");
    processes::signal(former, Signal::SIGSTOP);
    let restored = cell.start("bourg", &arguments);
    let address = eventually("it says where it listens", || {
        let said = restored.stderr();
        let line = said.lines().find_map(|line| line.split_once("listening on "))?;
        Some(line.1.trim().to_owned())
    });
    cell.ok("mkdir new && cp cell/client/user.* new/");
    cell.write("new/cell.toml", format!("cell = \"dev\"\nmasters = [\"{address}\"]\n"));
    until("it answers", || cell.types("bourg --cell ./new cell").code == 0);
    processes::signal(former, Signal::SIGCONT);
    assert_eq!(cell.ok("bourg --cell ./new status -o name"), "root/hello\n");
    until("the machine obeys it", || {
        let stamp = fs::read_to_string(cell.path("cell/borglet/stamp.json")).unwrap_or_default();
        let stamp: Value = serde_json::from_str(&stamp).unwrap_or_default();
        stamp["restoreEpoch"] == "1"
    });
    until("what it does not know is ended", || cell.tasks("other").is_empty());
    assert_eq!(cell.tasks("hello"), tasks, "what it knows runs on");
    let job = cell.ok("bourg --cell ./new status hello -o json");
    let job: Value = serde_json::from_str(&job).expect("this is JSON");
    assert_eq!(
        (&job[0]["counts"]["healthy"], &job[0]["tasks"][0]["generation"]),
        (&3.into(), &1.into())
    );
    cell.ok("bourg --cell ./new kill hello");
    assert!(cell.tasks("hello").is_empty(), "and does as it says");

    // A further restoration gets a higher epoch.
    let again = "bourg checkpoint load saved --dir";
    let said = cell.types(&format!("{again} twice --tls restored")).stderr;
    assert!(said.contains("restore epoch 2-"), "{said}");
    let said = cell.fails(2, &format!("{again} thrice --tls restored --restore-epoch 1"));
    assert!(said.contains("must be above that of the former cell, 1"), "{said}");
    let said = cell.types(&format!("{again} thrice --restore-epoch 70")).stderr;
    assert!(said.contains("restore epoch 70-"), "{said}");
    drop(restored);
    cell.stop();
}

#[test]
fn only_administrators_save_the_cell() {
    let cell = Cell::start();
    let authority = rpc::Authority::open(cell.path("cell/master/tls")).expect("the authority");
    let hour = std::time::Duration::from_secs(3_600);
    let eve = rpc::Identity::User("eve".to_owned());
    let eve = authority.issue(&eve, rpc::Validity::lasting(hour)).expect("a certificate");
    cell.ok("mkdir eve && cp cell/client/cell.toml eve/");
    eve.write(cell.path("eve"), "user").expect("it can be written");
    for at in ["", "--at 2"] {
        let said = cell.fails(3, &format!("bourg --cell ./eve checkpoint save stolen {at}"));
        assert!(said.contains("eve may not save a checkpoint"), "{said}");
    }
    assert_eq!(cell.ok("ls | grep stolen || true"), "");
    cell.ok("bourg checkpoint save mine && test $(stat -c %a mine) = 600");
}

#[test]
fn a_hand_edited_checkpoint_is_checked_before_it_counts() {
    let terminal = with_kept("c");
    terminal.ok("bourg checkpoint show c > text && cp c before");
    let said = terminal.types("bourg checkpoint edit c --from text").stderr;
    assert_eq!(said, "nothing was changed\n");
    for (change, expected) in [
        ("3s/{/[/", "bad: line 3: column 1: "),
        ("3s/\"m2\"/\"not a name\"/", "bad: line 3: machine.name: "),
        ("1s/\"level\":1/\"level\":99/", "bad: line 1: head.level: needs level 99"),
        ("2d", "head.machines: is "),
        (
            "s/\"machine\":\"2\"/\"machine\":\"5000\"/",
            "bad: not a valid cell: a task of job 3 is on machine 5000, ",
        ),
        ("s/\"used\":\"/&9/", "error: bad is inconsistent in 3 places; nothing was changed"),
    ] {
        terminal.ok(&format!("sed '{change}' text > bad; ! cmp -s bad text"));
        let said = terminal.fails(2, "bourg checkpoint edit c --from bad");
        assert!(said.contains(expected), "{change}: {expected} is not in\n{said}");
    }
    let said = terminal.fails(2, "bourg checkpoint edit c --from missing");
    assert!(said.contains("missing: cannot read it"), "{said}");
    assert_eq!(terminal.ok("cmp c before && ls c.*; true"), "", "nothing was changed");

    // A good change, in an editor.
    terminal.ok("EDITOR=\"sed -i 's/a new kernel/a broken fan/'\" bourg checkpoint edit c");
    assert!(terminal.ok("bourg checkpoint show c").contains("\"reason\":\"a broken fan\""));
    assert!(terminal.ok("bourg checkpoint verify c").ends_with("consistent\n"));
    assert_eq!(terminal.ok("cmp c.bak before && ls c.*"), "c.bak\n");
    let epoch = "1-0000000000000000\n";
    assert_eq!(terminal.ok("bourg checkpoint verify c -o restoreEpoch"), epoch, "it stays");

    // Editors that fail, that are not set, and that corrupt the text.
    terminal.fails(1, "EDITOR=false bourg checkpoint edit c");
    let said = terminal.fails(2, "unset EDITOR VISUAL; bourg checkpoint edit c");
    assert!(said.contains("neither VISUAL nor EDITOR"), "{said}");
    let said = terminal.fails(2, "EDITOR='sed -i 1s/level/lever/' bourg checkpoint edit c");
    assert!(said.contains("c.edit.jsonl: line 1: ") && said.contains("--from"), "{said}");
    let said = terminal.fails(2, "EDITOR=true bourg checkpoint edit c");
    assert!(
        said.contains("c.edit.jsonl exists: it is left from an edit that was not applied"),
        "{said}"
    );
    terminal.ok("sed -i '1s/lever/level/; s/a broken fan/two broken fans/' c.edit.jsonl");
    terminal.ok("bourg checkpoint edit c --from c.edit.jsonl && test -e c.bak2");

    // A contradiction is accepted only with --force, and every later check reports it.
    terminal.ok("bourg checkpoint edit c --from bad --force");
    let ended = terminal.types("bourg checkpoint verify c");
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("error: c is inconsistent in 3 places"), "{}", ended.stderr);
    assert_eq!(ended.stdout.matches("session").count(), 4, "{}", ended.stdout);
    let said = terminal.fails(2, "bourg checkpoint load c --dir d/master");
    assert!(said.contains("next: correct it, or pass --force"), "{said}");
    assert!(!terminal.path("d").exists(), "nothing was made");
    terminal.ok("bourg checkpoint load c --dir d/master --force --replace-cell");
    let directory = terminal.path("d");
    let mut cell = Cell::start_in(terminal, &directory, &["--name", "kept"]);
    until("the master has looked", || cell.ok("bourg cell -o violations") == "3\n");
    assert!(cell.ok("bourg cell").contains("\nviolations    3, see the master's log\n"));
    let said = cell.dev().stderr();
    assert!(said.contains("the cell violates an invariant as of index "), "{said}");
    assert_eq!(cell.ok("bourg machines -o name | grep '^m1$'"), "m1\n");
    assert_eq!(cell.ok("bourg status ana/done -o state"), "finished\n", "the kept cell lives");
}

#[test]
fn a_damaged_checkpoint_is_refused_everywhere() {
    let terminal = with_kept("whole");
    let bytes = fs::read(terminal.path("whole")).expect("it is there");
    let damaged = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        bytes
    };
    terminal.write("flipped", damaged(bytes.len() / 2));
    terminal.write("header", damaged(20));
    terminal.write("end", damaged(bytes.len() - 70));
    terminal.write("cut", &bytes[..bytes.len() - 1]);
    terminal.write("empty", "");
    terminal.write("text", "not a checkpoint\n".repeat(100));
    // The version of the format.
    terminal.write("newer", [&bytes[..8], &[9], &bytes[9..]].concat());
    terminal.ok("mkdir directory; mkfifo fifo; touch from");
    for (file, expected) in [
        ("flipped", "the checkpoint flipped is damaged at offset "),
        ("header", "the checkpoint header is damaged at offset 12: "),
        ("end", "the checkpoint end is damaged at offset "),
        ("cut", "the checkpoint cut is damaged at offset "),
        ("empty", "the file ends too early"),
        ("text", "it does not start with a checkpoint's magic number"),
        ("newer", "newer has format version 9, this program supports up to 1: run the newer"),
        ("directory", "directory is not a file"),
        ("fifo", "fifo is not a file"),
        ("missing", "cannot read missing: No such file or directory"),
    ] {
        for line in ["verify FILE", "show FILE", "edit FILE --from from", "load FILE --dir made"] {
            let line = format!("bourg checkpoint {}", line.replace("FILE", file));
            let said = terminal.fails(2, &line).replace("; run", ": run");
            assert!(said.starts_with("error: ") && said.contains(expected), "$ {line}\n{said}");
        }
    }
    assert_eq!(terminal.ok("ls -A | grep -e made -e bak -e tmp || true"), "", "nothing was made");
    terminal.ok("bourg checkpoint verify whole");
}

#[test]
fn the_cell_is_shown_as_it_was_at_every_kept_moment() {
    let cell = Cell::start();
    cell.ok("bourg run --detach $EXAMPLES/too-big.bcl");
    cell.ok("bourg user add eva && bourg capability grant eva drain-machines");
    cell.ok("bourg quota oversell mid 300 && bourg quota grant eva mid cpu=1");
    cell.ok("bourg service set big --port http -l app=big");
    let index = number(&cell.ok("bourg cell -o index"));
    let before = [
        "status -a",
        "why too-big",
        "machines -o tasks",
        "cell -o jobs",
        "user list",
        "capability list",
        "quota show -o grants",
        "bns list",
        "bns get too-big -o json",
        "service list",
        "service show big",
    ];
    let before = before.map(|line| (line, cell.ok(&format!("bourg {line} --at {index}"))));
    let has =
        [(1, "too-big"), (4, "eva"), (5, "drain-machines"), (6, "eva"), (7, "too-big"), (9, "big")];
    for (line, expected) in has {
        assert!(before[line].1.contains(expected), "{:?}", before[line]);
    }
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    cell.ok("bourg kill too-big && bourg service delete big");
    cell.ok("bourg user revoke eva && bourg capability revoke eva drain-machines");
    cell.ok("bourg quota revoke $(bourg quota show eva -o grants.0.id)");
    assert_eq!(cell.ok("bourg machines -o tasks"), "3\n");
    for (line, was) in &before {
        let line = format!("bourg {line} --at {index}");
        assert_eq!(&cell.ok(&line), was, "$ {line}");
    }
    assert_eq!(cell.ok("bourg status -o name"), "root/hello\n");
    assert_eq!(cell.ok(&format!("bourg status -o name --at {index}")), "root/too-big\n");
    let newest = "the newest is ";
    for (line, _) in before.map(|(line, _)| line.split_once(" -").unwrap_or((line, ""))) {
        let said = cell.fails(2, &format!("bourg {line} --at 1000000"));
        assert!(said.contains("index 1000000 is not there yet") && said.contains(newest), "{said}");
        let said = cell.fails(2, &format!("bourg {line} --at yesterday"));
        assert!(said.contains("'yesterday' is not a moment"), "{said}");
    }
    let said = cell.fails(2, "bourg why too-big --at 2");
    assert!(said.contains("there is no job root/too-big"), "{said}");
    assert_eq!(cell.ok("bourg status --at 0 -o name"), "", "before its first operation");

    // History from before a loaded checkpoint is not available.
    cell.ok("bourg checkpoint save saved && bourg checkpoint load saved --dir other/master");
    let first = cell.ok("bourg checkpoint verify saved -o index");
    let line = "for of in status 'why too-big' machines cell; do bourg $of --at 3; echo $?; done";
    cell.write("ask", line);
    let ended = cell.types("bourg dev --dir other --name dev -- sh ask");
    assert_eq!(ended.stdout, "2\n2\n2\n2\n", "{}", ended.stderr);
    let kept = format!("the retained history starts at index {}", first.trim());
    assert_eq!(ended.stderr.matches(&kept).count(), 4, "{}", ended.stderr);
}

#[test]
fn the_cell_knows_its_last_backup() {
    let cell = Cell::start();
    let shown = cell.ok("bourg cell");
    let is_none = |line: &str| line.starts_with("backup ") && line.ends_with(" none");
    assert!(shown.lines().any(is_none), "{shown}");
    // What was is no backup of what is.
    cell.ok("bourg checkpoint save earlier --at 2");
    assert_eq!(cell.ok("bourg events --from 1 | grep -c ' BACKUP ' || true"), "0\n");

    cell.ok("bourg user add ben && bourg capability grant ben save-checkpoints");
    cell.ok("bourg --cell ./ben checkpoint save saved");
    let index = cell.ok("bourg checkpoint verify saved -o index");
    assert_eq!(cell.ok("bourg cell -o lastBackup.by"), "ben\n");
    assert_eq!(cell.ok("bourg cell -o lastBackup.index"), index);
    let shown = cell.ok("bourg cell");
    assert!(shown.contains(&format!(" ago by ben, as of index {index}")), "{shown}");
    assert!(!shown.contains("problems"), "{shown}");
    let events = cell.ok("bourg events --from 1 | grep ' BACKUP '");
    assert_eq!(events.lines().count(), 1, "{events}");
    assert!(
        events.contains("ben") && events.contains(&format!("as of index {}", index.trim())),
        "{events}"
    );
}

/// The command of the packaged unit, by a user who is no administrator.
#[test]
fn the_packaged_backup_saves_a_verified_checkpoint() {
    let cell = Cell::start();
    cell.ok("bourg user add backup");
    let unit = include_str!("../../../../../packaging/systemd/bourg-backup.service");
    let (_, command) = unit.split_once("ExecStart=/bin/sh -euc '\\\n").expect("it has a command");
    let (command, _) = command.split_once("'\n").expect("it ends");
    let command = command.replace("%%", "%").replace("/usr/bin/bourg", "bourg");
    cell.write("backup.sh", command);
    let run = "STATE_DIRECTORY=$PWD/kept CELL=./backup DAYS=14 sh -eu backup.sh";
    cell.ok("mkdir kept && touch -d '20 days ago' kept/old.checkpoint");

    let said = cell.fails(3, run);
    assert!(said.contains("users with the capability save-checkpoints may"), "{said}");
    assert_eq!(cell.ok("ls kept"), "old.checkpoint\n", "nothing goes before a new one is there");

    cell.ok("bourg capability grant backup save-checkpoints");
    cell.ok(run);
    let kept = cell.ok("ls kept");
    assert!(kept.lines().count() == 1 && !kept.contains("old"), "{kept}");
    cell.ok("bourg checkpoint verify kept/*.checkpoint");
}

//! A cell of a user without root privileges: it runs tasks, and shows everywhere that they have no
//! limits.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;

use crate::eventually::{eventually, until};
use crate::processes;
use crate::terminal::{Background, Terminal};

/// A home directory that an unprivileged user can use, with everything needed.
fn home() -> Terminal {
    let terminal = Terminal::new();
    // Copies, because the user may not be able to read the build directory.
    let everyone = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(terminal.path(""), everyone).expect("it is ours");
    terminal.ok("cp \"$(command -v bourg)\" bourg && cp $EXAMPLES/hello.bcl . && chmod 755 bourg");
    terminal
}

/// Runs the rest of a line as such a user.
fn as_user(uid: u32) -> String {
    format!("setpriv --reuid {uid} --regid {uid} --clear-groups env TMPDIR=/tmp")
}

#[test]
fn a_user_who_is_not_root_gets_a_cell_without_limits() {
    let terminal = home();
    let look = "./bourg machines -o wide && ./bourg status hello -o counts.healthy && \
                ./bourg logs hello | head -c 100 >&2 && ./bourg kill hello";
    let user = as_user(61_235);
    let ended = terminal.types(&format!("{user} ./bourg dev hello.bcl -- sh -c '{look}'"));
    let (said, talk) = (&ended.stdout, &ended.stderr);
    assert_eq!(ended.code, 0, "{said}{talk}");
    assert!(said.contains("isolation=rootless") && !said.contains("cgroup="), "{said}");
    assert!(said.contains("\n3\n"), "3 tasks are healthy:\n{said}");
    assert!(talk.contains(", isolation=rootless: no limits)"), "{talk}");
}

#[test]
fn a_borglet_without_root_has_no_task_network() {
    let terminal = home();
    terminal.ok("chmod 777 .");
    let borglet = "./bourg borglet --dir b --listen 127.0.0.1:0 --task-network 10.64.250.0/24";
    let ended = terminal.types(&format!("{} {borglet}", as_user(61_241)));
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let says = "--task-network 10.64.250.0/24 needs a Borglet that runs as root";
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
}

#[test]
fn a_task_without_root_asks_its_cell_as_itself() {
    let terminal = home();
    terminal.write(
        "asks.bcl",
        "{ name: 'asks', api: true, ram: '512 MiB', cmd: ['sh', '-c', |||
             stat -c 'mode %a' $BOURG_CELL/user.key; bourg cell -o name
             touch $BOURG_CELL/new || echo it is not written to
             echo $((40 + 2)) answers; sleep 1d
           |||] }",
    );
    let look = "for i in $(seq 300); do ./bourg logs asks/0 > said; grep -q 42 said && break; \
                sleep 0.1; done; cat said";
    terminal.ok("chmod 777 .");
    let user = as_user(61_237);
    let ended = terminal.types(&format!("{user} ./bourg dev asks.bcl -- sh -c '{look}'"));
    let said = &ended.stdout;
    for expected in ["mode 400", "\ndev\n", "it is not written to", "42 answers"] {
        assert!(said.contains(expected), "{expected} is not in\n{said}{}", ended.stderr);
    }
}

/// The process of a role of the cell in a directory.
fn process_of(terminal: &Terminal, role: &str) -> Option<i32> {
    let text = std::fs::read_to_string(terminal.path(&format!("cell/run/{role}.pid"))).ok()?;
    let pid = text.trim().parse().ok()?;
    (processes::command(pid).get(1).map(String::as_str) == Some(role)).then_some(pid)
}

#[test]
fn tasks_without_root_survive_their_borglet_and_are_adopted() {
    let terminal = home();
    let uid = 61_236;
    terminal.ok(&format!("install -d -o {uid} -g {uid} cell"));
    terminal.write(
        "ends.bcl",
        "(import 'borg.libsonnet').batch('ends', cmd=[
           'sh', '-c', 'echo waits; until [ -e $HOME/go ]; do sleep 0.1; done; echo gone'
         ])",
    );
    let line = format!("exec {} ./bourg dev --dir cell hello.bcl", as_user(uid));
    let dev: Background = terminal.start("sh", &["-c", &line]);
    until("the cell is ready", || dev.stderr().contains("Ctrl-C stops the cell"));
    let ask = |line: &str| terminal.ok(&format!("bourg --cell ./cell/client {line}"));
    ask("run ends.bcl");
    let tasks = |job: &str| -> BTreeMap<u32, i32> { processes::tasks_of_user(uid, job) };
    let (hello, ends) = (tasks("hello"), tasks("ends"));
    assert_eq!((hello.len(), ends.len()), (3, 1));

    for round in 0..3 {
        let before = eventually("the Borglet runs", || process_of(&terminal, "borglet"));
        processes::signal(before, Signal::SIGKILL);
        until("it is gone", || !processes::is_there(before));
        assert_eq!((tasks("hello"), tasks("ends")), (hello.clone(), ends.clone()), "round {round}");
        eventually("another runs", || {
            process_of(&terminal, "borglet").filter(|now| *now != before)
        });
        // An order that it has obeyed.
        terminal.write(
            "next.bcl",
            format!("(import 'borg.libsonnet').batch('next-{round}', cmd=['true'])"),
        );
        ask("run next.bcl");
        until("it has ended", || ask(&format!("status next-{round} -o counts.finished")) == "1\n");
        assert_eq!((tasks("hello"), tasks("ends")), (hello.clone(), ends.clone()), "round {round}");
    }
    for task in 0..3 {
        assert_eq!(ask(&format!("status hello -o tasks.{task}.generation")), "1\n");
    }
    until("it is healthy", || ask("status hello -o counts.healthy") == "3\n");

    // A task that ends while there is no Borglet.
    processes::signal(dev.pid(), Signal::SIGSTOP);
    let borglet = eventually("the Borglet runs", || process_of(&terminal, "borglet"));
    processes::signal(borglet, Signal::SIGKILL);
    terminal.ok("touch cell/borglet/tasks/2-0-1/home/go");
    until("it has ended", || !processes::is_there(ends[&0]));
    processes::signal(dev.pid(), Signal::SIGCONT);
    until("its end is known", || ask("status ends -o state") == "finished\n");
    until("it can be read", || ask("logs ends/0") == "waits\ngone\n");
    assert_eq!(tasks("hello"), hello);

    processes::signal(dev.pid(), Signal::SIGTERM);
    assert_eq!(dev.ends().code, 0);
    assert!(tasks("hello").is_empty(), "the tasks end with the cell");
    assert!(processes::left("no cgroup", &terminal.path("cell")).is_empty());
}

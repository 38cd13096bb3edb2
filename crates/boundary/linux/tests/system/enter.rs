//! Commands in running tasks, with pipes and with a terminal.

use std::fs::File;
use std::io::{Read, Write};

use crate::support::{Tasks, UID, executable, wait_until};
use linux::enter::{Terminal, resize};
use linux::session::{Session, spawn};

fn argv(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn a_program_joins_the_task() {
    let tasks = Tasks::new();
    let task = tasks.run("host", "echo hi > file; echo up; exec sleep 1000");
    task.wait_output("up");
    let script =
        "echo uid=$(id -u) pwd=$PWD; cat file; echo name=$(hostname) one=$(cat /proc/1/comm)
        grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\t'; cat; exit 4";
    let dir = task.directory.path();
    let session = |words: &[&str]| -> Session {
        spawn(&executable(), dir, &argv(words), &Terminal::Pipes).unwrap()
    };
    let entered = session(&["sh", "-c", script]);
    let input = entered.control.receive().unwrap().expect("its input");
    File::from(input).write_all(b"from outside\n").unwrap();
    let output = entered.child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        format!(
            "uid={UID} pwd=/home/task\nhi\nname=host-0 one=bourg-init\nNoNewPrivs:1\nSeccomp:2\nfrom outside\n"
        )
        .replace("NoNewPrivs", "CapEff:0000000000000000\nNoNewPrivs")
    );
    assert_eq!(output.status.code(), Some(4));

    let run = |words: &[&str]| {
        let Session { child, control } = session(words);
        let output = child.wait_with_output().unwrap();
        drop(control);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&["sh", "-c", "kill -KILL $$"]).0, Some(137));
    let (code, said) = run(&["frobnicate"]);
    assert_eq!(code, Some(127));
    assert!(said.contains("no such file: frobnicate"), "{said}");
    task.directory.kill().unwrap();
    task.wait_end();
    let (code, said) = run(&["true"]);
    assert_eq!(code, Some(127));
    assert!(said.contains("the task is not running"), "{said}");
}

/// Its user may open its standard files by name, as programs do that log to `/dev/stdout`.
#[test]
fn the_standard_files_have_names_in_tasks_and_commands() {
    let tasks = Tasks::new();
    let script = "echo by name > /dev/stdout; echo wrong >> /dev/stderr; cat /dev/stdin
        echo up; exec sleep 1000";
    let task = tasks.run("names", script);
    task.wait_output("by name\nup");
    assert_eq!(task.log(linux::logs::Stream::Stderr), "wrong\n");
    let words = argv(&["sh", "-c", "cat /dev/stdin > /dev/stdout; echo wrong > /dev/stderr"]);
    let dir = task.directory.path();
    let session = spawn(&executable(), dir, &words, &Terminal::Pipes).unwrap();
    let input = session.control.receive().unwrap().expect("its input");
    File::from(input).write_all(b"in and out\n").unwrap();
    let output = session.child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "in and out\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "wrong\n");
}

#[test]
fn an_entered_session_ends_with_its_task_and_with_its_caller() {
    let tasks = Tasks::new();
    let task = tasks.run("ends", "exec sleep 1000");
    let dir = task.directory.path();
    let enter = || {
        // One of its processes is a daemon.
        let script = "(setsid sleep 1000 &); echo up; exec sleep 1000";
        let words = argv(&["sh", "-c", script]);
        let mut session = spawn(&executable(), dir, &words, &Terminal::Pipes).unwrap();
        let mut up = [0; 3];
        session.child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
        session
    };
    let processes = || {
        let parent = linux::cgroup::parent_name(tasks.base.path());
        let unified =
            std::path::Path::new("/sys/fs/cgroup/pids").join(parent).join("ends/cgroup.procs");
        let v2 =
            std::path::Path::new("/sys/fs/cgroup").join(task.cgroup.name()).join("cgroup.procs");
        let list = std::fs::read_to_string(unified).or_else(|_| std::fs::read_to_string(v2));
        list.unwrap().lines().count()
    };
    let Session { mut child, control } = enter();
    assert_eq!(processes(), 5, "init, task, reaper, and the two that were entered");
    drop(control);
    assert_eq!(child.wait().unwrap().code(), Some(137));
    assert_eq!(processes(), 2);
    let Session { mut child, control: _control } = enter();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the reaper to be gone", || processes() <= 4);
    let Session { mut child, control: _control } = enter();
    task.directory.kill().unwrap();
    task.wait_end();
    assert_eq!(child.wait().unwrap().code(), Some(137));
}

#[test]
fn a_terminal_is_one() {
    let tasks = Tasks::new();
    let task = tasks.run("tty", "exec sleep 1000");
    let terminal = Terminal::New { rows: 33, columns: 99, term: "vt100".to_owned() };
    let script = "stty size; echo $TERM; test -t 0 && echo tty; read line; stty size; exit 6";
    let dir = task.directory.path();
    let mut session = spawn(&executable(), dir, &argv(&["sh", "-c", script]), &terminal).unwrap();
    let mut ours = File::from(session.control.receive().unwrap().expect("its terminal"));
    let mut text = String::new();
    let mut read_until = |ours: &mut File, end: &str| {
        let mut buffer = [0; 256];
        // EIO means that the other side is closed.
        while !text.contains(end) {
            let Ok(bytes) = ours.read(&mut buffer) else { break };
            text.push_str(std::str::from_utf8(&buffer[..bytes]).unwrap());
        }
        text.clone()
    };
    assert_eq!(read_until(&mut ours, "tty\r\n"), "33 99\r\nvt100\r\ntty\r\n");
    resize(&ours, 50, 120).unwrap();
    ours.write_all(b"go\n").unwrap();
    let all = read_until(&mut ours, "never");
    assert!(all.ends_with("go\r\n50 120\r\n"), "{all:?}");
    assert_eq!(session.child.wait().unwrap().code(), Some(6));
}

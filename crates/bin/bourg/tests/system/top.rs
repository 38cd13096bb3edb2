//! `bourg top` at a terminal emulator, and the usage columns of other commands.

use nix::sys::signal::Signal;

use crate::cell::{Cell, Role};
use crate::emulator::Emulator;
use crate::eventually::eventually;
use crate::processes;

const SIZE: (u16, u16) = (80, 24);
/// The beginning of the last line of a view.
const KEYS: &str = "? help  q quit";

/// A cell with three healthy tasks of `hello`.
fn cell() -> Cell {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    cell
}

#[test]
fn views_follow_the_keys_and_the_terminal_is_restored() {
    let cell = cell();
    let machine = cell.ok("bourg machines -o name").trim().to_owned();
    let mut top = Emulator::start(&cell, "bourg top", SIZE);
    let screen = top.has(KEYS);
    assert!(screen.starts_with("cell  ") && screen.contains("1 of 1 machines up"), "{screen}");

    top.types(":machines\r");
    let screen = top.has(&machine);
    assert!(screen.starts_with("machines  "), "{screen}");
    top.types("d");
    let screen = top.has("ATTRIBUTE");
    assert!(screen.starts_with(&machine), "{screen}");

    // Esc, and Enter for the selected job.
    top.types("\x1b");
    top.has(KEYS);
    top.types(":jobs\r");
    top.has("root/hello");
    top.types("/nothing");
    top.shows("no job", |screen| !screen.contains("root/hello"));
    top.types("\x1b");
    top.has("root/hello");
    top.types("/hel\r");
    top.has("/hel: 1 of 1");
    top.types("\r");
    let screen = top.shows("three tasks", |screen| screen.matches("healthy").count() == 3);
    assert!(screen.starts_with("tasks root/hello"), "{screen}");
    for index in ["0", "1", "2"] {
        let has = |line: &str| line.trim_start().starts_with(&format!("{index}  running"));
        assert!(screen.lines().any(has), "{index}:\n{screen}");
    }
    top.types("S");
    top.has("TASK↓");

    // The first is now the last task.
    top.types("d");
    let screen = top.has("3 of 3 healthy");
    assert!(screen.starts_with("root/hello/2\n"), "{screen}");
    top.types("\x7f");
    top.has(KEYS);
    top.types("l");
    let port = cell.ok("bourg status hello -o tasks.2.ports.0.port");
    let screen = top.has(&format!("listening on port {}", port.trim()));
    assert!(screen.contains("bourg logs -f root/hello/2"), "{screen}");
    top.types("\x03");
    top.shows("the tasks again", |screen| screen.starts_with("tasks root/hello"));

    top.resize((0, 0));
    for size in [(40, 10), (20, 5), (200, 50), (5, 2), SIZE] {
        top.resize(size);
        top.shows("a frame of the new size", |screen| {
            let lines: Vec<&str> = screen.lines().collect();
            let fits = lines.iter().all(|line| line.chars().count() <= size.0.into());
            // The cut ends of the title and of the last line, on the first and the last line.
            fits && lines.first().is_some_and(|line| line.starts_with("tasks"))
                && (size.1 < 3
                    || lines.len() == usize::from(size.1)
                        && lines.last().is_some_and(|line| line.starts_with("? help  q quit")))
        });
    }
    top.types("q");
    let (code, screen) = top.ends();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains(KEYS), "{screen}");
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_restored() {
    let cell = cell();
    for (signal, expected) in [(Signal::SIGTERM, 128 + 15), (Signal::SIGINT, 128 + 2)] {
        let top = Emulator::start(&cell, "bourg top jobs", SIZE);
        top.has("root/hello");
        top.signal(signal);
        assert_eq!(top.ends().0, expected);
    }
    // As a key, Ctrl-C quits.
    let mut top = Emulator::start(&cell, "bourg top tasks hello", SIZE);
    top.shows("three tasks", |screen| screen.matches("healthy").count() == 3);
    top.types("\x03");
    assert_eq!(top.ends().0, 0);
    // While logs are followed, too.
    let mut top = Emulator::start(&cell, "bourg top tasks hello", SIZE);
    top.has(KEYS);
    top.types("l");
    top.has("listening on port ");
    top.signal(Signal::SIGTERM);
    let (code, screen) = top.ends();
    assert_eq!(code, 128 + 15, "{screen}");
}

#[test]
fn top_resumes_when_the_master_answers_again() {
    let cell = cell();
    let mut top = Emulator::start(&cell, "bourg top jobs --interval 200ms", SIZE);
    top.has("root/hello");
    let master = eventually("the master runs", || cell.pid(Role::Master));
    processes::signal(master, Signal::SIGSTOP);
    let screen = top.has("no answer since ");
    assert!(screen.contains("root/hello"), "the last answer stays:\n{screen}");
    processes::signal(master, Signal::SIGCONT);
    top.shows("answers", |screen| !screen.contains("no answer since "));
    // The next master is another process.
    cell.kill(Role::Master);
    eventually("another master runs", || cell.pid(Role::Master).filter(|pid| *pid != master));
    cell.ok("bourg kill hello");
    top.shows("no job", |screen| !screen.contains("root/hello") && screen.contains(KEYS));
    top.types("q");
    assert_eq!(top.ends().0, 0);
}

#[test]
fn text_of_other_users_cannot_control_the_terminal() {
    let cell = Cell::start();
    cell.write(
        "evil.bcl",
        r"(import 'borg.libsonnet').batch('evil', cmd=['no-such-program\u001b]0;owned\u0007\u001b[31m']) {
            restart: { failures: 'unlimited', delay: '5m' },
          }",
    );
    cell.ok("bourg run --detach evil.bcl");
    cell.job("evil", "has failed", |job| job["tasks"][0]["failures"] == 1);
    let mut top = Emulator::start(&cell, "bourg top tasks evil", (250, 24));
    top.has("pending");
    top.types("d");
    top.has(r"no-such-program\u{1b}]0;owned\u{7}\u{1b}[31m");
    top.types("q");
    let raw = top.raw();
    assert_eq!(top.ends().0, 0);
    for evil in [&b"\x1b]0;"[..], b"\x07"] {
        assert!(!raw.windows(evil.len()).any(|bytes| bytes == evil), "{evil:?}");
    }
}

#[test]
fn top_without_a_terminal_suggests_commands_and_prints_one_view() {
    let cell = cell();
    let said = cell.fails(2, "bourg top");
    assert!(said.contains("bourg top needs a terminal"), "{said}");
    assert!(said.contains("next: bourg usage JOB"), "{said}");
    let said = cell.fails(2, "bourg top jobs hello");
    assert!(said.contains("next: bourg top tasks hello"), "{said}");
    assert!(cell.fails(2, "bourg top tasks").contains("<JOB>"));
    assert!(cell.fails(2, "bourg top --interval 1ms").contains("100ms"));
    let said = cell.fails(2, "bourg top tasks hallo --once");
    assert!(said.contains("there is no job root/hallo"), "{said}");

    let machine = cell.ok("bourg machines -o name").trim().to_owned();
    let shown = cell.ok("bourg top machines --once");
    assert!(shown.contains("\nMACHINE") && shown.contains(&format!("\n{machine}")), "{shown}");
    assert!(cell.ok("bourg top jobs --once").contains("\nroot/hello  production "));
    assert!(cell.ok("bourg top --once").contains("\nCPU capacity "));
    assert_eq!(cell.ok("bourg top tasks hello --once").matches(&machine).count(), 3);
}

#[test]
fn wide_status_and_machines_have_columns_for_usage() {
    let cell = cell();
    let machines = cell.ok("bourg machines -o wide");
    for heading in ["CPU LIMITS", "CPU RESERVED", "CPU USED", "RAM LIMITS", "RAM USED"] {
        assert!(machines.contains(heading), "{heading}:\n{machines}");
    }
    let status = cell.ok("bourg status hello -o wide");
    assert!(status.contains("  CPU USED  MEMORY LIMIT  "), "{status}");
    // The past has no usage, and there is nothing to say about that.
    let ended = cell.types("bourg status hello -o wide --at 0s");
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
}

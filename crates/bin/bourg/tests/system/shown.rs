//! Output of tasks and texts of descriptions on a terminal: none of it can control the terminal.

use nix::sys::signal::Signal;

use crate::cell::Cell;
use crate::eventually::until;
use crate::screen::Screen;

/// A window's title, a color, the clipboard, a cursor that goes up, a bell, the control sequence
/// introducer as one character and as one byte, a deletion.
const EVIL: &str = r"\033]0;owned\007\033[31m\033]52;c;b3duZWQ=\007\033[9A\r\b\a\302\233\233\177";

/// What `bourg status --watch` clears the screen with.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// The screen's content, without the terminal's conversion of line ends, and without the intended
/// control sequences.
#[track_caller]
fn harmless(line: &str, shown: Vec<u8>, meant: &str) -> String {
    let shown = String::from_utf8(shown).unwrap_or_else(|error| panic!("$ {line}\n{error}"));
    let text = shown.replace("\r\n", "\n").replace(meant, "");
    let raw = text.find(|c: char| c.is_control() && c != '\n' && c != '\t');
    if let Some(raw) = raw {
        let around: String = text[..raw].chars().rev().take(60).collect();
        let around: String = around.chars().rev().chain(text[raw..].chars().take(20)).collect();
        panic!("$ {line}\nreaches the screen: {around:?}");
    }
    text
}

/// A cell with a job that writes such text, and one that cannot be started and has such text in its
/// name and description.
fn cell() -> Cell {
    let cell = Cell::start();
    cell.write(
        "noise.bcl",
        format!(
            r#"(import 'borg.libsonnet').batch('noise', tasks=2, cmd=['sh', '-c',
                 "printf '{}'; echo; head -c 1048576 /dev/zero | tr '\\0' x; echo; echo the end"])"#,
            EVIL.replace('\\', r"\\")
        ),
    );
    cell.write(
        "evil.bcl",
        r#"local evil = '\u001b]0;owned\u0007\u001b[31m\u009b31m\u007f\r\b';
           (import 'borg.libsonnet').batch('evil', cmd=['no-such-program' + evil]) {
             env: { EVIL: evil },
             restart: { failures: 'unlimited', delay: '5m' },
           }"#,
    );
    cell
}

#[test]
fn raw_control_characters_never_reach_a_terminal() {
    let cell = cell();
    let on_screen = |line: &str| {
        let shown = Screen::start(&cell, line).ends();
        // `bourg run` redraws its last line repeatedly.
        harmless(line, shown, "\r\x1b[K")
    };
    let said = on_screen("bourg run noise.bcl");
    assert!(said.contains("healthy 2/2"), "{said}");
    let line = "bourg run evil.bcl";
    let screen = Screen::start(&cell, line);
    let failed = "task 0 failed: not started: ";
    until("it is said", || String::from_utf8_lossy(&screen.shown()).contains(failed));
    screen.signal(Signal::SIGINT);
    harmless(line, screen.ends(), "\r\x1b[K");
    cell.job("noise", "is finished", |job| job["state"] == "finished");

    cell.ok("bourg checkpoint save saved");
    let end = r"no-such-program\u{1b}]0;owned\u{7}\u{1b}[31m";
    for line in ["bourg status evil", "bourg why evil", "bourg status evil -o wide"] {
        let said = on_screen(line);
        assert!(said.contains(end), "$ {line}\n{said}");
    }
    for line in [
        "bourg status",
        "bourg status -a -o json",
        "bourg status evil -o json",
        "bourg status evil -o yaml",
        "bourg status evil -o spec.env.EVIL",
        "bourg status evil -o spec.cmd.0",
        "bourg why evil -o json",
        "bourg why evil -o groups.0.lastEndText",
        "bourg eval evil.bcl",
        "bourg machines -o wide",
        "bourg cell",
        "bourg checkpoint show saved",
        "bourg checkpoint verify saved",
    ] {
        let said = on_screen(line);
        assert!(!said.is_empty() && !said.contains("error: "), "$ {line}\n{said}");
    }

    // Colours are what a terminal is for, and end with their line.
    let shown = r"\u{1b}]0;owned\u{7}RED\u{1b}]52;c;b3duZWQ=\u{7}\u{1b}[9A\r\u{8}\u{7}\u{9b}";
    for line in ["bourg logs noise", "bourg logs noise/1", "bourg logs -f noise"] {
        let screen = String::from_utf8_lossy(&Screen::start(&cell, line).ends()).into_owned();
        let named = screen.replace("\u{1b}[31m", "RED").replace("\u{1b}[m", "END");
        let said = harmless(line, named.into_bytes(), "\r\x1b[K");
        assert!(said.contains(shown), "{}", said.lines().next().unwrap_or_default());
        assert!(said.contains("the end\n"), "$ {line}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&on_screen("bourg status evil -o json")).expect("this is JSON");
    let evil = cell.ok("bourg status evil -o spec.env.EVIL");
    assert_eq!(json[0]["spec"]["env"]["EVIL"], evil.trim_end_matches('\n'));
    // Outside terminals it stays unchanged.
    let raw = cell.ok("bourg logs noise/0 | head -c 13 | od -An -tx1");
    assert_eq!(raw.trim(), "1b 5d 30 3b 6f 77 6e 65 64 07 1b 5b 33");
    assert_eq!(cell.ok("bourg status evil -o spec.env.EVIL | od -An -tx1 -N2").trim(), "1b 5d");
}

#[test]
fn a_long_line_is_shown_whole_with_its_task() {
    let cell = cell();
    cell.ok("bourg run noise.bcl");
    cell.job("noise", "is finished", |job| job["state"] == "finished");
    let all = cell.ok("bourg logs noise --stream stdout");
    for line in all.split('\n').filter(|line| !line.is_empty()) {
        let (task, piece) = line.split_once("  ").expect("a task");
        assert!(task == "noise/0" || task == "noise/1", "{task:?}");
        assert!(piece.len() <= 1 << 20 && !piece.contains("noise/"), "{} bytes", piece.len());
    }
    let whole = all.split('\n').filter(|line| line.len() > 1 << 20).count();
    assert_eq!(whole, 2, "the long line of each task is one line");
    assert_eq!(all.matches('x').count(), 2 << 20, "nothing of it is missing");
    assert_eq!(cell.ok("bourg logs noise/0 | tr -dc x | wc -c").trim(), "1048576");
    let longest = cell.ok("bourg logs noise/0 | awk '{ print length }' | sort -n | tail -n 1");
    assert_eq!(longest.trim(), "1048576", "alone it is one line");
}

#[test]
fn watched_output_only_clears_the_screen() {
    let cell = cell();
    cell.ok("bourg run --detach evil.bcl");
    let failed = |job: &serde_json::Value| job["tasks"][0]["failures"] == 1;
    cell.job("evil", "has failed", failed);
    for line in ["bourg status evil --watch", "bourg status -w"] {
        let screen = Screen::start(&cell, line);
        until("it is shown twice", || {
            String::from_utf8_lossy(&screen.shown()).matches("root/evil").count() > 1
        });
        screen.signal(Signal::SIGINT);
        let shown = screen.ends();
        assert!(shown.starts_with(CLEAR.as_bytes()), "{:?}", String::from_utf8_lossy(&shown));
        harmless(line, shown, CLEAR);
    }
}

//! Types the blocks of a page, one after the other.

use nix::sys::signal::Signal;

use super::blocks::{Block, Typed, What};
use super::root;
use crate::cell::Cell;
use crate::eventually::until;
use crate::processes;
use crate::terminal::{Background, Ended, Terminal};

/// A reader's session: a terminal with a cell.
pub(super) struct Session {
    page: String,
    cell: Option<Cell>,
    /// Files without a name.
    files: usize,
}

impl Session {
    /// A session with a cell, unless the page starts one itself.
    #[track_caller]
    pub(super) fn new(page: &str, blocks: &[&Block]) -> Self {
        let mut session = Self { page: page.to_owned(), cell: None, files: 0 };
        let all = blocks.iter().filter_map(|block| match &block.what {
            What::Commands(all) => Some(all),
            _ => None,
        });
        if !all.flatten().any(|typed| starts_a_cell(&typed.command).is_some()) {
            session.start(&[]);
        }
        session
    }

    #[track_caller]
    fn start(&mut self, arguments: &[&str]) {
        let terminal = Terminal::new();
        let examples = terminal.path("examples");
        std::os::unix::fs::symlink(root().join("examples"), examples).expect("a link");
        let directory = terminal.path("cell");
        self.cell = Some(Cell::start_in(terminal, &directory, arguments));
    }

    fn cell(&self) -> &Cell {
        self.cell.as_ref().unwrap_or_else(|| panic!("{} has started no cell yet", self.page))
    }

    /// Executes a block.
    #[track_caller]
    pub(super) fn runs(&mut self, block: &Block) {
        let place = format!("{}:{}", self.page, block.line);
        match &block.what {
            What::NotRun(_) => {}
            What::Commands(all) => {
                let last = all.len() - 1;
                for (position, typed) in all.iter().enumerate() {
                    let code = if position == last { block.code } else { 0 };
                    self.types(&place, typed, code);
                }
            }
            What::Script(text) => {
                let ended = self.cell().types(&format!("set -e\n{text}"));
                check(&place, text, &ended, block.code);
            }
            What::File(name, text) => self.file(&place, name.as_deref(), text),
            What::Fragment(text) => {
                let job = format!(
                    "local borg = import 'borg.libsonnet';\nborg.batch('fragment', cmd=['true']) {{\n{text}}}"
                );
                self.file(&place, None, &job);
            }
        }
    }

    /// Saves a file, and evaluates it if it is BCL.
    #[track_caller]
    fn file(&mut self, place: &str, name: Option<&str>, text: &str) {
        self.files += 1;
        let number = self.files;
        let name = name.map_or_else(|| format!("file-{number}.bcl"), str::to_owned);
        self.cell().write(&name, text);
        if !name.ends_with(".bcl") {
            return;
        }
        let command = format!("bourg eval {name}");
        check(place, &command, &self.cell().types(&command), 0);
    }

    #[track_caller]
    fn types(&mut self, place: &str, typed: &Typed, code: i32) {
        let command = typed.command.replace("cargo run --release -- ", "bourg ");
        let ended = if let Some(arguments) = starts_a_cell(&command) {
            let examples = root().join("examples");
            let arguments = arguments.map(|word| match word.strip_prefix("examples/") {
                Some(file) => examples.join(file).to_string_lossy().into_owned(),
                None => word.to_owned(),
            });
            let arguments: Vec<String> = arguments.collect();
            self.start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            let dev = self.cell.as_mut().expect("it was started").dev();
            Ended { code: 0, stdout: dev.stdout(), stderr: dev.stderr() }
        } else if follows(&command) {
            let followed = self.cell().start("sh", &["-c", &format!("exec {command}")]);
            until("it shows something", || !followed.stdout().is_empty());
            interrupted(followed)
        } else {
            self.cell().types(&command)
        };
        check(place, &command, &ended, code);
        let said: Vec<&str> = ended.stdout.lines().chain(ended.stderr.lines()).collect();
        for line in &typed.says {
            assert!(
                said.iter().any(|said| is_like(line, said)),
                "{place}: $ {command}\ndoes not say\n{line}\nbut\n{}{}",
                ended.stdout,
                ended.stderr
            );
        }
    }

    /// Stops the cell.
    #[track_caller]
    pub(super) fn ends(&mut self) {
        self.cell.take().expect("a session has a cell").stop();
    }
}

#[track_caller]
fn check(place: &str, command: &str, ended: &Ended, code: i32) {
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, code, "{place}: $ {command}\n{said}");
}

/// The output of a command that runs until it is interrupted.
fn interrupted(followed: Background) -> Ended {
    processes::signal(followed.pid(), Signal::SIGINT);
    let ended = followed.ends();
    Ended { code: 0, ..ended }
}

/// The arguments of a command that starts a cell for the session.
fn starts_a_cell(command: &str) -> Option<impl Iterator<Item = &str>> {
    let command =
        command.strip_prefix("cargo run --release -- ").or(command.strip_prefix("bourg "));
    let mut words = command?.split_whitespace();
    let is_dev = words.next() == Some("dev") && !words.clone().any(|word| word == "--");
    is_dev.then_some(words)
}

/// Whether a command runs until it is interrupted.
fn follows(command: &str) -> bool {
    let mut words = command.split_whitespace();
    words.any(|word| matches!(word, "-f" | "--follow" | "-w" | "--watch"))
}

/// The units of displayed times.
const UNITS: [&str; 5] = ["µs", "ms", "s", "m", "h"];

/// Whether the output matches the page, except for numbers, times and the user.
fn is_like(page: &str, said: &str) -> bool {
    let mut said = said.split_whitespace();
    let is_number = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    for word in page.split_whitespace() {
        if word == "…" {
            return true;
        }
        let Some(other) = said.next() else { return false };
        let names_user = |word: &str| word.replace("ana", "root");
        let is_same = word == other || names_user(word) == other;
        let both_numbers = is_number(word) && is_number(other);
        let both_units = UNITS.contains(&word) && UNITS.contains(&other);
        if !is_same && !both_numbers && !both_units {
            return false;
        }
    }
    said.next().is_none()
}

#[test]
fn printed_output_may_differ_only_in_numbers() {
    assert!(is_like("job  ana/hello   3 tasks", "job root/hello 3 tasks"));
    assert!(is_like("took 2.5 ms", "took 17 s"));
    assert!(!is_like("took 2.5 ms", "took long ms"));
    assert!(is_like("0 running …", "1 running  113 ms  healthy"));
    assert!(!is_like("running", "running on"));
    assert!(!is_like("running on", "running"));
}

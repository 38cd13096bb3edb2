//! The blocks of a page.

use std::fs;
use std::path::{Path, PathBuf};

/// A block of commands, or a file.
#[derive(Debug)]
pub(super) struct Block {
    /// The line it begins in, from 1.
    pub(super) line: usize,
    pub(super) what: What,
    /// The expected exit code of its last command.
    pub(super) code: i32,
}

#[derive(Debug)]
pub(super) enum What {
    NotRun(String),
    Commands(Vec<Typed>),
    Script(String),
    /// A file, with its name if it has one.
    File(Option<String>, String),
    /// Fields of a job.
    Fragment(String),
}

/// A command and its expected output.
#[derive(Debug, Default)]
pub(super) struct Typed {
    pub(super) command: String,
    pub(super) says: Vec<String>,
}

impl Block {
    pub(super) fn is_run(&self) -> bool {
        !matches!(self.what, What::NotRun(_))
    }
}

/// The pages of the repository with blocks.
pub(super) fn pages(root: &Path) -> Vec<PathBuf> {
    let directories = ["", "docs", "docs/decisions", "docs/reference", "fuzz"];
    let list = |directory: &&str| fs::read_dir(root.join(directory)).expect("a directory of pages");
    let entries = directories.iter().flat_map(list);
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    pages.sort();
    pages
}

/// The blocks of a page that are commands or files.
pub(super) fn of(path: &Path) -> Vec<Block> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    read(&text)
}

fn read(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut mark = "";
    let mut lines = (1..).zip(text.lines());
    while let Some((line, begin)) = lines.next() {
        let indent = begin.len() - begin.trim_start().len();
        let begin = begin.trim();
        let comment = begin.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(comment) = comment {
            mark = comment;
            continue;
        }
        if begin.is_empty() {
            continue;
        }
        let Some(language) = begin.strip_prefix("```") else {
            mark = "";
            continue;
        };
        let inside = lines.by_ref().map(|(_, line)| line.get(indent..).unwrap_or(line.trim()));
        let inside: Vec<&str> = inside.take_while(|line| line.trim() != "```").collect();
        let (key, value) = mark.split_once(": ").unwrap_or((mark, ""));
        mark = "";
        let content = inside.join("\n") + "\n";
        let what = match (language, key) {
            ("console" | "sh" | "jsonnet", "not run") => What::NotRun(value.to_owned()),
            (_, "file") => What::File(Some(value.to_owned()), content),
            ("console", _) => What::Commands(typed(&inside)),
            ("sh", _) => What::Script(content),
            ("jsonnet", "fragment") => What::Fragment(content),
            ("jsonnet", _) => What::File(None, content),
            _ => continue,
        };
        let code = if key == "fails" { value.parse().expect("an exit code") } else { 0 };
        blocks.push(Block { line, what, code });
    }
    blocks
}

/// The commands of a block, each with the output printed below it.
fn typed(lines: &[&str]) -> Vec<Typed> {
    let mut all: Vec<Typed> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        match line.strip_prefix("$ ") {
            Some(command) => {
                all.push(Typed { command: command.to_owned(), says: Vec::new() });
                goes_on = command.ends_with('\\');
            }
            None => {
                let last = all.last_mut().expect("a block of commands begins with a prompt");
                if goes_on {
                    last.command = format!("{}\n{line}", last.command);
                    goes_on = line.ends_with('\\');
                } else {
                    last.says.push((*line).to_owned());
                }
            }
        }
    }
    all
}

#[test]
fn blocks_are_read_with_what_is_said_of_them() {
    let text = "<!-- fails: 3 -->\n```console\n$ one \\\n  two\nsays\n$ three\n```\n\n<!-- not run: why -->\n\
                ```sh\nx\n```\n- <!-- no -->\n  <!-- file: a.bcl -->\n  ```jsonnet\n  {}\n  ```\n\
                ```text\n$ no\n```\n<!-- not run: lost -->\nText.\n```sh\ny\n```\n";
    let blocks = read(text);
    let [commands, not_run, file, script] = &blocks[..] else { panic!("{blocks:?}") };
    let What::Commands(typed) = &commands.what else { panic!("{commands:?}") };
    assert_eq!((commands.line, commands.code), (2, 3));
    assert_eq!(typed[0].command, "one \\\n  two");
    assert_eq!(typed[0].says, ["says"]);
    assert_eq!(typed[1].command, "three");
    assert!(matches!(&not_run.what, What::NotRun(why) if why == "why"));
    assert!(
        matches!(&file.what, What::File(Some(name), text) if name == "a.bcl" && text == "{}\n")
    );
    assert!(matches!(&script.what, What::Script(text) if text == "y\n"));
}

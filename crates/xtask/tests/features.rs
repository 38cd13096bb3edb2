//! `docs/features.md` is true: every requirement is in it once, its state is one of three, and
//! every test that it names exists.
//!
//! A row is `| id | what | shown by | held by | state |`. A test is named by its file, below
//! `crates/`, and its function: `` `cell/tests/operations/jobs.rs::only_the_dead_are_forgotten` ``.
//! Where there is nothing to name, the field is `–`. A state is `works`, `partly: …`, which says
//! what is missing, or `not yet`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The requirements: a letter, and how many there are, numbered from 1.
const REQUIREMENTS: &[(&str, u32)] =
    &[("U", 29), ("M", 12), ("S", 13), ("L", 10), ("R", 4), ("A", 5), ("F", 5), ("T", 3), ("K", 5)];

/// A row of the table.
#[derive(Debug)]
struct Row {
    id: String,
    name: String,
    command: String,
    tests: String,
    state: String,
}

#[test]
fn every_requirement_is_there_exactly_once() {
    let mut times: BTreeMap<String, usize> = REQUIREMENTS
        .iter()
        .flat_map(|(letter, count)| (1..=*count).map(move |number| format!("{letter}{number}")))
        .map(|id| (id, 0))
        .collect();
    for row in rows() {
        let times =
            times.get_mut(&row.id).unwrap_or_else(|| panic!("{} is no requirement", row.id));
        *times += 1;
    }
    let wrong: Vec<_> = times.into_iter().filter(|(_, times)| *times != 1).collect();
    assert!(wrong.is_empty(), "requirements, and how often they are there: {wrong:?}");
}

#[test]
fn a_state_has_what_it_claims() {
    for row in rows() {
        assert!(!row.name.is_empty() && row.name != "–", "{row:?} has no name");
        let (has_command, has_tests) = (row.command != "–", row.tests != "–");
        let missing = row.state.strip_prefix("partly: ");
        match (row.state.as_str(), missing) {
            ("works", _) => assert!(
                has_command && has_tests,
                "{}: what works is shown by a command and held by a test",
                row.id
            ),
            (_, Some(missing)) => assert!(
                has_tests && !missing.trim().is_empty(),
                "{}: of what works partly, the part that works is held by a test, and what is \
                 missing is said",
                row.id
            ),
            ("not yet", _) => assert!(
                !has_tests && !has_command,
                "{}: something shows it or holds it, so its state is not \"not yet\"",
                row.id
            ),
            (other, _) => panic!(
                "{}: the state is {other:?}, and must be \"works\", \"partly: what is missing\" \
                 or \"not yet\"",
                row.id
            ),
        }
    }
}

#[test]
fn every_named_test_exists() {
    for row in rows().iter().filter(|row| row.tests != "–") {
        for name in row.tests.split(", ") {
            let quoted = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            let (file, function) = quoted
                .and_then(|name| name.split_once("::"))
                .unwrap_or_else(|| panic!("{}: {name} is not `file.rs::function`", row.id));
            let path = root().join("crates").join(file);
            let source = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: crates/{file}: {error}", row.id));
            assert!(
                has_test(&source, function),
                "{}: crates/{file} has no test {function}",
                row.id
            );
        }
    }
}

/// Whether a source has a function of that name with a test attribute above it.
fn has_test(source: &str, function: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(position, line)| {
        let declared = line.strip_prefix("async ").unwrap_or(line);
        let named = declared
            .strip_prefix("fn ")
            .and_then(|rest| rest.strip_prefix(function))
            .is_some_and(|rest| rest.starts_with('('));
        let mut above = lines[..position].iter().rev();
        named
            && above
                .by_ref()
                .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
                .any(|line| *line == "#[test]" || line.starts_with("#[tokio::test"))
    })
}

fn rows() -> Vec<Row> {
    let path = root().join("docs/features.md");
    let text = fs::read_to_string(path).expect("docs/features.md can be read");
    let lines = text.lines().filter(|line| line.starts_with('|'));
    let rows: Vec<Row> = lines
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [id, name, command, tests, state] = cells[..] else {
                panic!("not five fields: {line}");
            };
            let head = id == "id" || id.starts_with("--");
            let [id, name, command, tests, state] =
                [id, name, command, tests, state].map(str::to_owned);
            (!head).then_some(Row { id, name, command, tests, state })
        })
        .collect();
    assert!(!rows.is_empty(), "docs/features.md has a table");
    rows
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn a_test_is_told_from_other_functions() {
    let source = "
        /// Helps.
        fn helps() {}
        #[test]
        // A remark.
        #[should_panic]
        fn holds() {}
        #[tokio::test(flavor = \"current_thread\")]
        async fn holds_too() {}
        fn holds_nothing() {}
    ";
    for (function, is_test) in [
        ("holds", true),
        ("holds_too", true),
        ("helps", false),
        ("hold", false),
        ("holds_nothing", false),
        ("absent", false),
    ] {
        assert_eq!(has_test(source, function), is_test, "{function}");
    }
}

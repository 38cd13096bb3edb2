//! Checks `docs/features.toml`: every requirement is in it once, with what its status requires, and
//! every test and page that it names exists. The tables of `docs/features.md` and of the README match
//! it.
//!
//! A test is named by its file, below `crates/`, and its function:
//! `cell/tests/operations/jobs.rs::only_the_dead_are_forgotten`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The requirements: a letter, and their number, counted from 1.
const REQUIREMENTS: &[(&str, u32)] = &[
    ("U", 29),
    ("M", 12),
    ("S", 13),
    ("L", 10),
    ("R", 4),
    ("A", 5),
    ("F", 5),
    ("T", 3),
    ("K", 5),
    ("X", 14),
];

/// If this variable is set, the tables are written instead of compared.
const UPDATE: &str = "UPDATE_DOCS";

/// A requirement.
#[derive(Debug)]
struct Feature {
    id: String,
    title: String,
    status: Status,
    /// The commands that show it, as in the table.
    shown_by: Option<String>,
    tests: Vec<String>,
    /// From the repository's root. The table links to the first one.
    pages: Vec<String>,
}

#[derive(Debug)]
enum Status {
    Works,
    /// What is missing.
    Partly(String),
    NotYet,
}

#[test]
fn every_requirement_is_there_exactly_once() {
    let expected: Vec<String> = REQUIREMENTS
        .iter()
        .flat_map(|(letter, count)| (1..=*count).map(move |number| format!("{letter}{number}")))
        .collect();
    let ids: Vec<String> = features().into_iter().map(|feature| feature.id).collect();
    assert_eq!(ids, expected);
}

#[test]
fn a_status_has_what_it_claims() {
    for feature in features() {
        let id = &feature.id;
        assert!(!feature.title.is_empty(), "{id} has no title");
        let is_held = !feature.tests.is_empty();
        match &feature.status {
            Status::Works => assert!(
                is_held && feature.shown_by.is_some() && !feature.pages.is_empty(),
                "{id}: what works is shown by a command, held by a test and described on a page"
            ),
            Status::Partly(missing) => assert!(
                is_held && !missing.trim().is_empty(),
                "{id}: the part that works is held by a test, and what is missing is said"
            ),
            Status::NotYet => assert!(
                !is_held && feature.shown_by.is_none() && feature.pages.is_empty(),
                "{id}: something shows it or holds it, so its status is not \"not yet\""
            ),
        }
    }
}

#[test]
fn every_named_test_exists() {
    for feature in features() {
        let id = &feature.id;
        for name in &feature.tests {
            let (file, function) = name
                .split_once("::")
                .unwrap_or_else(|| panic!("{id}: {name} is not `file.rs::function`"));
            let path = root().join("crates").join(file);
            let source = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{id}: crates/{file}: {error}"));
            assert!(has_test(&source, function), "{id}: crates/{file} has no test {function}");
        }
    }
}

#[test]
fn every_named_page_exists() {
    for feature in features() {
        for page in &feature.pages {
            assert!(root().join(page).is_file(), "{}: {page} is not there", feature.id);
        }
    }
}

#[test]
fn the_tables_of_the_page_say_the_same() {
    let path = root().join("docs/features.md");
    let page = fs::read_to_string(&path).expect("docs/features.md can be read");
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    for feature in features() {
        let letter = feature.id.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        *rows.entry(letter).or_default() += &row(&feature);
    }
    let mut expected = String::new();
    for section in page.split_inclusive("\n\n") {
        let is_table = section.starts_with("| id |");
        match expected.lines().rev().find(|line| line.starts_with("## ")) {
            Some(heading) if is_table => {
                let letter = heading[3..].split(' ').next().unwrap_or_default();
                let rows = rows.remove(letter).unwrap_or_default();
                expected += &format!("{HEAD}{rows}\n");
            }
            _ => expected += section,
        }
    }
    assert!(rows.is_empty(), "docs/features.md has no table for {:?}", rows.keys());
    let expected = format!("{}\n", expected.trim_end());
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &expected).expect("the page can be written");
    } else {
        assert!(page == expected, "docs/features.md is not current: `cargo xtask reference`");
    }
}

/// The header of each table on the page.
const HEAD: &str = "| id | requirement | state | shown by |\n|---|---|---|---|\n";

/// A requirement as a row of the page.
fn row(feature: &Feature) -> String {
    let title = match feature.pages.first() {
        Some(page) => {
            let page = page.strip_prefix("docs/").expect("the pages of features are in docs/");
            format!("[{}]({page})", feature.title)
        }
        None => feature.title.clone(),
    };
    let state = match &feature.status {
        Status::Works => "works".to_owned(),
        Status::Partly(missing) => format!("partly: {missing}"),
        Status::NotYet => "not yet".to_owned(),
    };
    let shown_by = feature.shown_by.as_deref().unwrap_or("–");
    format!("| {} | {title} | {state} | {shown_by} |\n", feature.id)
}

/// Whether a source has a function with that name and a test attribute.
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

fn table() -> toml::Table {
    let path = root().join("docs/features.toml");
    let text = fs::read_to_string(path).expect("docs/features.toml can be read");
    text.parse().expect("docs/features.toml is TOML")
}

fn features() -> Vec<Feature> {
    let table = table();
    let all = table["feature"].as_array().expect("a list of features");
    let features = all.iter().map(|feature| feature.as_table().expect("a table"));
    let features: Vec<Feature> = features.map(feature).collect();
    assert!(!features.is_empty(), "docs/features.toml has features");
    features
}

fn feature(table: &toml::Table) -> Feature {
    const KEYS: [&str; 7] = ["id", "title", "status", "missing", "shown_by", "tests", "pages"];
    let text = |key: &str| {
        let value = table.get(key)?;
        Some(value.as_str().unwrap_or_else(|| panic!("{key} of {table:?} is no text")).to_owned())
    };
    let list = |key: &str| -> Vec<String> {
        let value = table.get(key).map(|value| value.as_array().expect("a list").clone());
        let values = value.unwrap_or_default();
        values.iter().map(|value| value.as_str().expect("a list of texts").to_owned()).collect()
    };
    for key in table.keys() {
        assert!(KEYS.contains(&key.as_str()), "{key} of {table:?} means nothing");
    }
    let status = match (text("status").as_deref(), text("missing")) {
        (Some("works"), None) => Status::Works,
        (Some("partly"), Some(missing)) => Status::Partly(missing),
        (Some("not yet"), None) => Status::NotYet,
        other => panic!("{other:?} is no status; \"partly\" says what is missing: {table:?}"),
    };
    Feature {
        id: text("id").expect("an id"),
        title: text("title").expect("a title"),
        status,
        shown_by: text("shown_by"),
        tests: list("tests"),
        pages: list("pages"),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A row of the README's table: several requirements under one title.
#[derive(Debug)]
struct Area {
    title: String,
    /// The ids of its requirements.
    rows: Vec<String>,
    pages: Vec<String>,
}

fn areas() -> Vec<Area> {
    let all = table();
    let all = all["area"].as_array().expect("a list of areas");
    let list = |area: &toml::Value, key: &str| -> Vec<String> {
        let values = area[key].as_array().expect("a list");
        values.iter().map(|value| value.as_str().expect("a text").to_owned()).collect()
    };
    let area = |area: &toml::Value| Area {
        title: area["title"].as_str().expect("a title").to_owned(),
        rows: list(area, "rows"),
        pages: list(area, "pages"),
    };
    all.iter().map(area).collect()
}

#[test]
fn the_table_of_the_readme_says_the_same() {
    let path = root().join("README.md");
    let page = fs::read_to_string(&path).expect("README.md can be read");
    let features = features();
    let rows: String = areas().iter().map(|area| area_row(area, &features)).collect();
    let (before, rest) = page.split_once(AREAS_HEAD).expect("README.md has the table of areas");
    let (_, after) = rest.split_once("\n\n").expect("text follows the table");
    let expected = format!("{before}{AREAS_HEAD}{rows}\n{after}");
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &expected).expect("README.md can be written");
    } else {
        assert!(page == expected, "README.md is not current: `cargo xtask reference`");
    }
}

/// The header of the README's table.
const AREAS_HEAD: &str = "| area | state | details |\n|---|---|---|\n";

/// An area works if all its requirements do.
fn area_row(area: &Area, features: &[Feature]) -> String {
    let of = |id: &String| {
        let feature = features.iter().find(|feature| feature.id == *id);
        feature.unwrap_or_else(|| panic!("{}: there is no requirement {id}", area.title))
    };
    let features: Vec<&Feature> = area.rows.iter().map(of).collect();
    let missing: Vec<String> = features.iter().filter_map(|feature| missing(feature)).collect();
    let state = match missing.len() {
        0 => "works".to_owned(),
        _ if features.iter().all(|feature| matches!(feature.status, Status::NotYet)) => {
            "not yet".to_owned()
        }
        _ => format!("partly: {}", missing.join("; ")),
    };
    let link = |page: &String| {
        let name = page.trim_start_matches("docs/").trim_end_matches(".md");
        format!("[{name}]({page})")
    };
    let links: Vec<String> = area.pages.iter().map(link).collect();
    format!("| {} | {state} | {} |\n", area.title, links.join(", "))
}

fn missing(feature: &Feature) -> Option<String> {
    match &feature.status {
        Status::Works => None,
        Status::Partly(missing) => Some(missing.clone()),
        Status::NotYet => Some(format!("{} not yet", feature.title)),
    }
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

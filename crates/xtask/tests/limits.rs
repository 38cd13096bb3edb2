//! Checks `docs/limits.toml`, which names every bound of the program, and makes the page
//! `docs/reference/limits.md` of it.
//!
//! A bound is a constant of a crate that ships whose name has `MAX`, `AT_ONCE` or `OF_ONE`. It is
//! either shared, and then it says what a user gets of it, or it bounds something that belongs to one
//! request, one task or one client alone. A bound in neither list fails this test, and so does one that
//! is said to be shared by the rule of `model::SharedBound` and is not given to it anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// If this variable is set, the page is written instead of compared.
const UPDATE: &str = "UPDATE_DOCS";
/// The layers whose crates ship, and of them what does not.
const LAYERS: [&str; 4] = ["words", "core", "boundary", "shell"];
const NOT_SHIPPED: [&str; 2] = ["shell/bench", "boundary/fuzz-targets"];
/// What follows a bound that users share by the one rule, in the source that applies it.
const RULES: [&str; 4] = ["SharedBound::new(", "Limiter::shared(", "Streams::new(", "Turns::new("];

/// A constant, named by its file below `crates/` and its name: `core/cell/src/bounds.rs::TASKS_MAX`.
#[derive(Debug)]
struct Bound {
    /// As the source has it.
    value: String,
    /// Its first sentence.
    doc: String,
}

/// A bound that is shared.
#[derive(Debug)]
struct Shared {
    bound: String,
    at: String,
    share: String,
    beyond: String,
    metric: Option<String>,
}

/// What one user, or another holder, gets of a shared bound.
const SHARES: [(&str, &str); 6] = [
    ("users", "[share](#shares)"),
    ("oldest", "the user who has most loses the oldest"),
    ("administrators", "only administrators add to it"),
    ("machines", "a part for each machine"),
    ("clients", "a fixed part for each client, see below"),
    ("none", "no share"),
];

#[test]
fn every_bound_is_in_the_table_once() {
    let (bounds, table) = (bounds(), Table::read());
    let mut named: BTreeMap<&str, u32> = BTreeMap::new();
    for shared in &table.shared {
        *named.entry(&shared.bound).or_default() += 1;
    }
    for (_, of) in &table.alone {
        for entry in of {
            let mut some = false;
            for name in bounds.keys().filter(|name| covers(entry, name)) {
                // What is listed by its name is not part of its file's.
                let listed = table.shared.iter().any(|shared| shared.bound == *name);
                if !listed || entry == name {
                    *named.entry(name).or_default() += 1;
                }
                some = true;
            }
            assert!(some, "docs/limits.toml: there is no bound {entry}");
        }
    }
    for (name, times) in &named {
        assert!(bounds.contains_key(*name), "docs/limits.toml: there is no bound {name}");
        assert_eq!(*times, 1, "docs/limits.toml names {name} {times} times");
    }
    for name in bounds.keys() {
        assert!(
            named.contains_key(name.as_str()),
            "{name} is not in docs/limits.toml: say what a user gets of it if users share it, and else \
             whose it is"
        );
    }
}

#[test]
fn shared_bounds_are_enforced_by_the_one_rule() {
    let sources: Vec<String> = sources().into_iter().map(|(_, text)| text).collect();
    let bounds = bounds();
    for shared in Table::read().shared {
        let known = SHARES.iter().any(|(kind, _)| *kind == shared.share);
        assert!(known, "{}: '{}' is no share", shared.bound, shared.share);
        let name = shared.bound.rsplit("::").next().expect("a name");
        let applies = |text: &String| {
            RULES.iter().any(|rule| {
                text.match_indices(rule).any(|(place, _)| {
                    let statement = &text[place..];
                    statement[..statement.find(';').unwrap_or(statement.len())].contains(name)
                })
            })
        };
        // Or it is one by its type.
        let value = bounds.get(&shared.bound).map_or("", |bound| &bound.value);
        assert!(
            shared.share != "users"
                || value.contains("SharedBound::new(")
                || sources.iter().any(applies),
            "{} is said to be shared by the rule of model::SharedBound, and no source applies that",
            shared.bound
        );
    }
}

#[test]
fn the_page_says_the_same() {
    let (bounds, table) = (bounds(), Table::read());
    let path = root().join("docs/reference/limits.md");
    let expected = page(&bounds, &table);
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &expected).expect("the page can be written");
    } else {
        let page = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == expected,
            "docs/reference/limits.md is not current: `cargo xtask reference`"
        );
    }
}

/// The page.
fn page(bounds: &BTreeMap<String, Bound>, table: &Table) -> String {
    let mut page = format!("{}\n", include_str!("limits/head.txt").trim_end());
    for at in ["cell", "replica", "machine"] {
        writeln!(page, "\n## Shared, of a {at}\n").expect("a text");
        page += "| what | bound | of one user | beyond it | metric |\n|---|--:|---|---|---|\n";
        for shared in table.shared.iter().filter(|shared| shared.at == at) {
            let bound = &bounds[&shared.bound];
            let share = SHARES.iter().find(|(kind, _)| *kind == shared.share).expect("a share").1;
            let metric =
                shared.metric.as_ref().map_or("–".to_owned(), |name| format!("`{name}`"));
            let doc = &bound.doc;
            let value = shown(&shared.bound, &bound.value);
            writeln!(page, "| {doc} | {value} | {share} | {} | {metric} |", shared.beyond)
                .expect("a text");
        }
    }
    page += "\n## Of one request, task or client\n\nNobody shares these.\n";
    for (what, of) in &table.alone {
        writeln!(page, "\n**{what}**\n\n| bound | value | |\n|---|--:|---|").expect("a text");
        let listed: BTreeSet<&str> =
            table.shared.iter().map(|shared| shared.bound.as_str()).collect();
        let named = bounds.iter().filter(|(name, _)| {
            !listed.contains(name.as_str()) && of.iter().any(|entry| covers(entry, name))
        });
        for (name, Bound { value, doc }) in named {
            let name = name.rsplit("::").next().expect("a name");
            let value = shown(name, value);
            writeln!(page, "| `{name}` | {value} | {doc} |").expect("a text");
        }
    }
    page
}

/// Whether an entry of the table, a bound or a file or folder of them, has this bound.
fn covers(entry: &str, bound: &str) -> bool {
    bound
        .strip_prefix(entry)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || entry.ends_with('/'))
}

/// `docs/limits.toml`.
#[derive(Debug)]
struct Table {
    shared: Vec<Shared>,
    /// Whose the others are, and their names, files or folders.
    alone: Vec<(String, Vec<String>)>,
}

impl Table {
    fn read() -> Self {
        let text = fs::read_to_string(root().join("docs/limits.toml")).expect("it can be read");
        let table: toml::Table = text.parse().expect("docs/limits.toml is TOML");
        let entries = |key: &str| table[key].as_array().expect("a list").clone();
        let text = |entry: &toml::Value, key: &str| {
            entry.get(key).map(|value| value.as_str().expect("a text").to_owned())
        };
        let shared = entries("shared").into_iter().map(|entry| Shared {
            bound: text(&entry, "bound").expect("a bound"),
            at: text(&entry, "at").expect("where it is"),
            share: text(&entry, "share").expect("a share"),
            beyond: text(&entry, "beyond").expect("what happens beyond it"),
            metric: text(&entry, "metric"),
        });
        let alone = entries("alone").into_iter().map(|entry| {
            let names = entry["bounds"].as_array().expect("a list").iter();
            let names = names.map(|name| name.as_str().expect("a text").to_owned()).collect();
            (text(&entry, "what").expect("whose they are"), names)
        });
        Self { shared: shared.collect(), alone: alone.collect() }
    }
}

/// The bounds of all sources.
fn bounds() -> BTreeMap<String, Bound> {
    let mut bounds = BTreeMap::new();
    for (file, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let Some((name, rest)) = declared(line) else { continue };
            let is_bound = ["MAX", "AT_ONCE", "OF_ONE"]
                .iter()
                .any(|part| format!("_{name}_").contains(&format!("_{part}_")));
            if !is_bound {
                continue;
            }
            let value = rest.to_owned() + &lines[number + 1..].join("\n");
            let value = value.split_once('=').map_or("", |(_, value)| value);
            let value = value.split_once(';').map_or("", |(value, _)| value).trim();
            let doc: Vec<&str> = lines[..number]
                .iter()
                .rev()
                .map_while(|line| line.trim().strip_prefix("///"))
                .collect();
            let doc: Vec<&str> = doc.into_iter().rev().map(str::trim).collect();
            let bound = Bound { value: value.to_owned(), doc: first_sentence(&doc.join(" ")) };
            bounds.insert(format!("{file}::{name}"), bound);
        }
    }
    bounds
}

/// The name of the constant that a line declares, and what follows it.
fn declared(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches("(crate)").trim_start_matches("(super)").trim_start(),
        None => line,
    };
    let (name, rest) = line.strip_prefix("const ")?.split_once(": ")?;
    let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    is_name.then_some((name, rest))
}

/// A value as a person writes it, if it is a number of bytes or a time; else as the source has it.
fn shown(name: &str, value: &str) -> String {
    let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
    let shared = value.strip_prefix("SharedBound::new(").and_then(|rest| rest.strip_suffix(')'));
    let value = shared.unwrap_or(&value);
    let units = [("<< 10", "KiB"), ("<< 20", "MiB"), ("<< 30", "GiB"), ("<< 40", "TiB")];
    for (shift, unit) in units {
        if let Some(number) = value.strip_suffix(shift).filter(|_| name.contains("BYTES")) {
            return format!("{} {unit}", number.trim());
        }
    }
    let seconds = value.rsplit_once("from_secs(").and_then(|(_, rest)| rest.strip_suffix(')'));
    match seconds {
        Some(seconds) if seconds.parse::<u64>().is_ok() => format!("{seconds} s"),
        _ if value.replace('_', "").parse::<u64>().is_ok() => value.replace('_', ","),
        _ => format!("`{}`", value.replace('|', "\\|")),
    }
}

/// The first sentence of a comment.
fn first_sentence(doc: &str) -> String {
    let end = doc.find(". ").map_or(doc.len(), |end| end + 1);
    doc[..end].replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

/// The sources of what ships, without their tests, by their path below `crates/`.
fn sources() -> Vec<(String, String)> {
    let crates = root().join("crates");
    let mut waiting: Vec<PathBuf> = LAYERS.iter().map(|layer| crates.join(layer)).collect();
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        let name = path.strip_prefix(&crates).expect("below crates").display().to_string();
        if NOT_SHIPPED.contains(&name.as_str()) || name.ends_with("/tests") {
            continue;
        }
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a directory");
            waiting.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if name.ends_with(".rs") && name.contains("/src/") && !name.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let text = text.split("#[cfg(test)]\nmod tests {").next().expect("a part").to_owned();
            found.push((name, text));
        }
    }
    found.sort();
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn a_bound_is_told_from_other_constants() {
    for (line, name) in [
        ("const TASKS_MAX: u64 = 1;", Some("TASKS_MAX")),
        ("    pub(super) const AT_ONCE: usize = 2;", Some("AT_ONCE")),
        ("pub const fn max() {", None),
        ("let x = 1;", None),
    ] {
        assert_eq!(declared(line).map(|(name, _)| name), name, "{line}");
    }
    for (name, value, text) in [
        ("FILE_BYTES_MAX", "16 << 10", "16 KiB"),
        ("TIME_MAX", "Duration::from_secs(60)", "60 s"),
        ("TASKS_MAX", "10_000_000", "10,000,000"),
        ("SLOTS_MAX", "1 << 20", "`1 << 20`"),
    ] {
        assert_eq!(shown(name, value), text);
    }
    assert!(covers("core/cell/src/bounds.rs", "core/cell/src/bounds.rs::TASKS_MAX"));
    assert!(covers("core/cell/", "core/cell/src/bounds.rs::TASKS_MAX"));
    assert!(!covers("core/cell/src/bounds.rs::TASKS", "core/cell/src/bounds.rs::TASKS_MAX"));
}

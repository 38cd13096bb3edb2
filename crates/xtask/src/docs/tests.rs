//! Checks of every page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::markdown::{Page, pages, slug};
use super::{API, api, book};
use crate::run::root;

/// The maximum length of a table's line, in characters: longer text does not belong in a table.
const TABLE_CHARACTERS_MAX: usize = 300;
/// The maximum number of lines of the landing page.
const README_LINES_MAX: usize = 120;

fn all() -> BTreeMap<PathBuf, Page> {
    let pages = pages(&root()).expect("the pages can be read");
    assert!(pages.len() > 50, "only {} pages were found", pages.len());
    pages.into_iter().map(|page| (page.path.clone(), page)).collect()
}

#[track_caller]
fn none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}\n", found.join("\n"));
}

#[test]
fn every_link_leads_somewhere() {
    let all = all();
    let mut broken = Vec::new();
    for page in all.values() {
        for link in page.links() {
            let place = format!("{}:{}: {}", page.path.display(), link.line, link.target);
            let Some((file, anchor)) = page.resolve(&link.target) else {
                broken.push(format!("{place} leads out of the repository"));
                continue;
            };
            let path = root().join(&file);
            if !path.is_file() {
                let why = if path.is_dir() { "is a directory" } else { "is not there" };
                broken.push(format!("{place} {why}"));
            } else if let Some(anchor) = anchor {
                let has = all.get(&file).is_some_and(|page| page.anchors().contains(&anchor));
                if !has {
                    broken.push(format!("{place}: no heading of {} has it", file.display()));
                }
            }
        }
    }
    none("broken links", &broken);
}

#[test]
fn every_page_of_the_book_is_listed_and_links_within_it() {
    let all = all();
    let contents = book::contents(&root()).expect("the contents can be read");
    let unique: BTreeSet<&PathBuf> = contents.iter().collect();
    assert_eq!(unique.len(), contents.len(), "a page is there twice");
    let summary = Path::new("docs/SUMMARY.md");
    let missing = all.keys().filter(|path| path.starts_with("docs") && *path != summary);
    let missing = missing.filter(|path| !unique.contains(path));
    let missing: Vec<String> = missing.map(|path| path.display().to_string()).collect();
    none("pages of docs/ that docs/SUMMARY.md does not name", &missing);
    let mut outside = Vec::new();
    for page in contents.iter().map(|path| &all[path]) {
        for link in page.links() {
            let file = page.resolve(&link.target).map(|(file, _)| file).unwrap_or_default();
            let markdown = file.extension().is_some_and(|extension| extension == "md");
            if markdown && !unique.contains(&file) && file != summary {
                outside.push(format!("{}:{}: {}", page.path.display(), link.line, link.target));
            }
        }
    }
    none("links from the book to Markdown that is not in it", &outside);
}

#[test]
fn every_decision_is_in_the_list() {
    let all = all();
    let list = &all[Path::new("docs/decisions.md")];
    let listed: BTreeSet<PathBuf> =
        list.links().iter().filter_map(|link| Some(list.resolve(&link.target)?.0)).collect();
    let decisions = all.keys().filter(|path| path.starts_with("docs/decisions"));
    let missing = decisions.filter(|path| !listed.contains(*path));
    let missing: Vec<String> = missing.map(|path| path.display().to_string()).collect();
    none("decisions that docs/decisions.md does not name", &missing);
    let contents = &all[Path::new("docs/SUMMARY.md")];
    let decisions = all.iter().filter(|(path, _)| path.starts_with("docs/decisions"));
    let untitled = decisions.filter_map(|(path, page)| {
        let title = page.text.lines().next()?.strip_prefix("# ")?;
        let file = path.strip_prefix("docs").ok()?.display();
        let entry = format!("  - [{title}]({file})");
        (!contents.text.lines().any(|line| line == entry)).then_some(entry)
    });
    none(
        "decisions that docs/SUMMARY.md does not name by their title",
        &untitled.collect::<Vec<_>>(),
    );
}

#[test]
fn no_line_of_a_table_is_too_long() {
    let mut long = Vec::new();
    for page in all().values() {
        for (number, line) in page.table_lines() {
            let characters = line.chars().count();
            if characters > TABLE_CHARACTERS_MAX {
                let path = page.path.display();
                long.push(format!("{path}:{number}: {characters} of {TABLE_CHARACTERS_MAX}"));
            }
        }
    }
    none("lines of tables with too many characters", &long);
}

#[test]
fn the_readme_is_short_and_has_the_command_that_tests() {
    let readme = &all()[Path::new("README.md")];
    assert!(readme.text.lines().count() <= README_LINES_MAX, "README.md is too long");
    let ci = fs::read_to_string(root().join(".ci/run")).expect(".ci/run can be read");
    let command = "cargo xtask test";
    assert!(ci.lines().any(|line| line == command), ".ci/run does not run {command}");
    assert!(readme.text.contains(&format!("\n$ {command}\n")), "README.md has no {command}");
}

#[test]
fn every_task_of_ours_that_is_named_exists() {
    let tasks =
        crate::USAGE.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let tasks: BTreeSet<&str> = tasks.filter_map(|line| line.split_whitespace().next()).collect();
    let mut unknown = Vec::new();
    for page in all().values() {
        for (number, line) in (1..).zip(page.text.lines()) {
            for rest in line.split("cargo xtask ").skip(1) {
                let ends = |c: char| !c.is_ascii_alphabetic();
                let task = rest.split(ends).next().unwrap_or_default();
                if !tasks.contains(task) {
                    unknown.push(format!("{}:{number}: {task}", page.path.display()));
                }
            }
        }
    }
    none("tasks that `cargo xtask` does not have", &unknown);
}

#[test]
fn the_vocabulary_is_sorted_and_whole() {
    let page = &all()[Path::new("docs/VOCABULARY.md")];
    let rows = page.table_lines().into_iter().skip(2);
    let rows: Vec<(String, String)> = rows
        .map(|(_, row)| {
            let (word, meaning) = row.trim_matches('|').split_once(" | ").expect("two fields");
            (word.trim().to_owned(), meaning.trim().to_owned())
        })
        .collect();
    let words: Vec<String> = rows.iter().map(|(word, _)| word.to_lowercase()).collect();
    assert!(words.len() > 100, "only {} words were found", words.len());
    for pair in words.windows(2) {
        assert!(pair[0] < pair[1], "{:?} stands before {:?}", pair[0], pair[1]);
    }
    let names: BTreeSet<&str> = words.iter().flat_map(|word| word.split(", ")).collect();
    let mut unknown = Vec::new();
    for (word, meaning) in &rows {
        for (position, used) in meaning.split('*').enumerate() {
            let used = used.to_lowercase();
            // `T` and `P` are the sources; plurals count as their singular.
            let singular = used.strip_suffix("ies").map(|stem| format!("{stem}y"));
            let singular = singular.or_else(|| used.strip_suffix('s').map(str::to_owned));
            let known = names.contains(used.as_str())
                || singular.is_some_and(|word| names.contains(word.as_str()));
            if position % 2 == 1 && !known {
                unknown.push(format!("{word}: {used}"));
            }
        }
    }
    none("words in italics without an entry of their own", &unknown);
}

/// The fields of a description as the BCL code reads them: the names in the lists `fields` of a
/// source file.
fn fields(source: &str, of: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("crates/core/bcl/src").join(source));
    let text = text.unwrap_or_else(|error| panic!("{source}: {error}"));
    let (_, shape) = text.split_once(&format!("of: \"{of}\"")).expect(of);
    let (_, list) = shape.split_once("fields: &[").expect("a shape has fields");
    let (list, _) = list.split_once(']').expect("a list ends");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_page_of_job_descriptions_has_every_field() {
    let page = &all()[Path::new("docs/reference/job.md")];
    for (heading, source, of) in [
        ("Fields of a job", "schema.rs", "a job"),
        ("Health check", "health.rs", "a health check"),
        ("Preemption", "ends.rs", "a preemption policy"),
        ("Autoscaling", "autoscale.rs", "an autoscale setting"),
        ("Saver", "ends.rs", "a saver"),
        ("Restart policy", "restart.rs", "a restart policy"),
        ("Metrics", "health.rs", "a page with metrics"),
        ("Maximum", "schema.rs", "a maximum"),
        ("Constraint", "constraints.rs", "a constraint"),
    ] {
        let (_, section) = page.text.split_once(&format!("\n## {heading}\n")).expect(heading);
        let section = section.split("\n## ").next().unwrap_or_default();
        let mut parts = section.split("\n\n").map(str::trim);
        let table = parts.find(|part| part.starts_with("| field")).expect("a table");
        let rows: Vec<&str> = table.lines().skip(2).collect();
        let named = |row: &&str| row.split('`').nth(1).unwrap_or_default().to_owned();
        let said: BTreeSet<String> = rows.iter().map(named).collect();
        assert_eq!(said, fields(source, of), "{heading}");
        if heading == "Fields of a job" {
            let own = rows.iter().filter(|row| row.contains("| yes |")).map(named);
            let own: BTreeSet<String> = own.collect();
            assert_eq!(own, fields("overrides.rs", "an override"), "what is said of single tasks");
        }
    }
}

#[test]
fn the_api_is_that_of_the_definitions() {
    let expected = api::page(&root()).expect("the definitions can be read");
    let page = fs::read_to_string(root().join(API)).unwrap_or_default();
    assert!(page == expected, "{API} is not current: `cargo xtask reference`");
}

#[test]
fn headings_have_the_anchors_of_github() {
    for (heading, anchor) in [
        ("U · What users see", "u--what-users-see"),
        ("`bourg machine set`", "bourg-machine-set"),
        ("Why is it pending?", "why-is-it-pending"),
        ("[008](x.md) The state", "008-the-state"),
    ] {
        assert_eq!(slug(heading), anchor);
    }
}

#[test]
fn links_are_found_outside_of_code() {
    let text = "# One\n[a](b.md) `[c](d.md)` and [two\nlines](e.md#f)\n```text\n[g](h.md)\n# Two\n```\n\
                [web](https://example.com/x) ``a ` [i](j.md)``\n# One\n";
    let page = Page { path: PathBuf::from("docs/x.md"), text: text.to_owned() };
    let links = page.links();
    let found: Vec<(usize, &str)> =
        links.iter().map(|link| (link.line, link.target.as_str())).collect();
    assert_eq!(found, [(2, "b.md"), (3, "e.md#f")]);
    assert_eq!(page.anchors(), ["one".to_owned(), "one-1".to_owned()].into());
    let to = |target| page.resolve(target);
    assert_eq!(to("../README.md"), Some((PathBuf::from("README.md"), None)));
    assert_eq!(to("#one"), Some((PathBuf::from("docs/x.md"), Some("one".to_owned()))));
    assert_eq!(to("../../out.md"), None);
}

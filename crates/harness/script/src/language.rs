//! Every command with its arguments, as the documentation has them: for usage errors, and for the help of a
//! prompt.

use crate::ScriptError;

/// The documentation of the language, in Markdown.
pub const LANGUAGE: &str = include_str!("language.md");

const REQUESTS: &str = "# Requests\n";
const OPERATIONS: &str = "# Operations\n";

/// The commands of a section, in the lines of its first block that do not go on from the line above.
fn section(title: &str) -> impl Iterator<Item = &'static str> {
    let section = LANGUAGE.split_once(title).map_or("", |(_, section)| section);
    let block = section.split("```").nth(1).unwrap_or_default();
    let lines = block.lines().skip(1).filter(|line| !line.starts_with(' '));
    lines.map(|line| line.split_once("  ").map_or(line, |(usage, _)| usage))
}

/// Each command with its arguments: `kill [OWNER/]JOB[/TASKS]`.
pub fn commands() -> impl Iterator<Item = &'static str> {
    section(REQUESTS).chain(section(OPERATIONS))
}

fn named(mut usages: impl Iterator<Item = &'static str>, name: &str) -> Option<&'static str> {
    usages.find(|usage| usage.split(' ').next() == Some(name))
}

/// What is wrong with words that are not a request.
pub(crate) fn not_a_request(words: &[&str]) -> ScriptError {
    let name = words.first().copied().unwrap_or_default();
    match (named(section(REQUESTS), name), named(section(OPERATIONS), name)) {
        (Some(usage), _) => ScriptError::Usage(usage),
        (None, Some(_)) => ScriptError::NotARequest(name.to_owned()),
        (None, None) => ScriptError::NoSuchCommand(name.to_owned()),
    }
}

/// What is wrong with words that are not a line.
pub(crate) fn not_a_line(words: &[&str]) -> ScriptError {
    let name = words.first().copied().unwrap_or_default();
    named(section(OPERATIONS), name).map_or_else(|| not_a_request(words), ScriptError::Usage)
}

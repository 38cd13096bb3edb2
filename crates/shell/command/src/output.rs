//! Writes answers: as tables for people, and as JSON, YAML, names or single fields for programs.
//! Data goes to stdout, messages to stderr; control characters are escaped.

use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::str::FromStr;

pub use present::event_words::one_line;
pub use present::table;
use serde::Serialize;
use serde_json::Value;

use crate::{Code, Done, Failure};

/// The field of a description that lists the variables whose values are hidden.
const HIDDEN_ENV: &str = "hiddenEnv";
const WHO_SEES_ENV: &str = "its owner, administrators and users with the capability administer-jobs see \
                            the values";

/// The argument of `-o`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// A table.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// One name per line.
    Name,
    /// One field of each object, by its path in the JSON.
    Field(String),
}

impl FromStr for Format {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "table" => Self::Table,
            "wide" => Self::Wide,
            "json" => Self::Json,
            "yaml" => Self::Yaml,
            "name" => Self::Name,
            field => Self::Field(field.to_owned()),
        })
    }
}

/// How to print a list of objects.
pub struct Listing<'a, T, R: Fn(&T) -> Vec<String>> {
    /// The objects.
    pub items: &'a [T],
    /// Returns the name of an object.
    pub name: fn(&T) -> String,
    /// The column headings, those of `wide` last.
    pub headings: &'a [&'a str],
    /// The number of columns that only `wide` has.
    pub wide: usize,
    /// Returns the row of an object.
    pub row: R,
}

/// Prints a list in a format.
pub fn list<T: Serialize>(
    format: &Format,
    listing: &Listing<'_, T, impl Fn(&T) -> Vec<String>>,
) -> Result<(), Failure> {
    let text = match format {
        Format::Table | Format::Wide => {
            let hidden = if *format == Format::Wide { 0 } else { listing.wide };
            let columns = listing.headings.len() - hidden;
            let rows = listing.items.iter().map(|item| {
                let mut row = (listing.row)(item);
                row.truncate(columns);
                row
            });
            table(&listing.headings[..columns], rows.collect())
        }
        Format::Json => json(&listing.items)?,
        Format::Yaml => yaml(&listing.items)?,
        Format::Name => listing.items.iter().map(|item| (listing.name)(item) + "\n").collect(),
        Format::Field(path) => {
            let mut text = String::new();
            for item in listing.items {
                text += &field(&value(item)?, path)?;
                text.push('\n');
            }
            text
        }
    };
    print(&text)
}

/// Prints one object in a format; `show` renders it for people.
pub fn object<T: Serialize>(
    format: &Format,
    object: &T,
    name: &str,
    show: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let text = match format {
        Format::Table | Format::Wide => show(),
        Format::Json => json(object)?,
        Format::Yaml => yaml(object)?,
        Format::Name => format!("{name}\n"),
        Format::Field(path) => field(&value(object)?, path)? + "\n",
    };
    print(&text)
}

/// Prints one object of a stream, which can be parsed incrementally: JSON is on one line, YAML is a
/// document of its own.
pub fn item<T: Serialize>(format: &Format, item: &T, name: &str) -> Done {
    match format {
        Format::Json => {
            let line = serde_json::to_string(item).map_err(Failure::failed)?;
            print(&(json_escaped(&line) + "\n"))
        }
        Format::Yaml => print(&format!("---\n{}", yaml(item)?)),
        other => object(other, item, name, String::new),
    }
}

/// Prints data, escaped for a terminal. A closed pipe is not a failure.
pub fn print(text: &str) -> Result<(), Failure> {
    print_from_outside(text.as_bytes())
}

/// Prints data that need not be UTF-8, escaped for a terminal.
pub fn print_from_outside(bytes: &[u8]) -> Result<(), Failure> {
    match std::io::stdout().is_terminal() {
        true => print_bytes(escaped(bytes).as_bytes()),
        false => print_bytes(bytes),
    }
}

impl Failure {
    /// Prints the failure and returns the exit code.
    pub fn end(self) -> ExitCode {
        say(&format!("{self}\n"));
        self.exit_code()
    }
}

/// The ports of a task, `http=31001`; with a network of its own its address first,
/// `10.64.5.2 http=80`.
pub fn ports(task: &api::v1::TaskStatus) -> String {
    let ports = task.ports.iter().map(|port| format!("{}={}", port.name, port.port));
    let address = (!task.network_address.is_empty()).then(|| one_line(&task.network_address));
    address.into_iter().chain(ports).collect::<Vec<_>>().join(" ")
}

/// Prints a message on stderr, escaped for a terminal.
pub fn say(text: &str) {
    match std::io::stderr().is_terminal() {
        true => eprint!("{}", escaped(text.as_bytes())),
        false => eprint!("{text}"),
    }
}

/// A message from outside as it may be written to stderr: escaped if that is a terminal.
pub fn for_terminal(bytes: Vec<u8>) -> Vec<u8> {
    match std::io::stderr().is_terminal() {
        true => escaped(&bytes).into_bytes(),
        false => bytes,
    }
}

/// Prints data unchanged, even on a terminal.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            std::process::exit(0);
        }
        result => result.map_err(|error| Failure::failed(format!("error: cannot write: {error}"))),
    }
}

fn value<T: Serialize>(item: &T) -> Result<Value, Failure> {
    serde_json::to_value(item).map_err(Failure::failed)
}

fn json<T: Serialize>(item: &T) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(item).map_err(Failure::failed)?;
    Ok(json_escaped(&text) + "\n")
}

/// Escapes the control characters that `serde_json` does not, in JSON's own syntax.
fn json_escaped(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match c {
            '\u{7f}'..='\u{9f}' => json += &format!("\\u{:04x}", u32::from(c)),
            c => json.push(c),
        }
    }
    json
}

fn yaml<T: Serialize>(item: &T) -> Result<String, Failure> {
    serde_yaml_ng::to_string(&value(item)?).map_err(Failure::failed)
}

fn field(value: &Value, path: &str) -> Result<String, Failure> {
    let mut at = value;
    let mut steps = path.split('.');
    while let Some(step) = steps.next() {
        let next = match at {
            Value::Object(fields) => fields.get(step),
            Value::Array(elements) => step.parse::<usize>().ok().and_then(|n| elements.get(n)),
            _ => None,
        };
        let Some(next) = next else {
            if step == "env"
                && let Some(Value::Array(names)) = at.get(HIDDEN_ENV)
            {
                return hidden(path, names, steps.next());
            }
            let there = match at {
                Value::Object(fields) => {
                    let names = fields.keys().map(String::as_str);
                    format!("; the fields are {}", names.collect::<Vec<_>>().join(", "))
                }
                _ => String::new(),
            };
            return Err(Failure::usage(format!(
                "error: -o {}: no field '{}' here{there}",
                path.escape_debug(),
                step.escape_debug()
            )));
        };
        at = next;
    }
    Ok(match at {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

/// The names of variables whose values are hidden, or an error for one of the values.
fn hidden(path: &str, names: &[Value], of: Option<&str>) -> Result<String, Failure> {
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    match of {
        None => Ok(format!("{} (hidden: {WHO_SEES_ENV})", names.join(", "))),
        Some(of) if names.contains(&of) => {
            let path = path.escape_debug();
            let text = format!("error: -o {path}: the value is hidden: {WHO_SEES_ENV}");
            Err(Failure::new(Code::Refused, text))
        }
        Some(of) => Err(Failure::usage(format!(
            "error: -o {}: no field '{}' here; the fields are {}",
            path.escape_debug(),
            of.escape_debug(),
            names.join(", ")
        ))),
    }
}

/// Text with its control characters escaped, except newlines and tabs.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '\n' | '\t' => text.push(c),
            c if c.is_control() => text.extend(c.escape_default()),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        let shown = escaped(b"a\x1b[31m\tb\r\n\xc2\x9b\x7f\0 \xff \xc3\xa9");
        assert_eq!(shown, "a\\u{1b}[31m\tb\\r\n\\u{9b}\\u{7f}\\u{0} \u{fffd} é");
    }

    #[test]
    fn fields_are_found_by_their_path() {
        let value = serde_json::json!({"state": "running", "tasks": [{"index": 7}]});
        assert_eq!(field(&value, "state").expect("there"), "running");
        assert_eq!(field(&value, "tasks.0.index").expect("there"), "7");
        assert!(field(&value, "stat").is_err());
    }

    #[test]
    fn hidden_variables_are_shown_by_name_without_an_invented_value() {
        let own = serde_json::json!({"hiddenEnv": ["OWN"]});
        let value = serde_json::json!({
            "spec": {"hiddenEnv": ["KEY", "MODE"], "overrides": {"1": own, "2": {}}}
        });
        let says = |path: &str| match field(&value, path) {
            Ok(text) => (0, text.replace(WHO_SEES_ENV, "WHO")),
            Err(failure) => (failure.code as u8, failure.to_string().replace(WHO_SEES_ENV, "WHO")),
        };
        for (path, code, text) in [
            ("spec.env", 0, "KEY, MODE (hidden: WHO)"),
            ("spec.overrides.1.env", 0, "OWN (hidden: WHO)"),
            ("spec.hiddenEnv.0", 0, "KEY"),
            ("spec.env.KEY", 3, "error: -o spec.env.KEY: the value is hidden: WHO"),
            (
                "spec.env.KEYS",
                2,
                "error: -o spec.env.KEYS: no field 'KEYS' here; the fields are KEY, MODE",
            ),
            (
                "spec.overrides.2.env",
                2,
                "error: -o spec.overrides.2.env: no field 'env' here; the fields are",
            ),
        ] {
            assert_eq!(says(path), (code, text.to_owned()), "{path}");
        }
    }
}

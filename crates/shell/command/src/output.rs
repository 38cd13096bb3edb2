//! Writes answers: as tables for people, and as JSON, YAML, names or single fields for programs.
//! Data goes to stdout, messages to stderr; control characters are escaped.

use std::cell::RefCell;
use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::OnceLock;

pub use present::event_words::one_line;
pub use present::{table, table_within};
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

/// The number of columns of the terminal; unset if the standard output is none.
static COLUMNS: OnceLock<usize> = OnceLock::new();

/// Cuts lists that are shown as tables so that they fit a terminal with so many columns.
pub fn fit_to(columns: usize) {
    // The first number stays.
    let _set = COLUMNS.set(columns);
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
            let most = match format {
                Format::Wide => None,
                _ => COLUMNS.get().copied(),
            };
            table_within(most.unwrap_or(usize::MAX), &listing.headings[..columns], rows.collect())
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

/// Prints a line of a log. At a terminal its colours and styles stay, and end with it; everything else that
/// could act on the terminal is escaped.
pub fn print_log(line: &[u8]) -> Result<(), Failure> {
    match std::io::stdout().is_terminal() {
        true => print_bytes(coloured(line).as_bytes()),
        false => print_bytes(line),
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

thread_local! {
    /// What this thread prints, while it is kept: see [`kept`].
    static KEPT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Keeps what `print` prints, and returns it instead.
///
/// # Errors
/// Those of `print`.
pub fn kept(print: impl FnOnce() -> Done) -> Result<Vec<u8>, Failure> {
    let outer = KEPT.replace(Some(Vec::new()));
    let printed = print();
    let kept = KEPT.replace(outer).unwrap_or_default();
    printed.map(|()| kept)
}

/// Prints data unchanged, even on a terminal.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let is_kept = KEPT.with_borrow_mut(|kept| match kept {
        Some(kept) => {
            kept.extend_from_slice(bytes);
            true
        }
        None => false,
    });
    if is_kept {
        return Ok(());
    }
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

/// The beginning of a sequence that sets colours and styles, and its maximum length.
const STYLE: &str = "\u{1b}[";
const STYLE_BYTES_MAX: usize = 32;
/// Ends all colours and styles.
const PLAIN: &str = "\u{1b}[m";

/// A line with its control characters escaped, except newlines, tabs, and the sequences for colours and
/// styles, which end with the line.
fn coloured(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let (body, newline) = match line.strip_suffix('\n') {
        Some(body) => (body, "\n"),
        None => (line.as_ref(), ""),
    };
    let (mut text, mut rest, mut has_style) = (String::with_capacity(line.len()), body, false);
    while let Some(at) = rest.find(STYLE) {
        let (before, found) = rest.split_at(at);
        text += &escaped(before.as_bytes());
        let length = style_length(found);
        let (sequence, after) = found.split_at(length.unwrap_or(STYLE.len()));
        match length {
            Some(_) => text += sequence,
            None => text += &escaped(sequence.as_bytes()),
        }
        has_style |= length.is_some();
        rest = after;
    }
    text += &escaped(rest.as_bytes());
    if has_style {
        text += PLAIN;
    }
    text + newline
}

/// The length of the sequence for colours and styles with which a text begins. One that hides text is none.
fn style_length(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix(STYLE)?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && !matches!(c, ';' | ':'))?;
    let (parameters, after) = parameters.split_at(end);
    let length = STYLE.len() + end + 1;
    (after.starts_with('m') && length <= STYLE_BYTES_MAX && shows_text(parameters))
        .then_some(length)
}

/// Whether parameters of colours and styles are complete and leave text to be seen: none of them is 8, but as a
/// part of a colour, as in `38;5;8` and `48;2;8;8;8`.
fn shows_text(parameters: &str) -> bool {
    let mut parameters = parameters.split(';').map(|parameter| parameter.trim_start_matches('0'));
    while let Some(parameter) = parameters.next() {
        match parameter {
            "38" | "48" | "58" => {
                let numbers = match parameters.next() {
                    Some("5") => 1,
                    Some("2") => 3,
                    _ => return false,
                };
                let is_number = |parameter: &str| !parameter.contains(':');
                let of_colour = parameters.by_ref().take(numbers);
                if of_colour.filter(|parameter| is_number(parameter)).count() < numbers {
                    return false;
                }
            }
            _ if parameter.split(':').next() == Some("8") => return false,
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_logs_stay_and_end_with_the_line() {
        for (line, shown) in [
            ("plain\r\n", "plain\\r\n"),
            ("\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\x1b[m\n"),
            ("\x1b[1;38;2;1;20;3mbold", "\x1b[1;38;2;1;20;3mbold\x1b[m"),
            // The cursor, the screen, the title, a hyperlink, hidden text, and what is cut off.
            ("\x1b[2Ja\x1b[1A\x1b[31mb\n", "\\u{1b}[2Ja\\u{1b}[1A\x1b[31mb\x1b[m\n"),
            ("\x1b]0;title\x07\n", "\\u{1b}]0;title\\u{7}\n"),
            ("\x1b[8msecret\x1b[01;08m\n", "\\u{1b}[8msecret\\u{1b}[01;08m\n"),
            ("a\x1b[31", "a\\u{1b}[31"),
            // 8 hides text, but not as a part of a colour.
            ("\x1b[8ma\x1b[1;8mb\x1b[8:1mc", "\\u{1b}[8ma\\u{1b}[1;8mb\\u{1b}[8:1mc"),
            ("\x1b[38;5;8mgrey", "\x1b[38;5;8mgrey\x1b[m"),
            ("\x1b[48;2;8;8;8mdark", "\x1b[48;2;8;8;8mdark\x1b[m"),
            ("\x1b[1;058;5;08;4mline", "\x1b[1;058;5;08;4mline\x1b[m"),
            ("\x1b[38:5:8;4:3mcurly", "\x1b[38:5:8;4:3mcurly\x1b[m"),
            ("\x1b[38;5;8;8mx\x1b[38;2;1;2;3;8my", "\\u{1b}[38;5;8;8mx\\u{1b}[38;2;1;2;3;8my"),
            ("\x1b[38:5:1;8mx\x1b[38;5;1:2;8my", "\\u{1b}[38:5:1;8mx\\u{1b}[38;5;1:2;8my"),
            ("\x1b[38mx\x1b[38;8my\x1b[48;2;8;8mz", "\\u{1b}[38mx\\u{1b}[38;8my\\u{1b}[48;2;8;8mz"),
            ("\x1b\x1b[32mx\u{9b}31m", "\\u{1b}\x1b[32mx\\u{9b}31m\x1b[m"),
        ] {
            assert_eq!(coloured(line.as_bytes()), shown, "{line:?}");
        }
        let long = format!("\x1b[{}m", "1;".repeat(100));
        assert!(!coloured(long.as_bytes()).contains('\x1b'));
    }

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

//! What a job is asked to be: its description, as BCL and as JSON.

use std::fmt::Write as _;

use maud::html;
use serde_json::Value;

use super::{Page, Part};
use crate::address::Place;
use crate::asker::PageClient;
use crate::problem::Problem;

/// The order of the first fields; the others follow by name.
const FIRST: [&str; 6] = ["name", "tasks", "priority", "appclass", "cmd", "env"];

pub(super) async fn page(asker: &mut PageClient, user: &str, job: &str) -> Result<Page, Problem> {
    let (_, status) = asker.job(user, job).await?;
    let json = serde_json::to_value(&status.spec).unwrap_or_default();
    let bcl = bcl(&json, 0);
    let json = serde_json::to_string_pretty(&json).unwrap_or_default();
    let owner = asker.to(Place::Job { user: user.to_owned(), job: job.to_owned() });
    let heading = html! {
        h1 { "Description of " a href=(owner) data-key="u" { (user) "/" (job) } }
        p class="muted" { "Version " (status.version) }
    };
    let part = |title: &str, text: &str| {
        html! {
            h2 { (title) }
            pre class="source" tabindex="0" { code { (text) } }
        }
    };
    let parts = vec![Part::new("bcl", part("BCL", &bcl)), Part::new("json", part("JSON", &json))];
    let command = super::at(asker, format!("bourg status {user}/{job} -o json"));
    Ok(Page::live(format!("{user}/{job} description"), heading, command, parts))
}

/// A description as BCL: it is Jsonnet, so names of fields need no quotes.
fn bcl(value: &Value, depth: usize) -> String {
    let indent = "  ".repeat(depth + 1);
    let end = "  ".repeat(depth);
    match value {
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let place = |name: &str| FIRST.iter().position(|first| *first == name);
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| (place(name).unwrap_or(FIRST.len()), (*name).clone()));
            let mut text = "{\n".to_owned();
            for (name, value) in fields {
                let _infallible =
                    writeln!(text, "{indent}{}: {},", field(name), bcl(value, depth + 1));
            }
            text + &end + "}"
        }
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(|value| bcl(value, depth + 1)).collect();
            let line = format!("[{}]", values.join(", "));
            if line.len() <= 80 && !line.contains('\n') {
                return line;
            }
            let values = values.iter().fold(String::new(), |mut text, value| {
                let _infallible = writeln!(text, "{indent}{value},");
                text
            });
            format!("[\n{values}{end}]")
        }
        Value::String(text) if !text.contains('\'') && !text.contains('\\') && plain(text) => {
            format!("'{text}'")
        }
        other => other.to_string(),
    }
}

fn plain(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fn field(name: &str) -> String {
    const WORDS: [&str; 19] = [
        "assert",
        "else",
        "error",
        "false",
        "for",
        "function",
        "if",
        "import",
        "importstr",
        "importbin",
        "in",
        "local",
        "null",
        "self",
        "super",
        "tailstrict",
        "then",
        "true",
        "",
    ];
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match starts && is_plain && !WORDS.contains(&name) {
        true => name.to_owned(),
        false => Value::from(name).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_bcl_that_reads_well() {
        let json = serde_json::json!({
            "env": { "PATH": "/bin", "if": "it's", "a-b": "" },
            "name": "web",
            "tasks": 3,
            "cmd": ["sh", "-c", "echo \"hi\"\nexit 1"],
            "labels": {},
        });
        let expected = "{
  name: 'web',
  tasks: 3,
  cmd: ['sh', '-c', \"echo \\\"hi\\\"\\nexit 1\"],
  env: {
    PATH: '/bin',
    \"a-b\": '',
    \"if\": \"it's\",
  },
  labels: {},
}";
        assert_eq!(bcl(&json, 0), expected);
        let long = Value::from(vec!["x".repeat(50), "y".repeat(50)]);
        assert_eq!(bcl(&long, 1).lines().count(), 4);
    }
}

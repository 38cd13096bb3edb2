//! Files that tasks bring, and secrets that they name.

use spec::{FileContent, FileMode, TaskFile};

use crate::{job, says};

fn with(fields: &str) -> String {
    format!("{{ name: 'x', cmd: ['a'] }} {{\n  {fields},\n}}")
}

#[test]
fn a_file_is_a_text_or_bytes_with_a_mode() {
    let file = |content, mode: &str| TaskFile { content, mode: mode.parse().expect("a mode") };
    let text = |text: &str| FileContent::Text(text.into());
    let bytes = |bytes: &[u8]| FileContent::Bytes(bytes.into());
    for (value, expected) in [
        ("'x = 1'", file(text("x = 1"), "0444")),
        ("{ content: 'x', mode: '0755' }", file(text("x"), "0755")),
        ("{ base64: std.base64([0, 255]) }", file(bytes(&[0, 255]), "0444")),
        ("''", file(text(""), "0444")),
    ] {
        let job = job(&with(&format!("files: {{ '/etc/x': {value} }}")));
        let found: Vec<_> = job.task.files.into_iter().collect();
        assert_eq!(found, [("/etc/x".to_owned(), expected)], "{value}");
    }
    assert_eq!(FileMode::default().to_string(), "0444");
}

#[test]
fn secrets_are_named_in_files_and_variables() {
    let job = job(&with("secrets: { '/etc/key': 'tls-key' }, secretEnv: { PASSWORD: 'db' }"));
    let secrets: Vec<String> = job.secrets().map(ToString::to_string).collect();
    assert_eq!(secrets, ["tls-key", "db"]);
}

#[test]
fn wrong_files_and_secrets_are_rejected_where_they_are() {
    for (fields, text) in [
        ("files: ['/etc/x']", "paths with contents"),
        ("files: { '/etc/x': 3 }", "a text, or a content with a mode"),
        ("files: { '/etc/x': { mode: '0444' } }", "needs the field 'content'"),
        ("files: { '/etc/x': { content: 'a', base64: 'YQ==' } }", "two spellings"),
        ("files: { '/etc/x': { base64: '!' } }", "is not base64"),
        ("files: { '/etc/x': { content: 'a', mode: '4755' } }", "is not a mode"),
        ("files: { '/etc/x': { content: 'a', mode: 292 } }", "a mode of four octal digits"),
        ("files: { 'etc/x': 'a' }", "is not a path for a file of a task"),
        ("files: { '/etc/../x': 'a' }", "is not a path for a file of a task"),
        ("files: { '/proc/x': 'a' }", "is in /proc"),
        ("files: { '/a': 'a', '/a/b': 'b' }", "is at or below another file, /a"),
        ("files: { '/a': '${task.indx}' }", "refers to nothing"),
        ("files: { '/a': '${prot.http}' }", "did you mean"),
        ("files: { '/a': std.repeat('x', 65537) }", "at most 65536 are allowed"),
        ("secrets: { '/a': 'Not_A_Name' }", "is not a secret name"),
        ("secrets: { '/a': 'k' }, files: { '/a': 'a' }", "is at or below another file, /a"),
        ("secretEnv: { A: 'k' }, env: { A: 'x' }", "has either a value or a secret"),
        ("secretEnv: { '1': 'k' }", "is not a variable's name"),
    ] {
        let said = says(with(fields));
        assert!(said.contains(text), "{fields}:\n{said}");
        assert!(said.contains("job.bcl:2:"), "{fields} has its place:\n{said}");
    }
}

//! The files that tasks bring, and the secrets that they use.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::SecretName;
use spec::limits::TASK_FILE_BYTES_MAX;
use spec::{FileContent, FileMode, OnChange, Path, TaskFile};

use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape};
use crate::json::Json;
use crate::quantity::{text, wrong_type};
use crate::words;

pub(crate) const SECRETS: &str =
    "paths with names of secrets, such as { '/etc/tls.key': 'tls-key' }";
pub(crate) const SECRET_ENV: &str =
    "variables with names of secrets, such as { PASSWORD: 'db-password' }";
const FILES: &str = "paths with contents, such as { '/etc/app.conf': importstr 'app.conf' }";
const FILE: Shape = Shape {
    of: "a file",
    expected: "a text, or a content with a mode, such as { content: 'debug = true', mode: '0644' }",
    fields: &["content", "base64", "mode"],
    spellings: &[],
};

/// Reads the field `files`.
pub(crate) fn files(fields: &Fields<'_>, found: &mut Diagnostics) -> BTreeMap<String, TaskFile> {
    let mut files = BTreeMap::new();
    let Some(value) = fields.get("files") else { return files };
    let path = fields.path.field("files");
    let Some(object) = value.object() else {
        found.add(path, wrong_type(FILES, value));
        return files;
    };
    for (name, value) in object.iter().filter(|(_, value)| **value != Json::Null) {
        if let Some(file) = file(value, path.key(name), found) {
            files.insert(name.clone(), file);
        }
    }
    files
}

fn file(value: &Json, path: Path, found: &mut Diagnostics) -> Option<TaskFile> {
    if let Json::Text(content) = value {
        let content = FileContent::Text(content.as_str().into());
        return Some(TaskFile { content, mode: FileMode::default() });
    }
    let fields = Fields::open(value, path, &FILE, found)?;
    let mode = fields.read("mode", found, mode);
    if fields.get("content").is_some() && fields.get("base64").is_some() {
        let both = ErrorKind::Both { one: "content", other: "base64" };
        found.add(fields.path.field("base64"), both);
        return None;
    }
    let content = match fields.get("base64") {
        Some(_) => FileContent::Bytes(fields.read("base64", found, bytes)?),
        None => {
            fields.require("content", "content: importstr 'app.conf'", found);
            FileContent::Text(fields.read("content", found, |value| {
                Ok(text("a text, such as importstr 'app.conf'", value)?.into())
            })?)
        }
    };
    Some(TaskFile { content, mode: mode.unwrap_or_default() })
}

fn mode(value: &Json) -> Result<FileMode, ErrorKind> {
    const EXPECTED: &str = "a mode of four octal digits as a text, such as '0444'";
    text(EXPECTED, value)?.parse().map_err(ErrorKind::FileMode)
}

/// Reads the name of a secret.
pub(crate) fn secret(value: &Json) -> Result<SecretName, ErrorKind> {
    Ok(SecretName::new(text("the name of a secret, such as 'tls-key'", value)?)?)
}

/// Reads what follows when a secret or the address of another job changes.
pub(crate) fn on_change(value: &Json) -> Result<OnChange, ErrorKind> {
    const WORDS: &[&str] = &OnChange::NAMES;
    let text = text("'nothing', 'signal' or 'restart'", value)?;
    let of = |word: &&&str| text == **word || text == words::constant(word);
    let known = WORDS.iter().find(of).and_then(|word| word.parse().ok());
    known.ok_or_else(|| ErrorKind::UnknownWord {
        text: text.to_owned(),
        what: "what follows a change",
        words: WORDS,
        nearest: words::nearest(text, WORDS),
    })
}

fn bytes(value: &Json) -> Result<Arc<[u8]>, ErrorKind> {
    let text = text("bytes in base64, such as std.base64('hello')", value)?;
    decoded(text).map(Into::into).ok_or(ErrorKind::NotBase64)
}

/// The bytes of a text in base64 with padding; line ends are ignored.
fn decoded(text: &str) -> Option<Vec<u8>> {
    // One byte more than is allowed is enough to be rejected.
    let most = (TASK_FILE_BYTES_MAX / 3 + 2) * 4;
    let mut bytes = Vec::new();
    let (mut bits, mut digits, mut padding) = (0_u32, 0_usize, 0_usize);
    for character in text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')) {
        let digit = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        if digits >= most {
            break;
        }
        bits = bits << 6 | u32::from(digit);
        digits += 1;
        if digits.is_multiple_of(4) {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
            bits = 0;
        }
    }
    match (digits % 4, padding) {
        (0, 0) => {}
        (2, 2) => bytes.push(u8::try_from(bits >> 4).ok()?),
        (3, 1) => bytes.extend_from_slice(&u16::try_from(bits >> 2).ok()?.to_be_bytes()),
        _ => return None,
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn base64_is_decoded_or_rejected() {
        for (text, bytes) in [
            ("", Some(&b""[..])),
            ("aGVsbG8=", Some(b"hello")),
            ("aGVsbA==", Some(b"hell")),
            ("aGVs\nbG8h", Some(b"hello!")),
            ("/+8=", Some(b"\xff\xef")),
            ("aGVsbG8", None),
            ("aGV=bG8=", None),
            ("a===", None),
            ("a b=", None),
        ] {
            assert_eq!(decoded(text).as_deref(), bytes, "{text}");
        }
    }
}

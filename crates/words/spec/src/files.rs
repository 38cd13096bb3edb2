//! Files that a task brings with its description.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// A file that a task finds at a path of its own. Copies share the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFile {
    /// What is in it.
    pub content: FileContent,
    /// Who may read it.
    pub mode: FileMode,
}

/// What is in a file of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// A text, whose references are filled in when the task starts.
    Text(Arc<str>),
    /// Bytes, which stay as they are.
    Bytes(Arc<[u8]>),
}

impl FileContent {
    /// Its size before references are filled in.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text, if it is one: only in that are references filled in.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Bytes(_) => None,
        }
    }
}

/// The permissions of a file: nobody writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileMode(u16);

/// The text is not the mode of a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "'{}' is not a mode: write four octal digits, such as '0444', without set-user-id, set-group-id and sticky bits",
    .0.escape_debug()
)]
pub struct FileModeError(String);

impl FileMode {
    /// Its bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0.into()
    }
}

impl Default for FileMode {
    fn default() -> Self {
        Self(0o444)
    }
}

impl FromStr for FileMode {
    type Err = FileModeError;

    fn from_str(text: &str) -> Result<Self, FileModeError> {
        let digits = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        let bits = digits.then(|| u16::from_str_radix(text, 8).ok()).flatten();
        match bits.filter(|bits| *bits <= 0o777) {
            Some(bits) => Ok(Self(bits)),
            None => Err(FileModeError(text.chars().take(16).collect())),
        }
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_has_four_octal_digits() {
        for (text, bits) in [
            ("0444", Some(0o444)),
            ("0755", Some(0o755)),
            ("0000", Some(0)),
            ("444", None),
            ("4755", None),
            ("0888", None),
            ("+444", None),
            ("", None),
        ] {
            let read = text.parse::<FileMode>();
            assert_eq!(read.as_ref().ok().map(|mode| mode.bits()), bits, "{text}");
            assert!(read.is_err() || read.is_ok_and(|mode| mode.to_string() == text), "{text}");
        }
    }
}

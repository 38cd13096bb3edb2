//! Paths of small files in a cell, and what a lock on one is called: the lock service of the cell.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::{LogIndex, NameError, UserName};

/// Maximum length of a file's content, in bytes.
pub const FILE_BYTES_MAX: usize = 16 << 10;
/// Maximum length of a path in bytes.
pub const PATH_BYTES_MAX: usize = 256;
/// Maximum number of components of a path.
pub const PATH_COMPONENTS_MAX: usize = 16;

/// The path of a file in a cell, `/USER/NAME…`. It belongs to the user in its first component.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(Arc<str>);

/// The text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// It does not begin with a slash and two components.
    #[error("a path is /USER/NAME, such as /ana/leader")]
    NotAbsolute,
    /// It is longer than [`PATH_BYTES_MAX`].
    #[error("a path has at most {PATH_BYTES_MAX} bytes, this one has {0}")]
    TooLong(usize),
    /// It has more than [`PATH_COMPONENTS_MAX`] components.
    #[error("a path has at most {PATH_COMPONENTS_MAX} components, this one has {0}")]
    TooDeep(usize),
    /// A component is empty, consists of dots only, or has another character than letters, digits and
    /// `-`, `_`, `.`.
    #[error("the components of a path are letters, digits, '-', '_' and '.', and not '.' or '..'")]
    BadComponent,
    /// The first component is not a user name.
    #[error("the first component of a path is a user: {0}")]
    NotAUser(#[from] NameError),
}

/// Whether a text is a component of a path.
fn is_component(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text != "." && text != ".." && text.chars().all(plain)
}

impl FilePath {
    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    /// The text of its first component: the name of the user it belongs to.
    #[must_use]
    pub fn user(&self) -> &str {
        self.0.split('/').nth(1).unwrap_or_default()
    }

    /// Whether it belongs to a user.
    #[must_use]
    pub fn is_of(&self, user: &UserName) -> bool {
        self.user() == user.as_str()
    }
}

impl FromStr for FilePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        if text.len() > PATH_BYTES_MAX {
            return Err(PathError::TooLong(text.len()));
        }
        let components = text.strip_prefix('/').ok_or(PathError::NotAbsolute)?;
        let count = components.split('/').count();
        if count < 2 {
            return Err(PathError::NotAbsolute);
        }
        if count > PATH_COMPONENTS_MAX {
            return Err(PathError::TooDeep(count));
        }
        if !components.split('/').all(is_component) {
            return Err(PathError::BadComponent);
        }
        UserName::new(components.split('/').next().unwrap_or_default())?;
        Ok(Self(text.into()))
    }
}

/// Paths are ordered as their texts are.
impl Borrow<str> for FilePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilePath({})", self.0)
    }
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// By one session.
    Exclusive,
    /// By any number of sessions.
    Shared,
}

impl LockMode {
    /// The mode, by whether it is shared.
    #[must_use]
    pub fn shared(shared: bool) -> Self {
        if shared { Self::Shared } else { Self::Exclusive }
    }
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        })
    }
}

/// The proof that a lock is held: a fencing token. It is valid while the holder that acquired the lock
/// at that generation holds it. As text it is `PATH:MODE:GENERATION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequencer {
    /// The file whose lock it is.
    pub path: FilePath,
    /// The mode in which it is held.
    pub mode: LockMode,
    /// The generation of the lock: later holders have a higher one.
    pub generation: LogIndex,
}

/// The text is not a sequencer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SequencerError {
    /// It does not have the three parts.
    #[error("a sequencer is PATH:exclusive|shared:GENERATION, such as /ana/leader:exclusive:12")]
    Form,
    /// Its path is invalid.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl FromStr for Sequencer {
    type Err = SequencerError;

    fn from_str(text: &str) -> Result<Self, SequencerError> {
        let mut parts = text.split(':');
        let (Some(path), Some(mode), Some(generation), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(SequencerError::Form);
        };
        let mode = match mode {
            "exclusive" => LockMode::Exclusive,
            "shared" => LockMode::Shared,
            _ => return Err(SequencerError::Form),
        };
        let generation = generation.parse().map(LogIndex).map_err(|_| SequencerError::Form)?;
        Ok(Self { path: path.parse()?, mode, generation })
    }
}

impl fmt::Display for Sequencer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path, self.mode, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_belong_to_a_user_and_are_bounded() {
        let long = format!("/ana/{}", "x".repeat(252));
        let deep = format!("/ana{}", "/x".repeat(16));
        for (text, expected) in [
            ("/ana/leader", None),
            ("/ana/a/b.c_d-E", None),
            ("", Some(PathError::NotAbsolute)),
            ("ana/leader", Some(PathError::NotAbsolute)),
            ("/ana", Some(PathError::NotAbsolute)),
            ("/ana/", Some(PathError::BadComponent)),
            ("/ana//b", Some(PathError::BadComponent)),
            ("/ana/../bob/x", Some(PathError::BadComponent)),
            ("/ana/a b", Some(PathError::BadComponent)),
            ("/ana/a:b", Some(PathError::BadComponent)),
            ("/ana/\u{e4}", Some(PathError::BadComponent)),
            (&long, Some(PathError::TooLong(257))),
            (&deep, Some(PathError::TooDeep(17))),
        ] {
            assert_eq!(text.parse::<FilePath>().err(), expected, "{text}");
        }
        assert!(matches!("/Ana/x".parse::<FilePath>(), Err(PathError::NotAUser(_))));
        let path: FilePath = "/ana/leader".parse().expect("a path");
        assert!(path.is_of(&"ana".parse().expect("a name")));
        assert!(!path.is_of(&"an".parse().expect("a name")));
    }

    #[test]
    fn a_sequencer_is_read_as_it_is_written() {
        for text in ["/ana/leader:exclusive:12", "/ana/a.b:shared:18446744073709551615"] {
            assert_eq!(text.parse::<Sequencer>().map(|it| it.to_string()), Ok(text.to_owned()));
        }
        for text in
            ["", "/ana/leader", "/ana/leader:other:1", "/ana/l:shared:x", "/ana/l:shared:1:"]
        {
            assert_eq!(text.parse::<Sequencer>(), Err(SequencerError::Form), "{text}");
        }
    }
}

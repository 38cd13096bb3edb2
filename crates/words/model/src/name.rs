//! Names chosen by users. Each is a DNS label, because a task's BNS name becomes its DNS name
//! (paper, section 2.6): 1 to 63 lower-case letters, digits and inner hyphens.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// The text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// The text is empty.
    #[error("a {what} cannot be empty")]
    Empty {
        /// The kind of name.
        what: &'static str,
    },
    /// The text is longer than a DNS label.
    #[error("a {what} has at most 63 characters, this one has {length}")]
    TooLong {
        /// The kind of name.
        what: &'static str,
        /// The length in characters.
        length: usize,
    },
    /// The text has a character that DNS labels do not allow, or a hyphen at either end.
    #[error(
        "'{}' is not a {what}: use lower-case letters, digits and inner hyphens{}",
        .text.escape_debug(),
        .suggestion.as_ref().map(|name| format!(", for example '{name}'")).unwrap_or_default()
    )]
    BadCharacter {
        /// The kind of name.
        what: &'static str,
        /// The text that was given.
        text: String,
        /// The nearest valid name, if there is one.
        suggestion: Option<String>,
    },
}

fn check(what: &'static str, text: &str) -> Result<(), NameError> {
    let length = text.chars().count();
    if length == 0 {
        return Err(NameError::Empty { what });
    }
    if length > 63 {
        return Err(NameError::TooLong { what, length });
    }
    if !is_label(text) {
        let near = nearest_label(text);
        let suggestion = is_label(&near).then_some(near);
        return Err(NameError::BadCharacter { what, text: text.to_owned(), suggestion });
    }
    Ok(())
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len())
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn nearest_label(text: &str) -> String {
    let mapped: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    mapped.trim_matches('-').to_owned()
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a text and converts it to a name.
            ///
            /// # Errors
            /// When the text is not 1 to 63 lower-case letters, digits and inner hyphens.
            pub fn new(text: &str) -> Result<Self, NameError> {
                check($what, text)?;
                Ok(Self(text.into()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }
    };
}

name!(
    /// The name of a secret.
    SecretName,
    "secret name"
);
name!(
    /// A volume of a machine, unique on it.
    VolumeName,
    "volume name"
);
name!(
    /// A user of the cell, who owns jobs and holds quota.
    UserName,
    "user name"
);
name!(
    /// The name of a job, unique among its owner's jobs that are not dead.
    JobName,
    "job name"
);
name!(
    /// The name of a cell (paper, section 2.2).
    CellName,
    "cell name"
);
name!(
    /// The name of a machine, unique in its cell.
    MachineName,
    "machine name"
);
name!(
    /// The name of a scheduler, unique in its cell.
    SchedulerName,
    "scheduler name"
);
name!(
    /// A job's name for one of its TCP ports, such as `http`.
    PortName,
    "port name"
);
name!(
    /// The name of a package, unique among its owner's packages.
    PackageName,
    "package name"
);

impl JobName {
    /// The name that comes before all others.
    #[must_use]
    pub fn first() -> Self {
        Self("0".into())
    }
}

impl SchedulerName {
    /// The name of the scheduler that a cell has from its start.
    #[must_use]
    pub fn main() -> Self {
        Self("main".into())
    }
}

impl UserName {
    /// The valid name nearest to a text such as an operating system's user name; `user` if no
    /// character of it can be kept.
    #[must_use]
    pub fn nearest(text: &str) -> Self {
        let mut label = nearest_label(text);
        label.truncate(63);
        Self::new(label.trim_end_matches('-')).unwrap_or_else(|_| Self("user".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_names() {
        for good in ["a", "web", "web-2", "0", &"x".repeat(63)] {
            let name = JobName::new(good).expect(good);
            assert_eq!(name.as_str(), good);
            assert!(JobName::first() <= name);
        }
    }

    #[test]
    fn an_invalid_name_is_refused_with_the_nearest_one() {
        let says = |text: &str| JobName::new(text).expect_err(text).to_string();
        assert_eq!(says(""), "a job name cannot be empty");
        assert_eq!(says(&"x".repeat(64)), "a job name has at most 63 characters, this one has 64");
        assert_eq!(
            says("Web_Server"),
            "'Web_Server' is not a job name: use lower-case letters, digits and inner hyphens, \
             for example 'web-server'"
        );
        assert_eq!(
            says("\u{1b}[31m"),
            "'\\u{1b}[31m' is not a job name: use lower-case letters, digits and inner hyphens, \
             for example '31m'"
        );
        assert_eq!(
            says("é"),
            "'é' is not a job name: use lower-case letters, digits and inner hyphens"
        );
    }

    #[test]
    fn an_operating_system_user_always_has_a_nearest_name() {
        for (text, name) in [("root", "root"), ("J.Doe", "j-doe"), ("_", "user"), ("", "user")] {
            assert_eq!(UserName::nearest(text).as_str(), name);
        }
        assert_eq!(UserName::nearest(&"a.".repeat(60)).as_str().len(), 63);
    }
}

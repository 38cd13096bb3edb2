//! Tests that failed, by name.

use std::fmt;

/// A test: its binary, as nextest names it (`PACKAGE::BINARY`, or `PACKAGE` for a library), and its
/// name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Test {
    pub(crate) binary: String,
    pub(crate) name: String,
}

impl Test {
    /// Reads what [`fmt::Display`] writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (binary, name) = text.split_once(' ')?;
        Some(Self { binary: binary.to_owned(), name: name.to_owned() })
    }

    /// The filter that selects this test alone.
    pub(crate) fn filter(&self) -> String {
        format!("binary_id(={}) & test(={})", self.binary, self.name)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.binary, self.name)
    }
}

/// A test that failed, and what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) test: Test,
    pub(crate) output: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_selected_by_their_whole_name() {
        let test = Test::parse("bourg::system hello::it_runs").expect("a test");
        assert_eq!(test.to_string(), "bourg::system hello::it_runs");
        assert_eq!(test.filter(), "binary_id(=bourg::system) & test(=hello::it_runs)");
        assert_eq!(Test::parse("hello"), None);
    }
}

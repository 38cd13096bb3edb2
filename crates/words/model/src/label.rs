//! Labels and queries over them: `-l team=search,tier!=canary,gpu,!spare` (paper, section 8.1: jobs
//! are not the only grouping).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Key-value pairs by which users find and group objects.
pub type Labels = BTreeMap<String, String>;

/// A query over labels. An object matches when all terms hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelQuery {
    terms: Vec<LabelTerm>,
}

/// One term of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelTerm {
    /// `key=value`: the label exists and has that value.
    Is {
        /// The label.
        key: String,
        /// Its value.
        value: String,
    },
    /// `key!=value`: the label is missing or has another value.
    IsNot {
        /// The label.
        key: String,
        /// The excluded value.
        value: String,
    },
    /// `key`: the label exists.
    Has(String),
    /// `!key`: the label does not exist.
    HasNot(String),
}

/// The text is not a label query.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LabelQueryError {
    /// A term without a label.
    #[error("'{}' names no label: use label=value, label!=value, label or !label, with commas between them", .0.escape_debug())]
    NoLabel(String),
    /// The query has more terms than allowed.
    #[error("a query has at most {most} terms, this one has {has}")]
    TooMany {
        /// The number of terms.
        has: usize,
        /// The maximum.
        most: usize,
    },
}

impl LabelQuery {
    /// The maximum number of terms in a query.
    pub const TERMS_MAX: usize = 64;

    /// A query with the given terms; terms after the first [`Self::TERMS_MAX`] are dropped.
    #[must_use]
    pub fn of(terms: impl IntoIterator<Item = LabelTerm>) -> Self {
        Self { terms: terms.into_iter().take(Self::TERMS_MAX).collect() }
    }

    /// Whether the query has no terms and therefore matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms.
    #[must_use]
    pub fn terms(&self) -> &[LabelTerm] {
        &self.terms
    }

    /// Whether all terms hold; `get` returns the value of a label.
    pub fn holds<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| match term {
            LabelTerm::Is { key, value } => get(key) == Some(value),
            LabelTerm::IsNot { key, value } => get(key) != Some(value),
            LabelTerm::Has(key) => get(key).is_some(),
            LabelTerm::HasNot(key) => get(key).is_none(),
        })
    }
}

/// Whether queries can name a label: `key`, `!key` and `key=value` mean it.
#[must_use]
pub fn can_be_queried(key: &str, value: &str) -> bool {
    let (key, value) = (key.to_owned(), value.to_owned());
    let all = [
        LabelTerm::Has(key.clone()),
        LabelTerm::HasNot(key.clone()),
        LabelTerm::Is { key: key.clone(), value: value.clone() },
        LabelTerm::IsNot { key, value },
    ];
    all.into_iter()
        .all(|term| term.to_string().parse::<LabelQuery>().is_ok_and(|query| query.terms == [term]))
}

impl FromStr for LabelTerm {
    type Err = LabelQueryError;

    fn from_str(text: &str) -> Result<Self, LabelQueryError> {
        let text = text.trim();
        let named = |key: &str| match key.trim() {
            "" => Err(LabelQueryError::NoLabel(text.to_owned())),
            key => Ok(key.to_owned()),
        };
        if let Some((key, value)) = text.split_once("!=") {
            return Ok(Self::IsNot { key: named(key)?, value: value.trim().to_owned() });
        }
        if let Some((key, value)) = text.split_once('=') {
            return Ok(Self::Is { key: named(key)?, value: value.trim().to_owned() });
        }
        match text.strip_prefix('!') {
            Some(key) => Ok(Self::HasNot(named(key)?)),
            None => Ok(Self::Has(named(text)?)),
        }
    }
}

impl FromStr for LabelQuery {
    type Err = LabelQueryError;

    fn from_str(text: &str) -> Result<Self, LabelQueryError> {
        let terms = text.split(',').map(str::parse).collect::<Result<Vec<_>, _>>()?;
        match terms.len() {
            has if has > Self::TERMS_MAX => {
                Err(LabelQueryError::TooMany { has, most: Self::TERMS_MAX })
            }
            _ => Ok(Self { terms }),
        }
    }
}

impl fmt::Display for LabelTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is { key, value } => write!(f, "{key}={value}"),
            Self::IsNot { key, value } => write!(f, "{key}!={value}"),
            Self::Has(key) => f.write_str(key),
            Self::HasNot(key) => write!(f, "!{key}"),
        }
    }
}

impl fmt::Display for LabelQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, term) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if position == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_holds_where_all_its_terms_do() {
        let labels: Labels = [("team", "search"), ("tier", "canary"), ("gpu", "")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let cases = [
            ("team=search", true),
            ("team=ads", false),
            ("team!=ads", true),
            ("team!=search", false),
            ("owner!=ana", true),
            ("gpu", true),
            ("gpu=", true),
            ("owner", false),
            ("!owner", true),
            ("!gpu", false),
            (" team = search , tier!=prod, gpu", true),
            ("team=search,tier=prod", false),
        ];
        for (text, expected) in cases {
            let query: LabelQuery = text.parse().expect(text);
            let holds = query.holds(|key| labels.get(key).map(String::as_str));
            assert_eq!(holds, expected, "{text}");
        }
        assert!(LabelQuery::default().holds(|_| None));
    }

    #[test]
    fn a_query_reads_back_what_it_prints_and_needs_a_label() {
        for text in ["a=b", "a!=b", "a", "!a", "a=b,c!=d,e,!f", "a=b=c", "a="] {
            assert_eq!(text.parse::<LabelQuery>().expect(text).to_string(), text);
        }
        for bad in ["", "=b", "!=b", "!", "a,,b", "a,"] {
            assert!(bad.parse::<LabelQuery>().is_err(), "{bad}");
        }
        assert!("a,".repeat(65).trim_end_matches(',').parse::<LabelQuery>().is_err());
    }

    #[test]
    fn labels_can_be_queried_that_a_query_reads_as_they_are() {
        for (key, value) in
            [("team", "search"), ("a.b/c", ""), ("k", "v=w"), ("k", "a b"), ("k", "!v")]
        {
            assert!(can_be_queried(key, value), "{key}={value}");
        }
        for (key, value) in [
            ("", "v"),
            ("a,b", "v"),
            ("a=b", "v"),
            ("a!", "v"),
            ("!a", "v"),
            (" a", "v"),
            ("a ", "v"),
            ("a", "b,c"),
            ("a", " v"),
            ("a", "v\u{a0}"),
            ("a", "b!=c"),
        ] {
            assert!(!can_be_queried(key, value), "{key}={value}");
        }
    }
}

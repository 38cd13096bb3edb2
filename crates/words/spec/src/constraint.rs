//! Constraints over the attributes of machines (paper, section 2.3; trace v3, "machine constraints").

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A condition on one of a machine's attributes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraint {
    /// The attribute's name.
    pub attribute: String,
    /// How the attribute must relate to the value.
    pub relation: Relation,
    /// The value; ignored by [`Relation::Present`] and [`Relation::NotPresent`].
    pub value: String,
    /// Hard: a machine that does not match is infeasible. Otherwise the constraint is a preference.
    pub hard: bool,
}

/// The eight relations of the published traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// The attribute equals the value as text. A missing attribute is the empty text.
    Equal,
    /// The attribute does not equal the value as text. A missing attribute is the empty text.
    NotEqual,
    /// The attribute, as an integer, is less than the value. A missing attribute is 0.
    LessThan,
    /// The attribute, as an integer, is at most the value. A missing attribute is 0.
    LessThanEqual,
    /// The attribute, as an integer, is more than the value. A missing attribute is 0.
    GreaterThan,
    /// The attribute, as an integer, is at least the value. A missing attribute is 0.
    GreaterThanEqual,
    /// The machine has the attribute, with any value.
    Present,
    /// The machine does not have the attribute.
    NotPresent,
}

/// The text is not the name of a relation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{}' is not a relation: use one of {}", .0.escape_debug(), Relation::ALL.map(Relation::name).join(", "))]
pub struct NoSuchRelation(pub String);

impl Relation {
    /// All eight relations.
    pub const ALL: [Self; 8] = [
        Self::Equal,
        Self::NotEqual,
        Self::LessThan,
        Self::LessThanEqual,
        Self::GreaterThan,
        Self::GreaterThanEqual,
        Self::Present,
        Self::NotPresent,
    ];

    /// The name used in files: the traces' name in lower case, with hyphens.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::NotEqual => "not-equal",
            Self::LessThan => "less-than",
            Self::LessThanEqual => "less-than-equal",
            Self::GreaterThan => "greater-than",
            Self::GreaterThanEqual => "greater-than-equal",
            Self::Present => "present",
            Self::NotPresent => "not-present",
        }
    }

    /// Whether the relation compares integers.
    #[must_use]
    pub fn is_numeric(self) -> bool {
        use Relation::{GreaterThan, GreaterThanEqual, LessThan, LessThanEqual};
        matches!(self, LessThan | LessThanEqual | GreaterThan | GreaterThanEqual)
    }

    /// Whether the relation uses the value.
    #[must_use]
    pub fn has_value(self) -> bool {
        !matches!(self, Self::Present | Self::NotPresent)
    }
}

impl FromStr for Relation {
    type Err = NoSuchRelation;

    fn from_str(text: &str) -> Result<Self, NoSuchRelation> {
        let named = Self::ALL.into_iter().find(|relation| relation.name() == text);
        named.ok_or_else(|| NoSuchRelation(text.to_owned()))
    }
}

impl Constraint {
    /// Whether a machine with these attributes matches. An integer comparison fails if the
    /// attribute or the value is not an integer.
    #[must_use]
    pub fn matches(&self, attributes: &BTreeMap<String, String>) -> bool {
        let found = attributes.get(&self.attribute).map(String::as_str);
        let text = found.unwrap_or_default();
        let compared = || {
            let number = found.map_or(Some(0), |text| text.trim().parse::<i64>().ok())?;
            Some(number.cmp(&self.value.trim().parse::<i64>().ok()?))
        };
        match self.relation {
            Relation::Equal => text == self.value,
            Relation::NotEqual => text != self.value,
            Relation::LessThan => compared().is_some_and(std::cmp::Ordering::is_lt),
            Relation::LessThanEqual => compared().is_some_and(std::cmp::Ordering::is_le),
            Relation::GreaterThan => compared().is_some_and(std::cmp::Ordering::is_gt),
            Relation::GreaterThanEqual => compared().is_some_and(std::cmp::Ordering::is_ge),
            Relation::Present => found.is_some(),
            Relation::NotPresent => found.is_none(),
        }
    }
}

/// `gpu = "h200"`, `cores >= 8`, `ssd is present`.
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = (self.attribute.escape_debug(), self.value.escape_debug());
        match self.relation {
            Relation::Equal => write!(f, "{name} = \"{value}\""),
            Relation::NotEqual => write!(f, "{name} != \"{value}\""),
            Relation::LessThan => write!(f, "{name} < {value}"),
            Relation::LessThanEqual => write!(f, "{name} <= {value}"),
            Relation::GreaterThan => write!(f, "{name} > {value}"),
            Relation::GreaterThanEqual => write!(f, "{name} >= {value}"),
            Relation::Present => write!(f, "{name} is present"),
            Relation::NotPresent => write!(f, "{name} is not present"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eight_relations_mean_what_the_trace_says() {
        use Relation::{
            Equal, GreaterThan, GreaterThanEqual, LessThan, LessThanEqual, NotEqual, NotPresent,
            Present,
        };
        // The attribute's value (or `None`), the relation, the constraint's value, whether it
        // matches.
        let cases = [
            (Some("a"), Equal, "a", true),
            (Some("a"), Equal, "b", false),
            (Some("01"), Equal, "1", false),
            (None, Equal, "", true),
            (None, Equal, "a", false),
            (Some("a"), NotEqual, "a", false),
            (None, NotEqual, "a", true),
            (None, NotEqual, "", false),
            (Some("3"), LessThan, "4", true),
            (Some("4"), LessThan, "4", false),
            (Some("-1"), LessThan, "0", true),
            (None, LessThan, "1", true),
            (None, LessThan, "0", false),
            (Some("4"), LessThanEqual, "4", true),
            (None, LessThanEqual, "0", true),
            (Some("5"), GreaterThan, "4", true),
            (Some("10"), GreaterThan, "9", true),
            (None, GreaterThan, "0", false),
            (None, GreaterThan, "-1", true),
            (Some("4"), GreaterThanEqual, "4", true),
            (None, GreaterThanEqual, "1", false),
            (Some("fast"), GreaterThan, "1", false),
            (Some("fast"), LessThanEqual, "1", false),
            (Some(""), Present, "", true),
            (None, Present, "", false),
            (Some(""), NotPresent, "", false),
            (None, NotPresent, "", true),
        ];
        for (attribute, relation, value, expected) in cases {
            let constraint = Constraint {
                attribute: "x".to_owned(),
                relation,
                value: value.to_owned(),
                hard: true,
            };
            let attributes =
                attribute.map(|is| ("x".to_owned(), is.to_owned())).into_iter().collect();
            assert_eq!(constraint.matches(&attributes), expected, "{attribute:?}: {constraint}");
        }
    }

    #[test]
    fn relations_are_known_by_name() {
        for relation in Relation::ALL {
            assert_eq!(relation.name().parse(), Ok(relation));
        }
        assert!("=".parse::<Relation>().is_err());
    }
}

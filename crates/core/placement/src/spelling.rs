//! Constraints that no machine matches because machines spell the attribute or the value differently.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cell::{Cell, Machine};
use spec::{Constraint, Relation};

/// The most constraints that are looked at.
const SPELLED_TOGETHER: usize = 100;
/// The most values of an attribute that are compared: attributes with more are names and not kinds.
const VALUES_COMPARED: usize = 1_000;
/// The longest text that has a near spelling: the distance takes quadratic time.
const LONGEST_WORD: usize = 64;

/// What machines say instead of what a constraint wants, which none of them matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NearSpelling {
    /// No machine has the attribute.
    NoAttribute {
        /// The attribute.
        attribute: String,
        /// The nearest that some have, with their number; `None` if none is near.
        near: Option<(String, usize)>,
    },
    /// No machine has the value, and some have one that is spelled like it.
    Value {
        /// The attribute.
        attribute: String,
        /// The value that the constraint wants.
        wanted: String,
        /// The nearest that some have.
        near: String,
        /// Their number.
        machines: usize,
    },
}

/// The constraints among the given ones that no machine matches for a name that no machine has, each once.
#[must_use]
pub fn near_spellings<'a>(
    cell: &Cell,
    constraints: impl IntoIterator<Item = &'a Constraint>,
) -> Vec<NearSpelling> {
    let mut distinct: BTreeSet<&Constraint> = BTreeSet::new();
    for constraint in constraints {
        if distinct.len() >= SPELLED_TOGETHER {
            break;
        }
        distinct.insert(constraint);
    }
    if cell.machine_count() == 0 {
        return Vec::new();
    }
    let found = distinct.into_iter().filter_map(|constraint| near_spelling(cell, constraint));
    let found: BTreeSet<NearSpelling> = found.collect();
    found.into_iter().collect()
}

fn near_spelling(cell: &Cell, constraint: &Constraint) -> Option<NearSpelling> {
    let wants_it = match constraint.relation {
        Relation::Equal => !constraint.value.is_empty(),
        Relation::Present | Relation::GreaterThan | Relation::GreaterThanEqual => true,
        // A machine without the attribute matches these.
        Relation::NotEqual
        | Relation::NotPresent
        | Relation::LessThan
        | Relation::LessThanEqual => false,
    };
    let attribute = &constraint.attribute;
    let mut machines = cell.machines();
    if !wants_it || machines.any(|machine| constraint.matches(machine.attributes())) {
        return None;
    }
    let values = counted(cell, |machine, add| {
        machine.attribute(attribute).into_iter().for_each(add);
    });
    if values.is_empty() {
        let names = counted(cell, |machine, add| {
            machine.attributes().keys().map(String::as_str).for_each(add);
        });
        let near = nearest(attribute, &names).map(|(name, count)| (name.to_owned(), count));
        return Some(NearSpelling::NoAttribute { attribute: attribute.clone(), near });
    }
    if constraint.relation != Relation::Equal {
        return None;
    }
    let (near, machines) = nearest(&constraint.value, &values)?;
    let (attribute, wanted) = (attribute.clone(), constraint.value.clone());
    Some(NearSpelling::Value { attribute, wanted, near: near.to_owned(), machines })
}

/// How many machines have each text.
fn counted<'a>(
    cell: &'a Cell,
    texts: impl Fn(&'a Machine, &mut dyn FnMut(&'a str)),
) -> BTreeMap<&'a str, usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for machine in cell.machines() {
        texts(machine, &mut |text| {
            if counts.len() < VALUES_COMPARED || counts.contains_key(text) {
                *counts.entry(text).or_default() += 1;
            }
        });
    }
    counts
}

/// The text nearest to a word, if one is near enough to have been meant; of equally near ones the most frequent.
fn nearest<'a>(word: &str, texts: &BTreeMap<&'a str, usize>) -> Option<(&'a str, usize)> {
    let letters = word.chars().count();
    if letters > LONGEST_WORD {
        return None;
    }
    let wanted = plain(word);
    let near = texts.iter().filter(|(text, _)| text.chars().count() <= LONGEST_WORD);
    let near = near.filter_map(|(text, count)| {
        let distance = strsim::damerau_levenshtein(&wanted, &plain(text));
        let longest = letters.max(text.chars().count());
        // A digit more is another kind: h100 is not a misspelt h200.
        let same_digits = digits(word) == digits(text);
        (distance * 3 <= longest && same_digits).then_some((distance, Reverse(*count), *text))
    });
    near.min().map(|(_, Reverse(count), text)| (text, count))
}

fn plain(word: &str) -> String {
    let letters = word.chars().filter(|c| !matches!(c, '-' | '_' | '.' | '/' | ' '));
    letters.flat_map(char::to_lowercase).collect()
}

fn digits(word: &str) -> String {
    word.chars().filter(char::is_ascii_digit).collect()
}

/// `no machine has the attribute gpuu: did you mean gpu, which 96 machines have?`
impl fmt::Display for NearSpelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |count: &usize| match count {
            1 => "1 machine has".to_owned(),
            several => format!("{several} machines have"),
        };
        match self {
            Self::NoAttribute { attribute, near } => {
                write!(f, "no machine has the attribute {}", attribute.escape_debug())?;
                match near {
                    None => Ok(()),
                    Some((near, count)) => {
                        let near = near.escape_debug();
                        write!(f, ": did you mean {near}, which {}?", counted(count))
                    }
                }
            }
            Self::Value { attribute, wanted, near, machines } => write!(
                f,
                "no machine has {} = \"{}\": did you mean \"{}\", which {}?",
                attribute.escape_debug(),
                wanted.escape_debug(),
                near.escape_debug(),
                counted(machines)
            ),
        }
    }
}

//! The field `constraints`: a task's constraints on machine attributes.

use spec::{Constraint, Path, Relation};

use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape};
use crate::json::Json;
use crate::quantity::{integer, text, truth, wrong_type};
use crate::words;

const CONSTRAINTS: &str = "a list of constraints, such as [{ attribute: 'gpu', value: 'H200' }]";
const CONSTRAINT: Shape = Shape {
    of: "a constraint",
    expected: "a constraint, such as { attribute: 'gpu', value: 'H200' }",
    fields: &["attribute", "relation", "value", "soft"],
    spellings: &[],
};
/// The names of [`Relation::ALL`].
const RELATIONS: &[&str] = &[
    "equal",
    "not-equal",
    "less-than",
    "less-than-equal",
    "greater-than",
    "greater-than-equal",
    "present",
    "not-present",
];

/// Reads a list of constraints.
pub(crate) fn constraints(value: &Json, path: &Path, found: &mut Diagnostics) -> Vec<Constraint> {
    let Some(list) = value.list() else {
        found.add(path.clone(), wrong_type(CONSTRAINTS, value));
        return Vec::new();
    };
    let each = list.iter().enumerate();
    each.filter_map(|(position, value)| constraint(value, path.element(position), found)).collect()
}

/// Without a relation, the attribute must equal the value; without a value too, it must be present.
fn constraint(value: &Json, path: Path, found: &mut Diagnostics) -> Option<Constraint> {
    let fields = Fields::open(value, path, &CONSTRAINT, found)?;
    fields.require("attribute", "attribute: 'gpu'", found);
    let attribute = fields.read("attribute", found, attribute);
    let is_named = fields.get("relation").is_some();
    let is_valued = fields.get("value").is_some();
    let relation = match is_named {
        true => fields.read("relation", found, relation),
        false if is_valued => Some(Relation::Equal),
        false => Some(Relation::Present),
    };
    // Canonical JSON omits an empty string, which is not an integer.
    if !is_valued && relation.is_some_and(Relation::is_numeric) {
        let (name, of, example) = ("value", "a constraint that compares", "value: 8");
        found.add(fields.path.clone(), ErrorKind::MissingField { name, of, example });
    }
    let value = fields.read("value", found, attribute_value).unwrap_or_default();
    let soft = fields.read("soft", found, truth).unwrap_or_default();
    Some(Constraint { attribute: attribute?, relation: relation?, value, hard: !soft })
}

fn attribute(value: &Json) -> Result<String, ErrorKind> {
    let expected = "the name of an attribute, such as 'gpu'";
    match text(expected, value)? {
        "" => Err(wrong_type(expected, value)),
        name => Ok(name.to_owned()),
    }
}

/// Attributes of machines are strings, some of which are integers.
fn attribute_value(value: &Json) -> Result<String, ErrorKind> {
    match value {
        Json::Text(text) => Ok(text.clone()),
        Json::Number(number) => integer(*number).map(|number| number.to_string()),
        other => Err(wrong_type("a string or a whole number, such as 'H200' or 8", other)),
    }
}

fn relation(value: &Json) -> Result<Relation, ErrorKind> {
    let text = text("a relation, such as 'equal' or 'greater-than-equal'", value)?;
    let is =
        |relation: &Relation| relation.name() == text || words::constant(relation.name()) == text;
    Relation::ALL.into_iter().find(is).ok_or_else(|| ErrorKind::UnknownWord {
        text: text.to_owned(),
        what: "a relation",
        words: RELATIONS,
        nearest: words::nearest(text, RELATIONS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_relation_can_be_named_and_guessed() {
        assert_eq!(RELATIONS, Relation::ALL.map(Relation::name));
        for (meant, name) in [
            ("GREATER-THAN", "greater-than"),
            ("notEqual", "not-equal"),
            ("less_than_equals", "less-than-equal"),
            (">=", "greater-than-equal"),
            ("==", "equal"),
            ("exists", "present"),
            ("DoesNotExist", "not-present"),
        ] {
            assert_eq!(words::nearest(meant, RELATIONS), Some(name), "{meant}");
        }
    }
}

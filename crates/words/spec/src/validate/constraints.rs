//! What a job asks of its machines' attributes.

use super::{ProblemKind, Problems, limits};
use crate::Constraint;
use crate::path::Location;

impl Problems {
    pub(super) fn constraints(&mut self, at: &Location<'_>, constraints: &[Constraint]) {
        self.count(at, constraints.len(), limits::CONSTRAINTS_MAX, "constraints");
        for (position, constraint) in constraints.iter().enumerate() {
            let at = at.element(position);
            let (name, value) = (at.field("attribute"), at.field("value"));
            self.named(&name, &constraint.attribute);
            self.word(&name, &constraint.attribute);
            self.word(&value, &constraint.value);
            let relation = constraint.relation.name();
            if !constraint.relation.has_value() && !constraint.value.is_empty() {
                self.add(&value, ProblemKind::NoValue { relation });
            }
            let number = constraint.value.trim().parse::<i64>();
            if constraint.relation.is_numeric() && number.is_err() {
                let value_text = constraint.value.clone();
                self.add(&value, ProblemKind::NotAnInteger { value: value_text, relation });
            }
        }
    }
}

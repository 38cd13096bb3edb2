//! A machine has the attributes that the task's hard constraints require. Soft ones only affect
//! scoring (trace v3, "machine constraints").

use super::{Offer, Request, UnschedulableReason};

pub(super) fn check(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    let attributes = offer.machine.attributes();
    let mut hard = ask.constraints.iter().filter(|constraint| constraint.hard);
    match hard.find(|constraint| !constraint.matches(attributes)) {
        None => Ok(()),
        Some(constraint) => {
            let has = offer.machine.attribute(&constraint.attribute).map(Into::into);
            Err(UnschedulableReason::Constraint { constraint: Box::new(constraint.clone()), has })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use spec::{Constraint, Relation};

    use super::*;
    use crate::feasibility::testing::asking;
    use crate::{Demand, Machine};

    #[test]
    fn hard_constraints_must_match_and_soft_ones_need_not() {
        let mut machine = Machine::testing();
        machine.operator_attributes =
            Arc::new(BTreeMap::from([("gpu".to_owned(), "H200".to_owned())]));
        machine.derive(&imbl::OrdMap::new());
        let constraint = |relation, value: &str, hard| Constraint {
            attribute: "gpu".to_owned(),
            relation,
            value: value.to_owned(),
            hard,
        };
        let says = |constraints: &[Constraint]| {
            let ask = Request { constraints, ..asking(Demand::default()) };
            check(&ask, &Offer::of(&machine))
                .map_err(|unschedulable_reason| unschedulable_reason.to_string())
        };
        assert_eq!(says(&[]), Ok(()));
        assert_eq!(says(&[constraint(Relation::Equal, "H200", true)]), Ok(()));
        assert_eq!(says(&[constraint(Relation::Equal, "h200", false)]), Ok(()));
        assert_eq!(
            says(&[
                constraint(Relation::Present, "", true),
                constraint(Relation::Equal, "h200", true)
            ]),
            Err("does not match gpu = \"h200\": it has \"H200\"".to_owned())
        );
        let absent = Constraint {
            attribute: "ssd".to_owned(),
            ..constraint(Relation::GreaterThan, "0", true)
        };
        assert_eq!(
            says(&[absent]),
            Err("does not match ssd > 0: it does not have that attribute".to_owned())
        );
    }
}

//! Soft constraints: the number of them that a machine does not match (paper, section 3.2:
//! "user-specified preferences").

use std::collections::BTreeMap;

use spec::Constraint;

pub(crate) fn unmatched(constraints: &[Constraint], attributes: &BTreeMap<String, String>) -> u32 {
    let soft = constraints.iter().filter(|constraint| !constraint.hard);
    let count = soft.filter(|constraint| !constraint.matches(attributes)).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::Relation;

    #[test]
    fn hard_constraints_do_not_count() {
        let constraint = |value: &str, hard| Constraint {
            attribute: "ssd".to_owned(),
            relation: Relation::Equal,
            value: value.to_owned(),
            hard,
        };
        let attributes = BTreeMap::from([("ssd".to_owned(), "1".to_owned())]);
        let cases = [
            (vec![], 0),
            (vec![constraint("1", false)], 0),
            (vec![constraint("2", true)], 0),
            (vec![constraint("2", false), constraint("1", false), constraint("3", false)], 2),
        ];
        for (constraints, expected) in cases {
            assert_eq!(unmatched(&constraints, &attributes), expected);
        }
    }
}

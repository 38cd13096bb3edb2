//! What is wrong with the description in a request. A rejection has only its place.

use cell::{Mutation, Rejection, UpdateJob};
use spec::{JobSpec, Problem};

use crate::sentence;

/// The sentence for the rejection of a mutation. If its own description is invalid, it says how; a
/// description that the cell has made of it, such as one with another number of tasks, is known only to the
/// cell.
#[must_use]
pub fn of_mutation(mutation: &Mutation, rejection: &Rejection) -> String {
    let problem = match rejection {
        Rejection::InvalidDescription(_) => problem(mutation),
        _ => None,
    };
    match problem {
        Some(problem) => format!("the job description is not valid: {problem}"),
        None => sentence(rejection),
    }
}

/// The first problem of the description in a mutation.
fn problem(mutation: &Mutation) -> Option<Problem> {
    let first = |spec: &JobSpec| spec.problems().into_iter().next();
    match mutation {
        Mutation::Submit(spec) => first(spec),
        Mutation::UpdateJob(UpdateJob { spec, policy, .. }) => first(spec).or_else(|| {
            let policy = (*policy)?;
            first(&JobSpec { update: policy, ..JobSpec::clone(spec) })
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use spec::TaskSpec;

    use super::*;

    #[test]
    fn a_rejection_explains_a_bad_description_where_it_is_available() {
        let (name, priority) = ("web".parse().expect("a name"), "free".parse().expect("one"));
        let task = TaskSpec::of(vec!["sh".to_owned(), "x".repeat(200 << 10)]);
        let submit = Mutation::Submit(Arc::new(JobSpec::of(name, priority, 1, task)));
        let rejection = submit.within_bounds().expect_err("too long");
        assert_eq!(
            of_mutation(&submit, &rejection),
            "the job description is not valid: cmd: has 204802 bytes, at most 131072 are allowed"
        );
        assert_eq!(sentence(&rejection), "the job description is not valid: cmd");
    }
}

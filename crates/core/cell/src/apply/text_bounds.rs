//! The bounds of texts. A text out of bounds is rejected by every cell, whatever its state: a
//! proposer can check before, and keep the log free of it.

use std::collections::BTreeMap;

use model::MachineName;
use spec::{JobSpec, Path, Problem, Step, UpdatePolicy};

use super::cut;
use crate::bounds::{ATTRIBUTE_CHANGES_MAX, ATTRIBUTE_CHARACTERS_MAX, REASON_CHARACTERS_MAX};
use crate::{Op, OutOfBounds, Rejection, TextField};

impl Op {
    /// Whether its texts are within the bounds that hold in every cell: see
    /// [`crate::Mutation::within_bounds`].
    ///
    /// # Errors
    /// With what is out of bounds, in data of bounded size.
    pub fn within_bounds(&self) -> Result<(), Rejection> {
        match self {
            Self::Request { mutation, .. } => mutation.within_bounds(),
            Self::Enrol { address, .. } => machine_address(address),
            // The other operations contain only the master's own texts, or names.
            _ => Ok(()),
        }
    }
}

pub(super) fn description(spec: &JobSpec) -> Result<(), Rejection> {
    valid(&spec.problems())
}

/// The same for a job that is there, which may have been resized to no tasks.
pub(super) fn resized_description(spec: &JobSpec) -> Result<(), Rejection> {
    valid(&spec.problems_of_resized())
}

fn valid(problems: &[Problem]) -> Result<(), Rejection> {
    match problems.first() {
        None => Ok(()),
        Some(problem) => Err(Rejection::InvalidDescription(bounded(&problem.path))),
    }
}

/// A path as sessions keep it: keys in it are what the user wrote, and may be of any length.
fn bounded(path: &Path) -> Path {
    let steps = path.0.iter().map(|step| match step {
        Step::Key(key) => Step::Key(cut(key)),
        other => other.clone(),
    });
    Path(steps.collect())
}

/// Whether an update policy that replaces the description's is valid.
pub(super) fn policy(spec: &JobSpec, policy: Option<&UpdatePolicy>) -> Result<(), Rejection> {
    let Some(policy) = policy else { return Ok(()) };
    description(&JobSpec { update: *policy, ..spec.clone() })
}

pub(super) fn machine_address(address: &str) -> Result<(), Rejection> {
    text(TextField::MachineAddress, address, false)
}

pub(super) fn replica_address(address: &str) -> Result<(), Rejection> {
    text(TextField::ReplicaAddress, address, false)
}

pub(super) fn platform(platform: &str) -> Result<(), Rejection> {
    text(TextField::Platform, platform, false)
}

pub(super) fn reason(reason: &str) -> Result<(), Rejection> {
    if reason.chars().count() > REASON_CHARACTERS_MAX || reason.chars().any(char::is_control) {
        let most = REASON_CHARACTERS_MAX as u64;
        return Err(Rejection::BadText { what: TextField::Reason, most });
    }
    Ok(())
}

pub(super) fn command(command: &str) -> Result<(), Rejection> {
    text(TextField::Command, command, false)
}

pub(super) fn attributes(changes: &BTreeMap<String, Option<String>>) -> Result<(), Rejection> {
    for (name, value) in changes {
        text(TextField::AttributeName, name, false)?;
        text(TextField::AttributeValue, value.as_deref().unwrap_or_default(), true)?;
    }
    Ok(())
}

/// An applied request may contain more: most of its changes then have no effect.
pub(super) fn check_count(
    machine: &MachineName,
    changes: &BTreeMap<String, Option<String>>,
) -> Result<(), Rejection> {
    if changes.len() > ATTRIBUTE_CHANGES_MAX {
        let (machine, number) = (machine.clone(), changes.len() as u64);
        return Err(Rejection::OutOfBounds(OutOfBounds::Attributes { machine, number }));
    }
    Ok(())
}

fn text(what: TextField, text: &str, may_be_empty: bool) -> Result<(), Rejection> {
    let long = text.chars().count() > ATTRIBUTE_CHARACTERS_MAX;
    if long || text.chars().any(char::is_control) || (text.is_empty() && !may_be_empty) {
        let most = ATTRIBUTE_CHARACTERS_MAX as u64;
        return Err(Rejection::BadText { what, most });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{GcuFactor, MachineId, SessionId, Time};
    use spec::TaskSpec;

    use super::*;
    use crate::{
        AddMachine, AddReplica, Cell, DrainMachine, Mutation, Outcome, RequestId, SetAttributes,
        SetPlatform,
    };

    /// A cell with administrator root and machine m1.
    fn cell() -> Cell {
        let mut cell = Cell::empty();
        let name = "lab".parse().expect("a name");
        let administrator = "root".parse().expect("a name");
        cell.apply(Time(1), &Op::Bootstrap { name, administrator });
        cell.apply(Time(3), &Op::OpenSession { user: "root".parse().expect("a name") });
        let m1 = Mutation::AddMachine(AddMachine { name: machine(), address: "m1:1".to_owned() });
        assert_eq!(apply(&mut cell, m1), Ok(crate::Reply::MachineAdded(MachineId(1))));
        cell
    }

    fn apply(cell: &mut Cell, mutation: Mutation) -> Result<crate::Reply, Rejection> {
        let id = RequestId { session: SessionId(1), sequence: cell.index().0 };
        let op = Op::Request { id, by: "root".parse().expect("a name"), mutation };
        match cell.apply(Time(4), &op).outcome {
            Outcome::Request(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn machine() -> MachineName {
        "m1".parse().expect("a name")
    }

    fn job(argument: String) -> Mutation {
        let (name, priority) =
            ("web".parse().expect("a name"), "free".parse().expect("a priority"));
        let task = TaskSpec::of(vec!["sh".to_owned(), argument]);
        Mutation::Submit(Arc::new(JobSpec::of(name, priority, 1, task)))
    }

    fn drain(reason: String) -> Mutation {
        Mutation::DrainMachine(DrainMachine::of(machine(), reason))
    }

    fn set(changes: impl IntoIterator<Item = (String, Option<String>)>) -> Mutation {
        Mutation::SetAttributes(SetAttributes {
            machine: machine(),
            changes: changes.into_iter().collect(),
        })
    }

    fn platform(platform: String) -> Mutation {
        Mutation::SetPlatform(SetPlatform {
            platform,
            factor: GcuFactor::from_milli(2_000).expect("twice"),
        })
    }

    #[test]
    fn a_text_too_long_for_any_cell_is_rejected_early() {
        let long = |characters: usize| "x".repeat(characters);
        let named = |name: String| (name, None);
        let at = |address: String| Mutation::AddMachine(AddMachine { name: machine(), address });
        let replica = |address: String| Mutation::AddReplica(AddReplica { address });
        let bad = |what, most| Rejection::BadText { what, most };
        for (mutation, says) in [
            (at(long(257)), bad(TextField::MachineAddress, 256)),
            (at(String::new()), bad(TextField::MachineAddress, 256)),
            (replica(long(257)), bad(TextField::ReplicaAddress, 256)),
            (replica("m\n:1".to_owned()), bad(TextField::ReplicaAddress, 256)),
            (drain(long(1_001)), bad(TextField::Reason, 1_000)),
            (drain("\u{1b}[31m".to_owned()), bad(TextField::Reason, 1_000)),
            (set([named(long(257))]), bad(TextField::AttributeName, 256)),
            (set([("a".to_owned(), Some(long(257)))]), bad(TextField::AttributeValue, 256)),
            (platform(long(257)), bad(TextField::Platform, 256)),
            (job(long(200 << 10)), Rejection::InvalidDescription(Path::top().field("cmd"))),
        ] {
            let told = mutation.within_bounds().expect_err("too long");
            assert_eq!(told, says);
            assert_eq!(apply(&mut cell(), mutation), Err(told), "the cell says the same");
        }
        let many = set((0..513).map(|number| named(number.to_string())));
        let told = many.within_bounds().expect_err("too many");
        let attributes = OutOfBounds::Attributes { machine: machine(), number: 513 };
        assert_eq!(told, Rejection::OutOfBounds(attributes));
    }

    #[test]
    fn a_too_long_label_key_is_cut_in_the_rejection() {
        let key = "x".repeat(100_000);
        let path = Path::top().field("labels").key(&key);
        let Mutation::Submit(spec) = job(String::new()) else { panic!("a submission") };
        let mut spec = JobSpec::clone(&spec);
        spec.labels.insert(key, String::new());
        let told = Mutation::Submit(Arc::new(spec)).within_bounds().expect_err("too long");
        let Rejection::InvalidDescription(kept) = told else { panic!("{told:?}") };
        assert_eq!(kept, bounded(&path));
        assert!(kept.to_string().len() < 1_100);
    }

    #[test]
    fn a_text_of_the_maximum_length_is_accepted() {
        let long = |characters: usize| "\u{e9}".repeat(characters);
        for mutation in [
            Mutation::AddMachine(AddMachine { name: machine(), address: long(256) }),
            Mutation::AddReplica(AddReplica { address: long(256) }),
            drain(long(1_000)),
            drain(String::new()),
            set((0..256).map(|number| (number.to_string(), Some(long(256))))),
            platform(long(256)),
            job(long(1_000)),
        ] {
            assert_eq!(mutation.within_bounds(), Ok(()), "{mutation:?}");
            assert!(apply(&mut cell(), mutation.clone()).is_ok(), "{mutation:?}");
        }
    }
}

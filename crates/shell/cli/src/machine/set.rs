//! `bourg machine set`: attributes of one machine or of many.

use std::str::FromStr;

use api::v1;
use api::v1::change_machine_request::{Change, SetAttributes};
use clap::Args;
use client::Target;
use command::{Done, Failure, output, with_cell};
use model::{LabelQuery, MachineName};

use super::{Which, change};

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The machines, then NAME=VALUE to set an attribute, or NAME- to remove the override.
    #[arg(value_name = "MACHINE|ATTRIBUTE", required = true)]
    words: Vec<Word>,
    /// All machines with these attributes, such as rack=r7,gpu,!spare, in place of named ones.
    #[arg(long, short = 'l', value_name = "LABELS")]
    labels: Option<LabelQuery>,
    /// Only say what would change, and change nothing.
    #[arg(long)]
    plan: bool,
}

/// A machine, or a change of an attribute: no name of a machine has an equals sign, or a hyphen as its
/// last character.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Machine(MachineName),
    Change(AttributeChange),
}

/// An attribute override: `gpu=H200`, or `gpu-` to remove it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AttributeChange {
    name: String,
    value: Option<String>,
}

impl FromStr for Word {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.contains('=') || text.ends_with('-') {
            true => Ok(Self::Change(text.parse()?)),
            false => match text.parse() {
                Ok(name) => Ok(Self::Machine(name)),
                Err(error) => Err(format!("{error}; {}", not_a_change(text))),
            },
        }
    }
}

impl FromStr for AttributeChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text.strip_suffix('-').unwrap_or_default(), None),
        };
        match name {
            "" => Err(not_a_change(text)),
            name => Ok(Self { name: name.to_owned(), value }),
        }
    }
}

fn not_a_change(text: &str) -> String {
    format!(
        "'{}' is not an attribute change: use gpu=H200 to set one, or gpu- to remove the override",
        text.escape_debug()
    )
}

pub(super) fn set(cell: Target<'_>, args: &SetArgs) -> Done {
    let (which, changes) = args.parts()?;
    let mut wanted = SetAttributes::default();
    for AttributeChange { name, value } in &changes {
        if wanted.set.contains_key(name) || wanted.unset.contains(name) {
            let name = name.escape_debug();
            return Err(Failure::usage(format!("error: {name} is given twice")));
        }
        match value {
            Some(value) => drop(wanted.set.insert(name.clone(), value.clone())),
            None => wanted.unset.push(name.clone()),
        }
    }
    with_cell(cell, async |mut connection| {
        // Report a machine that does not exist before changing any.
        let found = which.find(&mut connection).await?;
        if args.plan {
            let lines = found.iter().map(|machine| planned(machine, &changes));
            return output::print(&lines.collect::<String>());
        }
        for machine in &found {
            let name = machine.name.as_str();
            change(&mut connection, name, Change::SetAttributes(wanted.clone())).await?;
            for AttributeChange { name: attribute, value } in &changes {
                let attribute = attribute.escape_debug();
                match value {
                    Some(value) => eprintln!("{name}: {attribute} = {}", value.escape_debug()),
                    None => eprintln!("{name}: {attribute} is no longer overridden"),
                }
            }
        }
        Ok(())
    })
}

/// What would change of a machine, a line for each attribute.
fn planned(machine: &v1::MachineStatus, changes: &[AttributeChange]) -> String {
    let line = |AttributeChange { name, value }: &AttributeChange| {
        let same = value.is_some() && machine.attributes.get(name) == value.as_ref();
        let has = machine.attributes.get(name).map(|has| has.escape_debug().to_string());
        let has = has.as_deref().unwrap_or("not set");
        let (of, name) = (&machine.name, name.escape_debug());
        match value {
            Some(_) if same => {
                format!("{of}: {name} stays {has}\n")
            }
            Some(value) => format!("{of}: {name} would be {}, is {has}\n", value.escape_debug()),
            None => format!("{of}: {name} would no longer be overridden, is {has}\n"),
        }
    };
    changes.iter().map(line).collect()
}

impl SetArgs {
    /// The machines, and what to change.
    fn parts(&self) -> Result<(Which, Vec<AttributeChange>), Failure> {
        let (mut names, mut changes) = (Vec::new(), Vec::new());
        for word in &self.words {
            match word {
                Word::Change(change) => changes.push(change.clone()),
                Word::Machine(name) if changes.is_empty() => names.push(name.clone()),
                Word::Machine(name) => {
                    return Err(Failure::usage(format!(
                        "error: {name} comes after an attribute: name machines first, or use \
                         {name}=VALUE to set an attribute"
                    )));
                }
            }
        }
        let problem = match (names.is_empty(), &self.labels) {
            _ if changes.is_empty() => {
                "no attribute is given: use gpu=H200 to set one, or gpu- to remove the override"
            }
            (true, None) => "no machine is given: name machines, or select them with -l",
            (false, Some(_)) => "machines are named and selected with -l: use one of them",
            _ => return Ok((Which { names, labels: self.labels.clone() }, changes)),
        };
        Err(Failure::usage(format!("error: {problem}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_change_needs_a_name() {
        let changes = |text: &str| {
            text.parse::<AttributeChange>().map(|changes| (changes.name, changes.value))
        };
        let of = |name: &str, value: Option<&str>| Ok((name.to_owned(), value.map(str::to_owned)));
        assert_eq!(changes("gpu=H200"), of("gpu", Some("H200")));
        assert_eq!(changes("gpu="), of("gpu", Some("")));
        assert_eq!(changes("power-domain=a=b"), of("power-domain", Some("a=b")));
        assert_eq!(changes("power-domain-"), of("power-domain", None));
        for bad in ["", "-", "=x"] {
            assert!(changes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn machines_come_before_attributes_and_are_named_or_selected() {
        let parts = |words: &[&str], labels: Option<&str>| {
            let words = words.iter().map(|word| word.parse().expect("a word")).collect();
            let labels = labels.map(|labels| labels.parse().expect("a query"));
            let args = SetArgs { words, labels, plan: false };
            args.parts().map(|(which, changes)| (which.names.len(), changes.len())).ok()
        };
        for (words, labels, expected) in [
            (&["m1", "a=b"][..], None, Some((1, 1))),
            (&["m1", "m2", "a=b", "c-"], None, Some((2, 2))),
            (&["a=b"], Some("rack=r7"), Some((0, 1))),
            (&["a=b"], None, None),
            (&["m1"], None, None),
            (&["m1", "a=b"], Some("rack=r7"), None),
            (&["a=b", "m1"], None, None),
        ] {
            assert_eq!(parts(words, labels), expected, "{words:?} {labels:?}");
        }
        assert!("Not A Machine".parse::<Word>().is_err());
    }
}

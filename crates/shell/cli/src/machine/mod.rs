//! `bourg machine`: what administrators do to machines and say of them.

mod drain;
mod show;
mod token;

use std::str::FromStr;

use clap::{Args, Subcommand};
use client::Connection;
use client::Target;
use model::{GcuFactor, LabelQuery, MachineName};
use proto::v1;
use proto::v1::change_machine_request::{Change, Remove, SetAttributes, Undrain};

use super::exit::{Done, Failure};
use super::output::{self, Format, Listing};
use super::with_cell;

pub(super) use show::list;

/// What is done to machines.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// One machine: its state, what it has, its attributes and who says them, its tasks.
    Show(show::ShowArgs),
    /// Issue a token with which a machine joins the cell, once. It is a secret, printed alone.
    ///
    /// The machine is new, or gets another certificate and address: bourg borglet --join.
    Token(token::TokenArgs),
    /// Refuse every certificate that a machine has, and every token for it. It is not talked to any more.
    ///
    /// Its tasks are taken from it as from one that does not answer. It joins again with a new token.
    Revoke(token::RevokeArgs),
    /// Add a machine that has a certificate, or give one another address.
    Add(AddArgs),
    /// Empty machines: nothing is placed on them any more, and their tasks leave with their notice.
    ///
    /// The tasks are pending then, and are placed elsewhere. Waits until the last of them has left.
    Drain(drain::DrainArgs),
    /// Use machines again that were drained.
    Undrain(Which),
    /// Remove machines that are empty.
    Remove(RemoveArgs),
    /// Say something of a machine, which goes before what it says itself.
    Set(SetArgs),
    /// How much the cores of a platform do: list it, or say it.
    Platform(PlatformArgs),
}

/// Machines, by name or by what they are.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The machines.
    #[arg(value_name = "NAME", required_unless_present = "labels")]
    names: Vec<MachineName>,
    /// All that have these attributes, such as rack=r7,gpu,!spare.
    #[arg(long, short = 'l', value_name = "LABELS", conflicts_with = "names")]
    labels: Option<LabelQuery>,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Its name.
    name: MachineName,
    /// Where its Borglet answers, as host:port.
    address: String,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The machines.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<MachineName>,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The machine.
    name: MachineName,
    /// NAME=VALUE, or NAME- so that nothing is said of it any more.
    #[arg(value_name = "ATTRIBUTE", required = true)]
    changes: Vec<Said>,
}

#[derive(Debug, Args)]
pub(crate) struct PlatformArgs {
    /// A platform, as its machines say it. Default: all.
    platform: Option<String>,
    /// How many of the cell's cores one of its cores is worth, such as 1.25.
    factor: Option<GcuFactor>,
    /// table, wide, json, yaml, name, or a field by its path.
    #[arg(short, long, default_value = "table", conflicts_with = "factor")]
    output: Format,
}

/// `gpu=H200`, or `gpu-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    name: String,
    value: Option<String>,
}

impl FromStr for Said {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text.strip_suffix('-').unwrap_or_default(), None),
        };
        match name {
            "" => Err(format!(
                "'{}' says nothing of an attribute: use gpu=H200, or gpu- to say nothing more of it",
                text.escape_debug()
            )),
            name => Ok(Self { name: name.to_owned(), value }),
        }
    }
}

pub(super) fn machine(cell: Target<'_>, command: &Command) -> Done {
    match command {
        Command::Show(args) => show::show(cell, args),
        Command::Token(args) => token::token(cell, args),
        Command::Revoke(args) => token::revoke(cell, args),
        Command::Add(args) => add(cell, args),
        Command::Drain(args) => drain::drain(cell, args),
        Command::Undrain(which) => undrain(cell, which),
        Command::Remove(args) => remove(cell, args),
        Command::Set(args) => set(cell, args),
        Command::Platform(args) => platform(cell, args),
    }
}

impl Which {
    /// The machines as they are now, in the cell's order. That there are none is a failure.
    async fn find(&self, connection: &mut Connection) -> Result<Vec<v1::MachineStatus>, Failure> {
        let labels = self.labels.as_ref().map(ToString::to_string).unwrap_or_default();
        let found = machines(connection, labels, &self.names).await?;
        match (&self.labels, found.is_empty()) {
            (Some(labels), true) => {
                Err(Failure::usage(format!("error: no machine has the attributes {labels}"))
                    .next("bourg machines -o wide shows those that there are"))
            }
            _ => Ok(found),
        }
    }
}

async fn machines(
    connection: &mut Connection,
    labels: String,
    names: &[MachineName],
) -> Result<Vec<v1::MachineStatus>, Failure> {
    let names = names.iter().map(ToString::to_string).collect();
    let request = v1::MachinesRequest { labels, names, ..v1::MachinesRequest::default() };
    let answer =
        connection.ask(request, async |mut client, request| client.machines(request).await).await?;
    Ok(answer.machines)
}

/// Changes one machine.
async fn change(
    connection: &mut Connection,
    machine: &str,
    change: Change,
) -> Result<v1::ChangeMachineResponse, Failure> {
    let id = Some(connection.request_id().await?);
    let request =
        v1::ChangeMachineRequest { id, machine: machine.to_owned(), change: Some(change) };
    let asked =
        connection.ask(request, async |mut client, request| client.change_machine(request).await);
    Ok(asked.await?)
}

fn add(cell: Target<'_>, args: &AddArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let id = Some(connection.request_id().await?);
        let (name, address) = (args.name.to_string(), args.address.clone());
        let request = v1::AddMachineRequest { id, name, address };
        connection
            .ask(request, async |mut client, request| client.add_machine(request).await)
            .await?;
        output::say(&format!(
            "{}: used as soon as its Borglet answers at {}\nnext: bourg machine show {}\n",
            args.name,
            args.address.escape_debug(),
            args.name
        ));
        Ok(())
    })
}

fn undrain(cell: Target<'_>, which: &Which) -> Done {
    with_cell(cell, async |mut connection| {
        for machine in which.find(&mut connection).await? {
            let name = &machine.name;
            change(&mut connection, name, Change::Undrain(Undrain {})).await?;
            match machine.draining_since {
                0 => eprintln!("{name}: was not drained"),
                _ => eprintln!("{name}: used again"),
            }
        }
        Ok(())
    })
}

fn remove(cell: Target<'_>, args: &RemoveArgs) -> Done {
    with_cell(cell, async |mut connection| {
        // One that does not exist is told before another is gone.
        for machine in machines(&mut connection, String::new(), &args.names).await? {
            change(&mut connection, &machine.name, Change::Remove(Remove {})).await?;
            eprintln!("{}: removed", machine.name);
        }
        Ok(())
    })
}

fn set(cell: Target<'_>, args: &SetArgs) -> Done {
    let mut said = SetAttributes::default();
    for Said { name, value } in &args.changes {
        if said.set.contains_key(name) || said.unset.contains(name) {
            let name = name.escape_debug();
            return Err(Failure::usage(format!("error: {name} is given twice")));
        }
        match value {
            Some(value) => drop(said.set.insert(name.clone(), value.clone())),
            None => said.unset.push(name.clone()),
        }
    }
    with_cell(cell, async |mut connection| {
        let machine = args.name.as_str();
        change(&mut connection, machine, Change::SetAttributes(said.clone())).await?;
        for Said { name, value } in &args.changes {
            let name = name.escape_debug();
            match value {
                Some(value) => eprintln!("{machine}: {name} = {}", value.escape_debug()),
                None => eprintln!("{machine}: nothing more is said of {name}"),
            }
        }
        Ok(())
    })
}

fn platform(cell: Target<'_>, args: &PlatformArgs) -> Done {
    with_cell(cell, async |mut connection| match (&args.platform, args.factor) {
        (Some(platform), Some(factor)) => set_platform(&mut connection, platform, factor).await,
        (one, _) => list_platforms(&mut connection, one.as_deref(), &args.output).await,
    })
}

async fn set_platform(connection: &mut Connection, platform: &str, factor: GcuFactor) -> Done {
    let id = Some(connection.request_id().await?);
    let factor_milli = factor.milli();
    let request = v1::SetPlatformRequest { id, platform: platform.to_owned(), factor_milli };
    let answer = connection
        .ask(request, async |mut client, request| client.set_platform(request).await)
        .await?;
    let (platform, s) = (platform.escape_debug(), if answer.machines == 1 { "" } else { "s" });
    output::say(&format!(
        "{platform}: a core does as much as {factor} of the cell's, on {} machine{s}\n",
        answer.machines
    ));
    if answer.machines == 0 {
        eprintln!(
            "no machine says that it is one; the platforms that there are: bourg machine platform"
        );
    }
    Ok(())
}

async fn list_platforms(connection: &mut Connection, one: Option<&str>, format: &Format) -> Done {
    let request = v1::PlatformsRequest {};
    let mut answer = connection
        .ask(request, async |mut client, request| client.platforms(request).await)
        .await?;
    if let Some(one) = one {
        answer.platforms.retain(|known| known.platform == one);
        if answer.platforms.is_empty() {
            let one = one.escape_debug();
            return Err(Failure::usage(format!(
                "error: no machine is of platform '{one}', and nothing is said of it"
            ))
            .next("bourg machine platform lists those that there are"));
        }
    }
    output::list(
        format,
        &Listing {
            items: &answer.platforms,
            name: |known| known.platform.clone(),
            headings: &["PLATFORM", "FACTOR", "MACHINES"],
            wide: 0,
            row: |known| {
                let factor = GcuFactor::from_milli(known.factor_milli).unwrap_or_default();
                vec![
                    known.platform.escape_debug().to_string(),
                    factor.to_string(),
                    known.machines.to_string(),
                ]
            },
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_machine_has_a_name() {
        let said = |text: &str| text.parse::<Said>().map(|said| (said.name, said.value));
        let of = |name: &str, value: Option<&str>| Ok((name.to_owned(), value.map(str::to_owned)));
        assert_eq!(said("gpu=H200"), of("gpu", Some("H200")));
        assert_eq!(said("gpu="), of("gpu", Some("")));
        assert_eq!(said("power-domain=a=b"), of("power-domain", Some("a=b")));
        assert_eq!(said("power-domain-"), of("power-domain", None));
        for bad in ["", "-", "=x", "gpu"] {
            assert!(said(bad).is_err(), "{bad}");
        }
    }
}

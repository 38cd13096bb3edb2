//! `bourg machine`: shows and administers machines.

mod drain;
mod obey;
mod remove;
mod set;
mod show;
mod token;
mod volume;

use api::v1;
use api::v1::change_machine_request::{Change, Undrain};
use clap::{Args, Subcommand};
use client::Connection;
use client::Target;
use command::output::{self, Format, Listing};
use command::{Done, Failure, with_cell};
use model::{GcuFactor, LabelQuery, MachineName};

pub(crate) use drain::DrainArgs;
pub(super) use drain::drain;
pub(super) use show::list;

/// The subcommands of `bourg machine`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show a machine: state, capacity, attributes with their sources, and tasks.
    Show(show::ShowArgs),
    /// Issue a one-time token with which a machine joins the cell: bourg borglet --join.
    ///
    /// The machine is new, or replaces its certificate and address. With --uses, many new machines
    /// join with one token, each once, under names that begin with NAME. The token is a secret and
    /// the only output on stdout.
    Token(token::TokenArgs),
    /// List the join tokens, and which machines have used them.
    Tokens(token::TokensArgs),
    /// Reject all certificates and tokens of a machine, and stop polling it.
    ///
    /// Its tasks are rescheduled like those of a machine that does not answer. The machine can join
    /// again with a new token. Given what a token for many machines was issued for, it ends that
    /// token, and no machine.
    Revoke(token::RevokeArgs),
    /// Add a machine that has a certificate, or change the address of one.
    Add(AddArgs),
    /// Drain machines: place nothing on them, and stop their tasks with their notice.
    ///
    /// Tasks leave as the disruption budgets of their jobs allow, over all machines together; where a
    /// budget allows none, a replacement is started first. Waits until the machines are empty and
    /// shows what it waits for. At the time given with --by, the drain ends (exit code 8), or with
    /// --force evicts what is left.
    Drain(DrainArgs),
    /// Make drained machines available again.
    Undrain(Which),
    /// Let a machine that rejects this cell's orders obey them.
    ///
    /// It has obeyed orders of another history of the cell: another restoration, or a state that was
    /// lost. Make sure that no master of that history still runs. Tasks that this cell does not know
    /// are stopped.
    Obey(obey::ObeyArgs),
    /// Remove empty machines.
    ///
    /// Data that a machine keeps for savers is lost, so that takes --force. Claims of its volumes end.
    Remove(remove::RemoveArgs),
    /// Set attributes of machines, which override those that they report.
    ///
    /// Machines are named, or selected by their attributes with -l.
    Set(set::SetArgs),
    /// Give machines volumes, and list and take them.
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// List the factors of platforms, or set one: how much a core of the platform is worth.
    Platform(PlatformArgs),
}

/// A selection of machines, by name or by attributes.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The machines.
    #[arg(value_name = "NAME", required_unless_present = "labels")]
    names: Vec<MachineName>,
    /// All machines with these attributes, such as rack=r7,gpu,!spare.
    #[arg(long, short = 'l', value_name = "LABELS", conflicts_with = "names")]
    labels: Option<LabelQuery>,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The machine's name.
    name: MachineName,
    /// The address of its Borglet, as host:port.
    address: String,
}

#[derive(Debug, Args)]
pub(crate) struct PlatformArgs {
    /// A platform, as its machines report it. Default: all.
    platform: Option<String>,
    /// How many of the cell's normalized cores one of its cores is worth, such as 1.25.
    factor: Option<GcuFactor>,
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table", conflicts_with = "factor")]
    output: Format,
}

pub(super) fn machine(cell: Target<'_>, command: &Command) -> Done {
    match command {
        Command::Show(args) => show::show(cell, args),
        Command::Token(args) => token::token(cell, args),
        Command::Tokens(args) => token::tokens(cell, args),
        Command::Revoke(args) => token::revoke(cell, args),
        Command::Add(args) => add(cell, args),
        Command::Drain(args) => drain(cell, args),
        Command::Undrain(which) => undrain(cell, which),
        Command::Obey(args) => obey::obey(cell, args),
        Command::Remove(args) => remove::remove(cell, args),
        Command::Set(args) => set::set(cell, args),
        Command::Volume(command) => volume::volume(cell, command),
        Command::Platform(args) => platform(cell, args),
    }
}

impl Which {
    /// The current state of the machines, in the cell's order. Errors if there are none.
    async fn find(&self, connection: &mut Connection) -> Result<Vec<v1::MachineStatus>, Failure> {
        let labels = self.labels.as_ref().map(ToString::to_string).unwrap_or_default();
        let found = machines(connection, labels, &self.names).await?;
        match (&self.labels, found.is_empty()) {
            (Some(labels), true) => {
                Err(Failure::usage(format!("error: no machine matches the attributes {labels}"))
                    .next("bourg machines -o wide lists the attributes"))
            }
            _ => Ok(found),
        }
    }
}

pub(crate) async fn machines(
    connection: &mut Connection,
    labels: String,
    names: &[MachineName],
) -> Result<Vec<v1::MachineStatus>, Failure> {
    let names = names.iter().map(ToString::to_string).collect();
    let request = v1::MachinesRequest { labels, names, ..v1::MachinesRequest::default() };
    let answer = connection
        .ask(request, async |mut client, request| client.machines.list(request).await)
        .await?;
    Ok(answer.machines)
}

/// Applies one change to a machine.
pub(crate) async fn change(
    connection: &mut Connection,
    machine: &str,
    change: Change,
) -> Result<v1::ChangeMachineResponse, Failure> {
    let id = Some(connection.request_id().await?);
    let request =
        v1::ChangeMachineRequest { id, machine: machine.to_owned(), change: Some(change) };
    let answer =
        connection.ask(request, async |mut client, request| client.machines.change(request).await);
    Ok(answer.await?)
}

fn add(cell: Target<'_>, args: &AddArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let id = Some(connection.request_id().await?);
        let (name, address) = (args.name.to_string(), args.address.clone());
        let request = v1::AddMachineRequest { id, name, address };
        connection
            .ask(request, async |mut client, request| client.machines.add(request).await)
            .await?;
        output::say(&format!(
            "{}: available as soon as its Borglet answers at {}\nnext: bourg machine show {}\n",
            args.name,
            args.address.escape_debug(),
            args.name
        ));
        Ok(())
    })
}

pub(super) fn undrain(cell: Target<'_>, which: &Which) -> Done {
    with_cell(cell, async |mut connection| {
        for machine in which.find(&mut connection).await? {
            let name = &machine.name;
            change(&mut connection, name, Change::Undrain(Undrain {})).await?;
            match machine.draining_since {
                0 => eprintln!("{name}: was not drained"),
                _ => eprintln!("{name}: available again"),
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
        .ask(request, async |mut client, request| client.machines.set_platform(request).await)
        .await?;
    let (platform, s) = (platform.escape_debug(), if answer.machines == 1 { "" } else { "s" });
    output::say(&format!(
        "{platform}: a core counts as {factor} of the cell's cores, on {} machine{s}\n",
        answer.machines
    ));
    if answer.machines == 0 {
        eprintln!("no machine reports this platform; to list them: bourg machine platform");
    }
    Ok(())
}

async fn list_platforms(connection: &mut Connection, one: Option<&str>, format: &Format) -> Done {
    let request = v1::PlatformsRequest {};
    let mut answer = connection
        .ask(request, async |mut client, request| client.machines.platforms(request).await)
        .await?;
    if let Some(one) = one {
        answer.platforms.retain(|known| known.platform == one);
        if answer.platforms.is_empty() {
            let one = one.escape_debug();
            return Err(Failure::usage(format!(
                "error: no machine reports platform '{one}', and no factor is set for it"
            ))
            .next("bourg machine platform lists them"));
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

//! `bourg master list` and the other commands that manage the replicas of a cell.

use std::time::Duration;

use api::v1;
use api::v1::change_replicas_request::Change;
use api::v1::issue_token_request::Joins;
use api::word;
use clap::{Args, Subcommand};
use client::Target;
use command::output::{self, Format, Listing};
use command::{Done, with_cell};
use model::Time;

use super::{certify, duration, moment, token};

/// The subcommands of `bourg master`.
#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "callers only execute commands")]
pub enum Command {
    /// List the replicas of the cell's master and show which one leads.
    List(ListArgs),
    /// Add a replica, and issue the token that starts it on its machine.
    ///
    /// The token is a secret, the only output on stdout: its holder receives the cell's authority.
    /// The replica catches up while the others serve, and becomes a voter when it has.
    Add(AddArgs),
    /// Issue another token for an added replica that has not started yet.
    Token(TokenArgs),
    /// Issue a certificate from a replica's directory, on its machine: for the first administrator,
    /// whom nobody else can add, or for a scheduler.
    Certify(certify::CertifyArgs),
    /// Remove a replica. A leader transfers leadership first.
    Remove(RemoveArgs),
    /// Transfer leadership to another replica.
    Transfer(TransferArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The address of the replica, as host:port.
    address: String,
    /// The validity of the token, such as 1h: from a minute to a week.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    validity: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The replica's id, as in bourg master list.
    replica: u64,
    /// The validity of the token, such as 1h: from a minute to a week.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    validity: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The replica's id, as in bourg master list.
    replica: u64,
}

#[derive(Debug, Args)]
pub(crate) struct TransferArgs {
    /// The new leader. Default: the replica with the most complete log.
    replica: Option<u64>,
}

/// Executes a command on the replicas of a cell.
///
/// # Errors
/// If the command fails.
pub fn execute(cell: Target<'_>, command: Command) -> Done {
    match command {
        Command::List(args) => list(cell, &args),
        Command::Add(args) => add(cell, &args),
        Command::Token(args) => with_cell(cell, async |mut connection| {
            issue(&mut connection, args.replica, args.validity).await
        }),
        Command::Certify(args) => certify::certify(&args),
        Command::Remove(args) => remove(cell, &args),
        Command::Transfer(args) => transfer(cell, &args),
    }
}

fn list(cell: Target<'_>, args: &ListArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let answer = connection
            .ask(v1::ReplicasRequest {}, async |mut client, request| {
                client.replicas.list(request).await
            })
            .await?;
        let leader = answer.leader;
        let newest = answer.replicas.iter().filter_map(|replica| replica.progress);
        let newest = newest.map(|progress| progress.index).max().unwrap_or_default();
        let listing = Listing {
            items: &answer.replicas,
            name: |replica: &v1::ReplicaStatus| replica.id.to_string(),
            headings: &["REPLICA", "ADDRESS", "STATE", "BEHIND", "LEVEL"],
            wide: 1,
            row: |replica: &v1::ReplicaStatus| row(replica, leader, newest),
        };
        output::list(&args.output, &listing)?;
        if leader == 0 {
            eprintln!("no replica leads: changes are rejected until a majority is available");
        }
        Ok(())
    })
}

fn row(replica: &v1::ReplicaStatus, leader: u64, newest: u64) -> Vec<String> {
    let address = match replica.address.as_str() {
        "" => "-",
        address => address,
    };
    let behind = match replica.progress {
        None => "-".to_owned(),
        Some(progress) if !progress.answers => "does not answer".to_owned(),
        Some(progress) => match newest.saturating_sub(progress.index) {
            0 => "nothing".to_owned(),
            1 => "1 record".to_owned(),
            records => format!("{records} records"),
        },
    };
    let level = match replica.level {
        0 => "-".to_owned(),
        level => level.to_string(),
    };
    vec![replica.id.to_string(), address.to_owned(), state(replica, leader), behind, level]
}

fn state(replica: &v1::ReplicaStatus, leader: u64) -> String {
    let is = match replica.member() {
        v1::MemberState::Voter if replica.id == leader => "leads".into(),
        v1::MemberState::Voter => "follows".into(),
        v1::MemberState::Learner => "catches up".into(),
        _ => word::<v1::MemberState>(replica.member),
    };
    if replica.leaving { format!("{is}, leaving") } else { is.into_owned() }
}

fn add(cell: Target<'_>, args: &AddArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let answer = connection.change_replicas(Change::Add(args.address.clone())).await?;
        output::say(&format!("replica {} added at {}\n", answer.replica, args.address));
        let issued = issue(&mut connection, answer.replica, args.validity).await;
        issued.map_err(|failure| {
            failure.next(format!(
                "the replica is added; for its token: bourg master token {}",
                answer.replica
            ))
        })
    })
}

/// Prints a token for a replica.
async fn issue(connection: &mut client::Connection, replica: u64, validity: Duration) -> Done {
    let (token, expires) = token::issue(connection, Joins::Replica(replica), validity).await?;
    output::print(&format!("{token}\n"))?;
    eprintln!(
        "valid once, for replica {replica} until {}\nnext, on its machine: bourg master --join - --dir DIR \
         --listen HOST:PORT",
        moment::shown(Time(expires))
    );
    Ok(())
}

fn remove(cell: Target<'_>, args: &RemoveArgs) -> Done {
    with_cell(cell, async |mut connection| {
        connection.change_replicas(Change::Remove(args.replica)).await?;
        output::say(&format!("replica {} is being removed\n", args.replica));
        Ok(())
    })
}

fn transfer(cell: Target<'_>, args: &TransferArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let request = v1::TransferLeaderRequest { to: args.replica.unwrap_or_default() };
        let answer = connection
            .ask(request, async |mut client, request| {
                client.replicas.transfer_leader(request).await
            })
            .await?;
        output::say(&format!("replica {} leads in term {}\n", answer.leader, answer.term));
        Ok(())
    })
}

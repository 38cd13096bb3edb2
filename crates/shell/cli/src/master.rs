//! `bourg master list` and what else is done with the replicas of a cell.

use std::time::Duration;

use clap::{Args, Subcommand};
use client::Target;
use model::Time;
use proto::v1;
use proto::v1::change_replicas_request::Change;
use proto::v1::issue_token_request::Joins;
use proto::word;

use super::exit::{Done, Failure};
use super::output::{self, Format, Listing};
use super::{certify, duration, moment, restore, token, with_cell};

/// What is done with the replicas of a cell.
#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "a command is only executed from outside")]
pub enum Command {
    /// The replicas of the cell's master, and which of them leads.
    List(ListArgs),
    /// Add a replica, and issue the token with which it is to be started there. It is a secret, printed
    /// alone: whoever uses it is handed the cell's authority.
    ///
    /// It catches up while the others serve, and votes as soon as it has.
    Add(AddArgs),
    /// Issue another token for a replica that was added and whose process has not run yet.
    Token(TokenArgs),
    /// Issue a certificate from a replica's directory, on its machine: to the first administrator, whom
    /// nobody could add, and to schedulers.
    Certify(certify::CertifyArgs),
    /// Remove a replica. One that leads lets another lead first.
    Remove(RemoveArgs),
    /// Let another replica lead.
    Transfer(TransferArgs),
    /// Go on from one replica alone, after the majority of them is lost for good.
    ///
    /// Run it on that replica's machine while its master does not run. What the others had
    /// acknowledged and this one does not have is lost.
    Restore(restore::RestoreArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// table, wide, json, yaml, name, or a field by its path.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Where it will be reached, as host:port.
    address: String,
    /// How long the token is valid, such as 1h: a minute to a week.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    validity: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// Its number, as in bourg master list.
    replica: u64,
    /// How long the token is valid, such as 1h: a minute to a week.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    validity: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Its number, as in bourg master list.
    replica: u64,
}

#[derive(Debug, Args)]
pub(crate) struct TransferArgs {
    /// To whom. Default: to whichever has most of the log.
    replica: Option<u64>,
}

/// Does what is said about the replicas of a cell.
///
/// # Errors
/// Where it did not succeed.
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
        Command::Restore(args) => restore::restore(&args),
    }
}

fn list(cell: Target<'_>, args: &ListArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let answer = connection
            .ask(v1::ReplicasRequest {}, async |mut client, request| client.replicas(request).await)
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
            eprintln!("no replica leads: nothing can be changed until a majority of them is there");
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
        let answer = change(&mut connection, Change::Add(args.address.clone())).await?;
        output::say(&format!("replica {} is to be at {}\n", answer.replica, args.address));
        let issued = issue(&mut connection, answer.replica, args.validity).await;
        issued.map_err(|failure| {
            failure.next(format!("it is added: bourg master token {}", answer.replica))
        })
    })
}

/// Prints a token for a replica.
async fn issue(connection: &mut super::Connection, replica: u64, validity: Duration) -> Done {
    let (token, expires) = token::issue(connection, Joins::Replica(replica), validity).await?;
    output::print(&format!("{token}\n"))?;
    eprintln!(
        "good for replica {replica} until {}, once\nnext, there: bourg master --join - --dir DIR \
         --listen HOST:PORT",
        moment::shown(Time(expires))
    );
    Ok(())
}

fn remove(cell: Target<'_>, args: &RemoveArgs) -> Done {
    with_cell(cell, async |mut connection| {
        change(&mut connection, Change::Remove(args.replica)).await?;
        output::say(&format!("replica {} leaves\n", args.replica));
        Ok(())
    })
}

/// Has the cell change its replicas.
pub async fn change(
    connection: &mut super::Connection,
    change: Change,
) -> Result<v1::ChangeReplicasResponse, Failure> {
    let id = Some(connection.request_id().await?);
    let request = v1::ChangeReplicasRequest { id, change: Some(change) };
    let asked =
        connection.ask(request, async |mut client, request| client.change_replicas(request).await);
    Ok(asked.await?)
}

fn transfer(cell: Target<'_>, args: &TransferArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let request = v1::TransferLeaderRequest { to: args.replica.unwrap_or_default() };
        let answer = connection
            .ask(request, async |mut client, request| client.transfer_leader(request).await)
            .await?;
        output::say(&format!("replica {} leads in term {}\n", answer.leader, answer.term));
        Ok(())
    })
}

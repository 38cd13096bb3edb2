//! `bourg machine token` and `bourg machine revoke`: issue and revoke the credentials of machines.

use std::time::Duration;

use api::v1;
use api::v1::issue_token_request::Joins;
use clap::Args;
use client::Target;
use command::{Done, output, with_cell};
use model::{MachineName, Time};

use crate::{duration, moment, token};

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The machine: new, or one that needs another certificate.
    name: MachineName,
    /// The validity of the token, such as 1h: from a minute to a week.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    validity: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The machine; it need not exist.
    name: MachineName,
}

pub(super) fn token(cell: Target<'_>, args: &TokenArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let joins = Joins::Machine(args.name.to_string());
        let (token, expires) = token::issue(&mut connection, joins, args.validity).await?;
        output::print(&format!("{token}\n"))?;
        eprintln!(
            "valid once, for {} until {}\nnext, on that machine: bourg borglet --join - --dir DIR --listen HOST:PORT",
            args.name,
            moment::shown(Time(expires))
        );
        Ok(())
    })
}

pub(super) fn revoke(cell: Target<'_>, args: &RevokeArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let name = &args.name;
        let id = Some(connection.request_id().await?);
        let request = v1::RevokeMachineRequest { id, machine: name.to_string() };
        let answer = connection
            .ask(request, async |mut client, request| client.access.revoke_machine(request).await)
            .await?;
        output::say(&format!("{name}: its certificates and tokens are rejected from now on\n"));
        if !answer.known {
            let near = match answer.nearest.as_str() {
                "" => String::new(),
                near => format!(". Did you mean {near}?"),
            };
            eprintln!("machine {name} did not exist{near}");
        }
        Ok(())
    })
}

//! `bourg machine token` and `bourg machine revoke`: how machines join the cell, and are shut out.

use std::time::Duration;

use clap::Args;
use client::Target;
use model::{MachineName, Time};
use proto::v1;
use proto::v1::issue_token_request::Joins;

use crate::exit::Done;
use crate::{duration, moment, output, token, with_cell};

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The machine: new, or one that needs another certificate.
    name: MachineName,
    /// How long the token is valid, such as 1h: a minute to a week.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    validity: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// Which one; it need not be there.
    name: MachineName,
}

pub(super) fn token(cell: Target<'_>, args: &TokenArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let joins = Joins::Machine(args.name.to_string());
        let (token, expires) = token::issue(&mut connection, joins, args.validity).await?;
        output::print(&format!("{token}\n"))?;
        eprintln!(
            "good for {} until {}, once\nnext, there: bourg borglet --join - --dir DIR --listen HOST:PORT",
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
            .ask(request, async |mut client, request| client.revoke_machine(request).await)
            .await?;
        output::say(&format!("{name}: its certificates and tokens are refused from now on\n"));
        if !answer.known {
            let near = match answer.nearest.as_str() {
                "" => String::new(),
                near => format!(". Did you mean {near}?"),
            };
            eprintln!("nothing was known of {name} before{near}");
        }
        Ok(())
    })
}

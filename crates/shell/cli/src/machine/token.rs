//! `bourg machine token`, `tokens` and `revoke`: issue, list and revoke the credentials of machines.

use std::time::Duration;

use api::v1;
use api::v1::issue_token_request::Joins;
use clap::Args;
use client::Target;
use command::output::{self, Format, Listing};
use command::{Done, with_cell};
use model::{MachineName, Time};

use crate::{duration, moment, token};

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The machine: new, or one that needs another certificate. With --uses, the beginning of the
    /// names of new machines.
    name: MachineName,
    /// One token for so many new machines, at most 1,000, whose names begin with NAME.
    #[arg(long, value_name = "NUMBER")]
    uses: Option<u32>,
    /// The validity of the token, such as 1h: from a minute to a week.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    validity: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The machine; it need not exist. Or what a token for many machines was issued for.
    name: MachineName,
}

pub(super) fn token(cell: Target<'_>, args: &TokenArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let joins = match args.uses {
            None => Joins::Machine(args.name.to_string()),
            Some(most) => Joins::Many(v1::ManyMachines { prefix: args.name.to_string(), most }),
        };
        let (token, expires) = token::issue(&mut connection, joins, args.validity).await?;
        output::print(&format!("{token}\n"))?;
        let (name, until) = (&args.name, moment::shown(Time(expires)));
        match args.uses {
            None => eprintln!(
                "valid once, for {name} until {until}\nnext, on that machine: bourg borglet --join - --dir DIR --listen HOST:PORT"
            ),
            Some(most) => eprintln!(
                "valid for {most} new machines {name}* until {until}\nnext, on each: bourg borglet --join - --name {name}1 --dir DIR --listen HOST:PORT\nto list them: bourg machine tokens; to end it: bourg machine revoke {name}"
            ),
        }
        Ok(())
    })
}

pub(super) fn tokens(cell: Target<'_>, args: &TokensArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let request = v1::TokensRequest {};
        let answer = connection
            .ask(request, async |mut client, request| client.access.tokens(request).await)
            .await?;
        let now = answer.time;
        output::list(
            &args.output,
            &Listing {
                items: &answer.tokens,
                name: |token| token.number.clone(),
                headings: &["NUMBER", "FOR", "USES", "STATE", "UNTIL", "BY", "USED BY"],
                wide: 1,
                row: |token| row(token, now),
            },
        )
    })
}

fn row(token: &v1::TokenStatus, now: u64) -> Vec<String> {
    let (used, most) = (token.used_by.len(), token.most.unwrap_or(1));
    let star = if token.most.is_some() { "*" } else { "" };
    let state = match token.expires <= now {
        true => "expired",
        false if used >= most as usize => "used",
        false => "valid",
    };
    vec![
        token.number.clone(),
        format!("{}{star}", token.machine),
        format!("{used} of {most}"),
        state.to_owned(),
        moment::shown(Time(token.expires)),
        token.issued_by.clone(),
        token.used_by.join(" "),
    ]
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

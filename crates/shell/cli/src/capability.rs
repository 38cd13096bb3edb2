//! `bourg capability`: grants and revokes the named privileges of users.

use api::v1;
use clap::{Args, Subcommand};
use client::{Connection, Target};
use command::output::{self, Format};
use command::{Done, with_cell};
use model::{Capability, UserName};

use super::moment::Moment;

/// The subcommands of `bourg capability`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Grant a user a capability.
    ///
    /// The capabilities are administer-jobs, grant-quota, drain-machines, no-estimation,
    /// kernel-features, exec-tasks, autoscale, save-checkpoints, and administer-cell, which makes
    /// an administrator. Administrators have all of them.
    Grant(Which),
    /// Revoke a user's capability.
    ///
    /// Revoking administer-cell ends what an administrator may do, the first one's, too. The last
    /// administrator whose certificates are accepted stays one.
    Revoke(Which),
    /// List users and their capabilities.
    List(ListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The user.
    user: UserName,
    /// The capability.
    capability: Capability,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only this user's. Default: every user's.
    user: Option<UserName>,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

pub(super) fn capability(cell: Target<'_>, command: &Command) -> Done {
    match command {
        Command::Grant(which) => set(cell, which, true),
        Command::Revoke(which) => set(cell, which, false),
        Command::List(args) => list(cell, args),
    }
}

fn set(cell: Target<'_>, which: &Which, granted: bool) -> Done {
    with_cell(cell, async |mut connection| {
        let Which { user, capability } = which;
        change(&mut connection, user, *capability, granted).await?;
        let has = if granted { "has" } else { "no longer has" };
        output::say(&format!("{user} {has} the capability {capability}\n"));
        Ok(())
    })
}

/// Grants a capability to a user, or takes it away.
pub(super) async fn change(
    connection: &mut Connection,
    user: &UserName,
    capability: Capability,
    granted: bool,
) -> Done {
    let id = Some(connection.request_id().await?);
    let (user, capability) = (user.to_string(), capability.to_string());
    let change = Some(v1::SetCapability { user, capability, granted });
    let request = v1::ChangeCapabilityRequest { id, change };
    connection
        .ask(request, async |mut client, request| client.access.change_capability(request).await)
        .await?;
    Ok(())
}

fn list(cell: Target<'_>, args: &ListArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let user = args.user.as_ref().map(ToString::to_string).unwrap_or_default();
        let request = v1::CapabilitiesRequest { user, at: args.at.map(Moment::message) };
        let answer = connection
            .ask(request, async |mut client, request| client.access.capabilities(request).await)
            .await?;
        output::object(&args.output, &answer, "capabilities", || describe(args, &answer))
    })
}

fn describe(args: &ListArgs, answer: &v1::CapabilitiesResponse) -> String {
    let wanted =
        |user: &&String| args.user.as_ref().is_none_or(|only| only.as_str() == user.as_str());
    let administrators = answer.administrators.iter().filter(wanted);
    let all = administrators.map(|user| vec![user.clone(), "all, as an administrator".to_owned()]);
    // An administrator has all, also those that were granted besides.
    let held = answer.users.iter().filter(|of| !answer.administrators.contains(&of.user));
    let held = held.map(|of| vec![of.user.clone(), of.capabilities.join(", ")]);
    output::table(&["USER", "CAPABILITIES"], all.chain(held).collect())
}

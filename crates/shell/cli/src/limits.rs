//! `bourg limits`: who holds how much of what users share.

use api::v1;
use clap::Args;
use client::Target;
use command::output::{self, Format};
use command::{Done, with_cell};

#[derive(Debug, Args)]
pub(crate) struct LimitsArgs {
    /// Show what nobody holds anything of, too.
    #[arg(long, short)]
    all: bool,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

pub(super) fn limits(cell: Target<'_>, args: &LimitsArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let request = v1::LimitsRequest {};
        let answer = connection
            .ask(request, async |mut client, request| client.cell.limits(request).await)
            .await?;
        output::object(&args.output, &answer, "limits", || table(&answer, args.all))
    })
}

fn table(answer: &v1::LimitsResponse, all: bool) -> String {
    let rows = answer.limits.iter().filter(|of| all || of.held > 0 || of.rejected > 0).map(|of| {
        let rejected = if of.of_replica { of.rejected.to_string() } else { String::new() };
        vec![
            of.name.clone(),
            of.held.to_string(),
            of.max.to_string(),
            of.share.to_string(),
            rejected,
            of.holders.first().map(most).unwrap_or_default(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    match rows.is_empty() {
        true => "nobody holds anything of what users share\n".to_owned(),
        false => output::table(&["LIMIT", "HELD", "MAX", "YOUR-SHARE", "REJECTED", "MOST"], rows),
    }
}

/// Whoever holds most.
fn most(holder: &v1::LimitHolder) -> String {
    let v1::LimitHolder { user, held, share } = holder;
    let at_share = if held >= share { ", its share" } else { "" };
    format!("{user} {held}{at_share}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_at_their_share_are_shown() {
        let holder =
            |user: &str, held, share| v1::LimitHolder { user: user.to_owned(), held, share };
        let of = |name: &str, held, holders| v1::LimitUse {
            name: name.to_owned(),
            max: 64,
            held,
            share: 14,
            holders,
            ..v1::LimitUse::default()
        };
        let answer = v1::LimitsResponse {
            limits: vec![
                of("tasks", 30, vec![holder("ana", 28, 27), holder("ben", 2, 14)]),
                v1::LimitUse {
                    of_replica: true,
                    rejected: 7,
                    ..of("read-logs", 3, vec![holder("ben", 3, 27)])
                },
                of("files", 0, Vec::new()),
            ],
        };
        let shown = "\
LIMIT      HELD  MAX  YOUR-SHARE  REJECTED  MOST
tasks      30    64   14                    ana 28, its share
read-logs  3     64   14          7         ben 3
";
        assert_eq!(table(&answer, false), shown);
        assert!(table(&answer, true).ends_with("files      0     64   14\n"));
    }
}

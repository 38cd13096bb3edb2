//! `bourg quota`: manages and shows quota, by user and band.

use std::path::PathBuf;
use std::str::FromStr;

use api::v1;
use api::v1::change_quota_request::Change;
use api::word;
use clap::{Args, Subcommand};
use client::Target;
use command::output::{self, Format};
use command::{Code, Done, Failure, with_cell};
use model::{Band, Bytes, Dimension, MilliCores, Resources, Time, UserName};
use process::clock::wall_clock;

use super::moment::{self, Moment, When};
use crate::evaluate;
use crate::imports::ImportArgs;

/// The subcommands of `bourg quota`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Grant a user quota in a band.
    ///
    /// Concurrent grants of one user in a band add up. Production and monitoring together cannot be
    /// granted beyond the cell's capacity; the lower bands up to what `bourg quota show` lists.
    Grant(GrantArgs),
    /// Revoke a grant. This stops growth only; no task is killed.
    Revoke {
        /// The grant's number, from `bourg quota show`.
        #[arg(value_name = "GRANT")]
        grant: u64,
    },
    /// Show grants and charges of users, when grants end, and what is left to grant.
    Show(ShowArgs),
    /// Check whether your quota suffices to submit the jobs of a file now.
    Check {
        /// A BCL or JSON file.
        file: PathBuf,
        #[command(flatten)]
        imports: ImportArgs,
    },
    /// Set how far a lower band may be granted: best-effort-batch or mid.
    Oversell {
        /// The band.
        band: Band,
        /// In percent of the cell's capacity.
        percent: u32,
    },
    /// Turn the enforcement of quota on or off: if on, jobs beyond their quota are rejected.
    Meter {
        /// on or off.
        #[arg(value_parser = ["on", "off"])]
        on: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// The user.
    user: UserName,
    /// The band: best-effort-batch, mid, production, monitoring, or a priority in it.
    band: Band,
    /// The amount: cpu=2 ram=4GiB disk=10GiB disk-rate=10MiB.
    #[arg(value_name = "AMOUNT", required = true)]
    amounts: Vec<Amount>,
    /// The start: a time (2026-12-01 00:00, UTC) or a delay (2h). Default: now.
    #[arg(long, value_name = "WHEN")]
    from: Option<When>,
    /// The end, likewise. Default: unlimited.
    #[arg(long, value_name = "WHEN")]
    until: Option<When>,
    /// The duration, such as 30d.
    #[arg(long = "for", value_name = "TIME", value_parser = super::duration, conflicts_with = "until")]
    lasting: Option<std::time::Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Only this user's. Default: every user's.
    user: Option<UserName>,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

/// For example `ram=4GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount(Dimension, u64);

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = |word: &str| Dimension::ALL.into_iter().find(|of| of.word() == word);
        let split = text.split_once('=').and_then(|(word, amount)| Some((known(word)?, amount)));
        let Some((dimension, amount)) = split else {
            return Err(format!(
                "'{}' is not an amount: use cpu=2, ram=4GiB, disk=10GiB or disk-rate=10MiB",
                text.escape_debug()
            ));
        };
        let read = match dimension {
            Dimension::Cpu => amount.parse().map(|MilliCores(amount)| amount),
            _ => amount.parse().map(|Bytes(amount)| amount),
        };
        read.map(|amount| Self(dimension, amount)).map_err(|error| error.to_string())
    }
}

pub(super) fn quota(cell: Target<'_>, command: &Command) -> Done {
    match command {
        Command::Grant(args) => grant(cell, args),
        Command::Revoke { grant } => with_cell(cell, async |mut connection| {
            connection.change_quota(Change::Revoke(*grant)).await?;
            output::say(&format!("grant {grant} is revoked; running tasks are not affected\n"));
            Ok(())
        }),
        Command::Show(args) => show(cell, args),
        Command::Check { file, imports } => check(cell, file, imports),
        Command::Oversell { band, percent } => with_cell(cell, async |mut connection| {
            let oversell = v1::Oversell { band: band.to_string(), percent: *percent };
            connection.change_quota(Change::Oversell(oversell)).await?;
            output::say(&format!(
                "{band} quota may be granted up to {percent} % of the cell's capacity\n"
            ));
            Ok(())
        }),
        Command::Meter { on } => with_cell(cell, async |mut connection| {
            connection.change_quota(Change::Meter(on == "on")).await?;
            output::say(match on.as_str() {
                "on" => "quota is enforced: jobs beyond it are rejected from now on\n",
                _ => "quota is not enforced: jobs are admitted regardless of it\n",
            });
            Ok(())
        }),
    }
}

fn grant(cell: Target<'_>, args: &GrantArgs) -> Done {
    let mut amount = Resources::default();
    for Amount(dimension, of) in &args.amounts {
        if amount.get(*dimension) > 0 {
            let word = dimension.word();
            return Err(Failure::usage(format!("error: {word} is given twice")));
        }
        let before = amount;
        amount = Resources::each(|other| if other == *dimension { *of } else { before.get(other) });
    }
    let from = args.from.map(|When(at)| at);
    let lasting = args.lasting.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    let until = args.until.map(|When(at)| at);
    let until = until.or(lasting.map(|time| from.unwrap_or_else(wall_clock) + model::Span(time)));
    with_cell(cell, async |mut connection| {
        let (user, band) = (args.user.to_string(), args.band.to_string());
        let (from, until) = (from.map(|at| at.0), until.map(|at| at.0));
        let amount = Some((&amount).into());
        let asked = v1::GrantQuota { user, band, amount, from, until };
        let grant = connection.change_quota(Change::Grant(asked)).await?.grant;
        output::print(&format!("{grant}\n"))?;
        output::say(&format!(
            "next: bourg quota show {} · bourg quota revoke {grant}\n",
            args.user
        ));
        Ok(())
    })
}

fn check(cell: Target<'_>, file: &std::path::Path, imports: &ImportArgs) -> Done {
    let jobs = evaluate::evaluate(file, imports)?.into_jobs()?;
    with_cell(cell, async |mut connection| {
        let request = v1::CheckQuotaRequest { jobs: jobs.iter().map(Into::into).collect() };
        let answer = connection
            .ask(request, async |mut client, request| client.quota.check(request).await)
            .await?;
        let (mut refused, mut text) = (0, String::new());
        for (job, described) in answer.jobs.iter().zip(&jobs) {
            if let Some(set) = described.kind.alloc_set().filter(|_| job.refused.is_empty()) {
                let line = format!("{}: within quota; its alloc set {set} is charged\n", job.job);
                text += &line;
                continue;
            }
            let asked = words(job.asked.as_ref());
            let band = word::<v1::Band>(job.band);
            text += &match (job.refused.as_str(), job.band()) {
                ("", v1::Band::Free) => {
                    format!(
                        "{}: within quota, {asked} in {band}, which is never charged\n",
                        job.job
                    )
                }
                ("", _) => format!("{}: within quota, {asked} in {band}\n", job.job),
                (why, _) => {
                    refused += 1;
                    format!("{}: {why}\n", job.job)
                }
            };
        }
        output::print(&text)?;
        if !answer.metered {
            output::say("quota is not enforced in this cell: nothing is rejected\n");
        }
        match refused {
            0 => Ok(()),
            _ => {
                let of = answer.jobs.len();
                let text = format!("error: {refused} of {of} jobs would be rejected");
                Err(Failure::new(Code::Refused, text))
            }
        }
    })
}

fn show(cell: Target<'_>, args: &ShowArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let user = args.user.as_ref().map(ToString::to_string).unwrap_or_default();
        let request = v1::QuotaRequest { user, at: args.at.map(Moment::message) };
        let answer = connection
            .ask(request, async |mut client, request| client.quota.get(request).await)
            .await?;
        output::object(&args.output, &answer, "quota", || describe(&answer))
    })
}

fn resources(of: Option<&v1::Resources>) -> Resources {
    of.and_then(|of| Resources::try_from(*of).ok()).unwrap_or_default()
}

fn words(of: Option<&v1::Resources>) -> String {
    resources(of).in_words()
}

fn describe(answer: &v1::QuotaResponse) -> String {
    let mut text = match answer.metered {
        true => "enforced: jobs without quota are rejected\n\n".to_owned(),
        false => {
            "not enforced: nothing is rejected; to enforce it: bourg quota meter on\n\n".to_owned()
        }
    };
    let bands = answer.bands.iter().map(|band| {
        let name = match band.band() {
            v1::Band::Production => "production and monitoring".into(),
            _ => word::<v1::Band>(band.band),
        };
        let oversold = match words(band.oversold.as_ref()).as_str() {
            "nothing" => String::new(),
            by => format!("oversold by {by}"),
        };
        let (allowed, granted) = (words(band.allowed.as_ref()), words(band.granted.as_ref()));
        vec![name.into_owned(), format!("{} %", band.percent), allowed, granted, oversold]
    });
    text += &output::table(&["BAND", "OF CAPACITY", "ALLOWED", "GRANTED", ""], bands.collect());
    if !answer.users.is_empty() {
        let users = answer.users.iter().map(user_row);
        let headings = ["USER", "BAND", "GRANTED", "CHARGED", "LEFT", "ENDS"];
        text += &format!("\n{}", output::table(&headings, users.collect()));
        text.extend(answer.users.iter().filter_map(above_then));
    }
    if !answer.grants.is_empty() {
        let grants = answer.grants.iter().map(grant_row);
        let headings = ["GRANT", "USER", "BAND", "AMOUNT", "FROM", "UNTIL", "BY"];
        text += &format!("\n{}", output::table(&headings, grants.collect()));
    }
    text
}

fn user_row(user: &v1::UserQuota) -> Vec<String> {
    let ends = match user.ends {
        0 => String::new(),
        at => moment::shown(Time(at)),
    };
    vec![
        user.user.clone(),
        word::<v1::Band>(user.band).into_owned(),
        words(user.granted.as_ref()),
        words(user.charged.as_ref()),
        words(user.left.as_ref()),
        ends,
    ]
}

/// `ana, batch: 2 cores above the quota from 2026-12-01 00:00:00 on`, of a user whose jobs then have more than is
/// granted.
fn above_then(user: &v1::UserQuota) -> Option<String> {
    let above = words(user.above_then.as_ref());
    let is_above = user.ends > 0 && above != "nothing";
    let (band, at) = (word::<v1::Band>(user.band), moment::shown(Time(user.ends)));
    is_above.then(|| format!("{}, {band}: {above} above the quota from {at} on\n", user.user))
}

fn grant_row(grant: &v1::Grant) -> Vec<String> {
    vec![
        grant.id.to_string(),
        grant.user.clone(),
        grant.band.clone(),
        words(grant.amount.as_ref()),
        moment::shown(Time(grant.from)),
        grant.until.map(|until| moment::shown(Time(until))).unwrap_or_default(),
        grant.by.clone(),
    ]
}

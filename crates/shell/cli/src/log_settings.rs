//! `bourg cell logs`: the cell's settings for the output of tasks.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use api::v1;
use clap::Args;
use client::Target;
use command::output::{self, Format};
use command::{Done, Failure, with_cell};
use model::{Bytes, Span};
use spec::LogSettings;

use super::duration;

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// How long output is kept after the end of a task, such as 7d: up to 365 days.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    keep: Option<Duration>,
    /// How much output is kept of each task, such as 256MiB: the newest, half of it for each stream.
    #[arg(long, value_name = "BYTES")]
    max: Option<Bytes>,
    /// How much output of ended tasks is kept on each machine, such as 10GiB; default: 1 GiB, or a
    /// 20th of a smaller disk.
    #[arg(long, value_name = "BYTES|default")]
    machine: Option<OfMachines>,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

/// `10GiB` or `default`.
#[derive(Clone, Copy, Debug)]
struct OfMachines(Option<Bytes>);

impl FromStr for OfMachines {
    type Err = <Bytes as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "default" { Ok(Self(None)) } else { text.parse().map(|bytes| Self(Some(bytes))) }
    }
}

pub(super) fn logs(cell: Target<'_>, args: &LogsArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let status = connection.cell_status().await?;
        let said = status.logs.unwrap_or_default();
        let damaged = |error: api::Malformed| Failure::failed(format!("error: {error}"));
        let mut settings = LogSettings::try_from(said).map_err(damaged)?;
        let before = settings;
        if let Some(keep) = args.keep {
            settings.keep = Span(u64::try_from(keep.as_micros()).unwrap_or(u64::MAX));
        }
        settings.max = args.max.unwrap_or(settings.max);
        settings.machine = args.machine.map_or(settings.machine, |OfMachines(bytes)| bytes);
        if settings != before {
            if let Some(problem) = settings.problem() {
                return Err(Failure::usage(format!("error: {problem}")));
            }
            let id = Some(connection.request_id().await?);
            let request = v1::SetLogsRequest { id, settings: Some((&settings).into()) };
            connection
                .ask(request, async |mut client, request| client.cell.set_logs(request).await)
                .await?;
        }
        let shown = v1::LogSettings::from(&settings);
        output::object(&args.output, &shown, &status.name, || SettingsTable(settings).to_string())
    })
}

/// The settings as a table.
struct SettingsTable(LogSettings);

impl fmt::Display for SettingsTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = match self.0.machine {
            Some(bytes) => bytes.to_string(),
            None => "1 GiB, or a 20th of a smaller disk".to_owned(),
        };
        let rows = [
            ("kept after the end", self.0.keep.to_string()),
            ("of each task", self.0.max.to_string()),
            ("of ended tasks on a machine", machine),
        ];
        let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
        f.write_str(&output::table(&["logs", "unless their job says otherwise"], rows.into()))
    }
}

//! `bourg cell queue` and `bourg cell weight`: how the batch queue decides, and the weights of users.

use std::time::Duration;

use api::v1;
use clap::{Args, ValueEnum};
use client::Target;
use command::{Done, Failure, output, with_cell};
use model::{Dimension, PoorestUser, QueueSettings, ShareWeights, Span, UserName};

use super::duration;

#[derive(Debug, Args)]
pub(super) struct QueueArgs {
    /// Whether there is a queue. When it is switched off, everything that waits in it becomes pending.
    switch: Option<Switch>,
    /// What happens when the next tasks of the user with the smallest share do not fit.
    ///
    /// waited-for: they get a reservation, and others start before it only if they do not delay it. skipped: others go
    /// on; machines are fuller, and large tasks may wait for ever.
    #[arg(long, value_name = "HOW")]
    poorest: Option<Poorest>,
    /// The time after which what was used counts half, from 1s to a year; none: only what is used now counts.
    #[arg(long, value_name = "TIME", value_parser = half_life)]
    half_life: Option<HalfLife>,
    /// How long a task is assumed to run of which nothing is known, from 1s to a year.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    assumed_runtime: Option<Duration>,
}

/// On or off.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// What happens to the poorest user.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Poorest {
    WaitedFor,
    Skipped,
}

/// A half-life, or none.
#[derive(Clone, Copy, Debug)]
struct HalfLife(Option<Duration>);

fn half_life(text: &str) -> Result<HalfLife, String> {
    match text {
        "none" => Ok(HalfLife(None)),
        _ => duration(text).map(|time| HalfLife(Some(time))).map_err(|error| error.to_string()),
    }
}

fn span(time: Duration) -> Span {
    Span(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

impl QueueArgs {
    fn changes_nothing(&self) -> bool {
        self.switch.is_none()
            && self.poorest.is_none()
            && self.half_life.is_none()
            && self.assumed_runtime.is_none()
    }

    fn changed(&self, settings: QueueSettings) -> QueueSettings {
        QueueSettings {
            on: self.switch.map_or(settings.on, |switch| matches!(switch, Switch::On)),
            poorest: match self.poorest {
                Some(Poorest::WaitedFor) => PoorestUser::WaitedFor,
                Some(Poorest::Skipped) => PoorestUser::Skipped,
                None => settings.poorest,
            },
            half_life: match self.half_life {
                Some(HalfLife(time)) => time.map(span),
                None => settings.half_life,
            },
            assumed_runtime: self.assumed_runtime.map_or(settings.assumed_runtime, span),
        }
    }
}

pub(super) fn queue(cell: Target<'_>, args: &QueueArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let damaged = |error| Failure::failed(format!("error: {error}"));
        let mut answer = settings_of(&mut connection).await?;
        if !args.changes_nothing() {
            let settings = answer.settings.take().unwrap_or_default();
            let settings = QueueSettings::try_from(settings).map_err(damaged)?;
            let id = Some(connection.request_id().await?);
            let settings = Some((&args.changed(settings)).into());
            let request = v1::SetQueuePolicyRequest { id, settings };
            connection
                .ask(request, async |mut client, request| {
                    client.cell.set_queue_policy(request).await
                })
                .await?;
            answer = settings_of(&mut connection).await?;
        }
        let settings = answer.settings.unwrap_or_default();
        let settings = QueueSettings::try_from(settings).map_err(damaged)?;
        let mut text = show(&settings);
        for weights in answer.weights {
            let (user, weights) =
                api::queue_settings::user_weights_of(&weights).map_err(damaged)?;
            text.push_str(&format!("weights of {user}: {weights}\n"));
        }
        output::print(&text)
    })
}

async fn settings_of(
    connection: &mut client::Connection,
) -> Result<v1::QueueSettingsResponse, client::Error> {
    let request = v1::QueueSettingsRequest {};
    connection
        .ask(request, async |mut client, request| client.cell.queue_settings(request).await)
        .await
}

fn show(settings: &QueueSettings) -> String {
    let QueueSettings { on, poorest, half_life, assumed_runtime } = settings;
    let on = if *on { "on" } else { "off" };
    let half_life = half_life.map_or_else(|| "none".to_owned(), |span| span.to_string());
    format!(
        "queue: {on}\npoorest user: {poorest}\nhalf-life: {half_life}\nassumed runtime: {assumed_runtime}\n"
    )
}

#[derive(Debug, Args)]
pub(super) struct WeightArgs {
    /// The user.
    user: UserName,
    /// A weight for each resource, such as cpu=2.5: from 0.001 to 1000. Those that are left out are 1.
    #[arg(value_name = "RESOURCE=WEIGHT", value_parser = weight)]
    weights: Vec<(Dimension, u32)>,
}

/// A weight of a resource in thousandths.
fn weight(text: &str) -> Result<(Dimension, u32), String> {
    let (resource, number) =
        text.split_once('=').ok_or("write RESOURCE=WEIGHT, such as cpu=2 or ram=0.5".to_owned())?;
    let dimension = match resource {
        "cpu" => Dimension::Cpu,
        "ram" => Dimension::Ram,
        "disk" => Dimension::Disk,
        "disk-rate" => Dimension::DiskRate,
        _ => return Err("the resources are cpu, ram, disk and disk-rate".to_owned()),
    };
    let range = || "a weight is from 0.001 to 1000, in steps of 0.001".to_owned();
    let (ones, rest) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if ones.is_empty() || rest.len() > 3 || !digits(ones) || !digits(rest) {
        return Err(range());
    }
    let ones: u32 = ones.parse().map_err(|_| range())?;
    let rest: u32 = format!("{rest:0<3}").parse().map_err(|_| range())?;
    let thousandths = ones.checked_mul(1_000).and_then(|ones| ones.checked_add(rest));
    let thousandths = thousandths.filter(|weight| ShareWeights::RANGE.contains(weight));
    Ok((dimension, thousandths.ok_or_else(range)?))
}

pub(super) fn set_weight(cell: Target<'_>, args: &WeightArgs) -> Done {
    let mut weights = ShareWeights::default();
    for (dimension, weight) in args.weights.iter().copied() {
        weights = weights
            .with(dimension, weight)
            .map_err(|error| Failure::usage(format!("error: {error}")))?;
    }
    with_cell(cell, async |mut connection| {
        let id = Some(connection.request_id().await?);
        let weights = api::queue_settings::user_weights(&args.user, &weights);
        let request = v1::SetQueueWeightRequest { id, weights: Some(weights) };
        connection
            .ask(request, async |mut client, request| client.cell.set_queue_weight(request).await)
            .await?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_decimal_numbers() {
        let table = [
            ("cpu=1", Some((Dimension::Cpu, 1_000))),
            ("ram=2.5", Some((Dimension::Ram, 2_500))),
            ("disk=0.001", Some((Dimension::Disk, 1))),
            ("disk-rate=1000", Some((Dimension::DiskRate, 1_000_000))),
            ("cpu=0", None),
            ("cpu=-1", None),
            ("cpu=1000.001", None),
            ("cpu=0.0001", None),
            ("cpu=", None),
            ("cpu", None),
            ("gpu=1", None),
            ("cpu=99999999999", None),
        ];
        for (text, expected) in table {
            assert_eq!(weight(text).ok(), expected, "{text}");
        }
    }
}

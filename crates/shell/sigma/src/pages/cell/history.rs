//! What the cell has used and reclaimed in the last hours, by band, and why tasks were evicted.

use std::ops::Range;

use api::v1;
use chart::{Chart, Point, Series, SeriesKind, Unit};
use maud::{Markup, html};

use super::{Facts, HOURS, View};
use crate::fleet::Of;
use crate::pages::bands::{self, BANDS, SYSTEM};
use crate::show;

const HOUR: u64 = 3_600_000_000;
/// The causes of evictions, and where they are counted.
type Cause = (&'static str, fn(&v1::EvictionCounts) -> u32);
const CAUSES: [Cause; 8] = [
    ("preempted", |counts| counts.preempted),
    ("out of resources", |counts| counts.out_of_resources),
    ("machine failure", |counts| counts.machine_failure),
    ("machine shutdown", |counts| counts.machine_shutdown),
    ("updated", |counts| counts.updated),
    ("moved", |counts| counts.moved),
    ("restarted with its gang", |counts| counts.gang_restarts),
    ("other", |counts| counts.other),
];

/// The samples that are shown, the oldest first: until the moment of the page.
pub(super) fn samples(facts: &Facts) -> &[v1::CellSample] {
    let Some(history) = &facts.history else { return &[] };
    let end = match facts.is_past() {
        true => history.history.partition_point(|sample| sample.time <= facts.status.time),
        false => history.history.len(),
    };
    &history.history[..end]
}

/// The hours, as links.
fn choices(facts: &Facts) -> Markup {
    html! {
        nav class="choices" aria-label="How far back" { span { @for hours in HOURS {
            @let to = View { hours, ..facts.view };
            a href=(facts.to(to.place())) aria-current=[(to == facts.view).then_some("true")] { (hours) " h" }
        } } }
    }
}

pub(super) fn charts(facts: &Facts) -> Markup {
    let samples = samples(facts);
    let hours = facts.view.hours;
    let command = format!("bourg usage --since {hours}h");
    let partial = samples.iter().filter(|sample| !sample.missing.is_empty()).count();
    html! {
        h2 { "The last hours" }
        (choices(facts))
        @if facts.history.is_none() {
            p class="bad" { "Unknown: no replica has answered." }
        } @else if samples.len() < 2 {
            (show::empty(
                "The replica that answers has recorded too little for a curve: it keeps a sample a minute in \
                 memory, since its start.",
                &command,
            ))
        } @else {
            div class="charts" {
                @for of in [Of::Cpu, Of::Ram] { (used(samples, of, hours)) }
                @for of in [Of::Cpu, Of::Ram] { (reclaimed(samples, of, hours)) }
                (waiting(samples, hours))
            }
            @if partial > 0 {
                p class="muted" { (partial) " of " (samples.len()) " samples lack the usage of some machines: \
                    not all replicas of the master answered." }
            }
            p class="muted" { "The same as text: " (show::command(&command)) }
        }
    }
}

/// Where a chart begins and ends: at the newest sample, so that it changes only with a new one.
fn ends(samples: &[v1::CellSample], hours: u64) -> Range<u64> {
    let first = samples.first().map_or(0, |sample| sample.time);
    let last = samples.last().map_or(0, |sample| sample.time);
    last.saturating_sub(hours.saturating_mul(HOUR)).max(first)..last
}

fn of(amount: Option<&v1::CpuMemory>, of: Of) -> Option<i64> {
    let amount = amount?;
    match of {
        Of::Cpu => amount.cpu_milli,
        Of::Ram => amount.memory_bytes,
        Of::Disk => None,
    }
}

/// An amount as a chart has it: in cores, or in bytes.
fn scaled(amount: Option<i64>, of: Of) -> Option<f64> {
    let by = if of == Of::Cpu { 1_000.0 } else { 1.0 };
    amount.map(|amount| amount as f64 / by)
}

#[expect(clippy::cast_possible_truncation, reason = "a chart has no value that is too large")]
fn shown(value: f64, of: Of) -> String {
    let by = if of == Of::Cpu { 1_000.0 } else { 1.0 };
    of.show(Some((value * by).round() as i64))
}

fn band(sample: &v1::CellSample, band: v1::Band) -> Option<&v1::cell_sample::Band> {
    sample.bands.iter().find(|known| known.band() == band)
}

/// A curve of something of each sample.
fn curve(samples: &[v1::CellSample], value: impl Fn(&v1::CellSample) -> Option<f64>) -> Vec<Point> {
    samples.iter().map(|sample| (sample.time, value(sample))).collect()
}

/// The sum over the bands; none if none is known.
fn sum(
    sample: &v1::CellSample,
    value: impl Fn(&v1::cell_sample::Band) -> Option<i64>,
) -> Option<i64> {
    sample.bands.iter().filter_map(value).reduce(i64::saturating_add)
}

/// A curve for each band that occurs.
fn curves(
    samples: &[v1::CellSample],
    value: impl Fn(&v1::cell_sample::Band) -> Option<f64>,
) -> Vec<(String, &'static str, Vec<Point>)> {
    let mut curves = Vec::new();
    for (known, class) in BANDS {
        let points = curve(samples, |sample| band(sample, known).and_then(&value));
        if points.iter().any(|(_, value)| value.is_some()) {
            curves.push((bands::name(known), class, points));
        }
    }
    curves
}

/// What is used by each band, below what is reserved, may be used, and is there.
fn used(samples: &[v1::CellSample], resource: Of, hours: u64) -> Markup {
    let value = |amount: Option<i64>| scaled(amount, resource);
    let mut areas = curves(samples, |band| value(of(band.used.as_ref(), resource)));
    let system = curve(samples, |sample| {
        let tasks = sum(sample, |band| of(band.used.as_ref(), resource)).unwrap_or_default();
        value(of(sample.used.as_ref(), resource).map(|all| all.saturating_sub(tasks).max(0)))
    });
    areas.push((SYSTEM.0.to_owned(), SYSTEM.1, system));
    let reserved =
        curve(samples, |sample| value(sum(sample, |band| of(band.reservation.as_ref(), resource))));
    let limit =
        curve(samples, |sample| value(sum(sample, |band| of(band.limit.as_ref(), resource))));
    let capacity = curve(samples, |sample| value(of(sample.capacity.as_ref(), resource)));
    let mut series: Vec<Series<'_>> = areas
        .iter()
        .map(|(name, class, points)| Series { name, kind: SeriesKind::Area, class, points })
        .collect();
    for (name, kind, class, points) in [
        ("reserved", SeriesKind::Line, "series-reservation", &reserved),
        ("limits", SeriesKind::Limit, "series-limit", &limit),
        ("capacity", SeriesKind::Step, "series-capacity", &capacity),
    ] {
        series.push(Series { name, kind, class, points });
    }
    let title = format!("{} used", resource.name());
    draw(&title, resource, &series, ends(samples, hours))
}

/// What tasks may use and is reserved for nobody, by band.
fn reclaimed(samples: &[v1::CellSample], resource: Of, hours: u64) -> Markup {
    let areas = curves(samples, |band| {
        let (limit, reservation) =
            (of(band.limit.as_ref(), resource)?, of(band.reservation.as_ref(), resource)?);
        scaled(Some(limit.saturating_sub(reservation)), resource)
    });
    let series: Vec<Series<'_>> = areas
        .iter()
        .map(|(name, class, points)| Series { name, kind: SeriesKind::Area, class, points })
        .collect();
    let title = format!("{} reclaimed", resource.name());
    draw(&title, resource, &series, ends(samples, hours))
}

fn draw(title: &str, resource: Of, series: &[Series<'_>], period: Range<u64>) -> Markup {
    chart::chart(&Chart {
        title,
        from: period.start,
        to: period.end,
        top: 0.0,
        unit: if resource == Of::Cpu { Unit::Decimal } else { Unit::Binary },
        format: &|value| shown(value, resource),
        stacked: true,
        series,
    })
}

/// How many tasks were pending.
fn waiting(samples: &[v1::CellSample], hours: u64) -> Markup {
    let points = curve(samples, |sample| Some(f64::from(sample.pending)));
    let series = [Series {
        name: "pending",
        kind: SeriesKind::Area,
        class: "series-usage",
        points: &points,
    }];
    let Range { start: from, end: to } = ends(samples, hours);
    chart::chart(&Chart {
        title: "Pending tasks",
        from,
        to,
        top: 0.0,
        unit: Unit::Whole,
        format: &|value| format!("{value:.0}"),
        stacked: false,
        series: &series,
    })
}

/// How often tasks were evicted, by cause.
pub(super) fn evictions(facts: &Facts) -> Markup {
    let samples = samples(facts);
    let newest = samples.last().map_or(0, |sample| sample.time);
    let hour = samples.partition_point(|sample| sample.time <= newest.saturating_sub(HOUR));
    let count = |samples: &[v1::CellSample], of: fn(&v1::EvictionCounts) -> u32| -> u64 {
        samples
            .iter()
            .filter_map(|sample| sample.evictions.as_ref())
            .map(|all| u64::from(of(all)))
            .sum()
    };
    let hours = facts.view.hours;
    let rows: Vec<_> = CAUSES
        .into_iter()
        .map(|(name, of)| (name, of, count(&samples[hour..], of), count(samples, of)))
        .filter(|(_, _, _, all)| *all > 0)
        .collect();
    html! {
        h2 { "Evictions" }
        @if samples.is_empty() {
            p class="muted" { "None is recorded: the replica that answers counts them since its start." }
        } @else if rows.is_empty() {
            p class="muted" { "No task was evicted in the last " (hours) " h, as far as they are recorded." }
        } @else {
            div class="scroll" { table {
                thead { tr {
                    th scope="col" { "Cause" }
                    th scope="col" class="num" { "Last hour" }
                    th scope="col" class="num" { "Last " (hours) " h" }
                    th scope="col" { "Over time" }
                } }
                tbody { @for (name, of, last, all) in rows {
                    @let values: Vec<Option<f64>> =
                        samples.iter().map(|sample| sample.evictions.as_ref().map(|all| f64::from(of(all)))).collect();
                    tr {
                        th scope="row" { (name) }
                        td class="num" { (last) }
                        td class="num" { (all) }
                        td { (chart::spark(&format!("{name}: {all} in {hours} h"), "series-usage", &values, 1.0)) }
                    }
                } }
            } }
        }
    }
}

//! Time charts of one resource.
//!
//! Only the data is stretched to the width of the page. Texts and grid lines have their places as
//! percentages of the plot, so that letters are as large on a phone as on a wide screen.

use maud::{Markup, html};

use super::percent;
use super::points::{Join, Point, clip, path, pile, thin, value_at};
use super::scale::{Unit, moment, moments, ticks};

/// The size of the coordinates of the data: finer than the pixels of most screens.
const WIDTH: f64 = 2000.0;
const HEIGHT: f64 = 500.0;
const BOTTOM: i32 = 500;

/// The most points of one series.
const POINTS_MAX: usize = 400;

/// The most points of all paths of a chart together, which bounds the size of the page.
const POINTS_SUM: usize = 1400;

/// The fewest points that a series may have, however many there are.
const POINTS_MIN: usize = 40;

/// Numbers of the bands that show values to a pointer, the first that is small enough is taken.
const BANDS: [u64; 4] = [60, 40, 24, 12];

/// The most bytes of all bands, if not even the fewest have more.
const BANDS_BYTES: usize = 8000;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesKind {
    /// Samples: a line from point to point, and the area below it.
    Area,
    /// Samples: a line from point to point.
    Line,
    /// Changes: each value holds until the next point, and the last one to the end.
    Step,
    /// Changes of a bound: as steps, dashed.
    Limit,
}

impl SeriesKind {
    /// Whether a value holds until the next point.
    fn holds(self) -> bool {
        matches!(self, SeriesKind::Step | SeriesKind::Limit)
    }
}

/// A series of a chart.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// How it is drawn.
    pub kind: SeriesKind,
    /// The class of its colour, such as `series-usage`.
    pub class: &'a str,
    /// Its points, in any order.
    pub points: &'a [Point],
}

/// A chart over time.
pub struct Chart<'a> {
    /// What it shows, such as `CPU`.
    pub title: &'a str,
    /// The left end: microseconds since the epoch.
    pub from: u64,
    /// The right end: microseconds since the epoch.
    pub to: u64,
    /// The least value at the top, such as 1 for shares, or 0 if only the values count.
    pub top: f64,
    /// Where ticks of values are nice.
    pub unit: Unit,
    /// A value as text, with its unit.
    pub format: &'a dyn Fn(f64) -> String,
    /// Whether the areas are put on top of each other, the first at the bottom. Other series are
    /// lines above them.
    pub stacked: bool,
    /// What is drawn, the first behind the others.
    pub series: &'a [Series<'a>],
}

/// A series with the points that are in the chart.
struct Clipped<'a> {
    series: &'a Series<'a>,
    points: Vec<Point>,
}

impl Clipped<'_> {
    fn known(&self) -> impl DoubleEndedIterator<Item = f64> {
        self.points.iter().filter_map(|&(_, value)| value)
    }

    /// The last value and the maximum.
    fn ends(&self) -> Option<(f64, f64)> {
        Some((self.known().next_back()?, self.known().fold(0.0, f64::max)))
    }
}

/// The markup of a chart: title, legend with the last values, plot. It has a text alternative, and no
/// more than about 20 KB for some series with names of usual length.
#[must_use]
pub fn chart(chart: &Chart<'_>) -> Markup {
    let (from, to) = (chart.from, chart.to);
    let all: Vec<Clipped<'_>> = chart
        .series
        .iter()
        .map(|series| Clipped {
            series,
            points: clip(series.points, from, to, series.kind.holds()),
        })
        .collect();
    if from >= to || all.iter().all(|each| each.ends().is_none()) {
        return html! {
            figure.chart {
                figcaption.chart-title { (chart.title) }
                p.chart-empty { "No data for this time." }
            }
        };
    }
    let (under, over): (Vec<&Clipped<'_>>, Vec<&Clipped<'_>>) =
        all.iter().partition(|each| chart.stacked && each.series.kind == SeriesKind::Area);
    let paths = under.len()
        + over
            .iter()
            .map(|each| if each.series.kind == SeriesKind::Area { 2 } else { 1 })
            .sum::<usize>();
    let most = (POINTS_SUM / paths.max(1)).clamp(POINTS_MIN, POINTS_MAX);
    let piles = pile(&under.iter().map(|each| &*each.points).collect::<Vec<_>>(), most);
    let highest = over.iter().flat_map(|each| each.known());
    let highest = highest.chain(piles.last().into_iter().flatten().filter_map(|&(_, value)| value));
    let ticks = ticks(highest.fold(super::finite(chart.top).unwrap_or(0.0), f64::max), chart.unit);
    let frame = Frame { from, to, top: ticks.last().copied().unwrap_or(1.0) };
    let format = chart.format;
    html! {
        figure.chart {
            figcaption.chart-title { (chart.title) }
            ul.chart-legend {
                @for each in &all {
                    li class=(each.series.class) {
                        (swatch(each.series.kind, chart.stacked)) (each.series.name) " "
                        @match each.ends() {
                            Some((last, _)) => b { (format(last)) },
                            None => b { "no data" },
                        }
                    }
                }
            }
            svg.chart-plot role="img" {
                title { (chart.title) ", " (moment(from, from, to)) " to " (moment(to, from, to)) " UTC" }
                desc { (summary(&all, format)) }
                (grid(&frame, &ticks, format))
                svg.chart-data viewBox="0 0 2000 500" preserveAspectRatio="none"
                    width="100%" height="100%" {
                    // From the highest to the lowest: each covers what is below its top.
                    @for (each, points) in under.iter().zip(&piles).rev() {
                        path class={ "chart-pile " (each.series.class) }
                            d=(frame.path(points.iter().copied(), Join::Area(BOTTOM))) {}
                    }
                    @for each in over.iter().filter(|each| each.ends().is_some()) {
                        (line(each, &frame, most))
                    }
                }
                (bands(&all, &frame, format, under.len() > 1))
            }
        }
    }
}

/// What the ends of the axes are.
struct Frame {
    from: u64,
    to: u64,
    top: f64,
}

impl Frame {
    /// How far to the right a time is, from 0 to 1.
    fn across(&self, at: u64) -> f64 {
        at.saturating_sub(self.from) as f64 / (self.to - self.from) as f64
    }

    fn path(&self, points: impl Iterator<Item = Point>, join: Join) -> String {
        let place = |(at, value): Point| {
            value.map(|value| (self.across(at) * WIDTH, (1.0 - value / self.top) * HEIGHT))
        };
        path(points.map(place), join)
    }
}

/// A series that is not stacked.
fn line(each: &Clipped<'_>, frame: &Frame, most: usize) -> Markup {
    let kept = thin(&each.points, most);
    let points = || kept.iter().map(|&index| each.points[index]);
    let join = if each.series.kind.holds() { Join::Step } else { Join::Line };
    html! {
        g class=(each.series.class) {
            @if each.series.kind == SeriesKind::Area {
                path.chart-area d=(frame.path(points(), Join::Area(BOTTOM))) {}
            }
            path.chart-line.chart-limit[each.series.kind == SeriesKind::Limit]
                d=(frame.path(points(), join)) {}
            @let dots = frame.path(points(), Join::Dots);
            @if !dots.is_empty() { path.chart-dots d=(dots) {} }
        }
    }
}

/// The lines at the ticks, and what the ticks say.
fn grid(frame: &Frame, ticks: &[f64], format: &dyn Fn(f64) -> String) -> Markup {
    html! {
        g.chart-grid {
            @for &tick in ticks {
                @let y = percent(1.0 - tick / frame.top);
                line x2="100%" y1=(y) y2=(y) {}
                text.chart-value y=(y) dx="-8" dy="4" { (format(tick)) }
            }
            @for tick in moments(frame.from, frame.to) {
                @let x = percent(frame.across(tick.at));
                g class=[tick.minor.then_some("chart-minor")] {
                    line.chart-tick x1=(x) x2=(x) y1="0" y2="100%" {}
                    text.chart-time x=(x) y="100%" dy="18" { (tick.label) }
                }
            }
            text.chart-zone y="100%" dx="-58" dy="18" { "UTC" }
        }
    }
}

/// Transparent bands, each with the time and the values there.
fn bands(
    all: &[Clipped<'_>],
    frame: &Frame,
    format: &dyn Fn(f64) -> String,
    total: bool,
) -> Markup {
    let length = frame.to - frame.from;
    let titles = |count: u64| -> Vec<String> {
        let title = |band: u64| {
            let middle = u128::from(length) * u128::from(2 * band + 1) / u128::from(2 * count);
            let at = frame.from + u64::try_from(middle).unwrap_or(length);
            let mut title = format!("{} UTC", moment(at, frame.from, frame.to));
            let mut sum = 0.0;
            for each in all {
                if let Some(value) = value_at(&each.points, at, length / count) {
                    title.push_str(&format!("\n{}: {}", each.series.name, format(value)));
                    sum += if each.series.kind == SeriesKind::Area { value } else { 0.0 };
                }
            }
            if total {
                title.push_str(&format!("\ntotal: {}", format(sum)));
            }
            title
        };
        (0..count).map(title).collect()
    };
    let size = |titles: &[String]| titles.iter().map(|title| title.len() + 60).sum::<usize>();
    let choices = BANDS.into_iter().map(titles);
    let fitting = choices.into_iter().find(|titles| size(titles) <= BANDS_BYTES);
    let titles = fitting.unwrap_or_else(|| titles(BANDS[BANDS.len() - 1]));
    html! {
        svg.chart-hover viewBox={ "0 0 " (titles.len()) " 1" } preserveAspectRatio="none"
            width="100%" height="100%" {
            @for (band, title) in titles.iter().enumerate() {
                rect x=(band) width="1" height="1" { title { (title) } }
            }
        }
    }
}

/// What the chart shows, in words.
fn summary(all: &[Clipped<'_>], format: &dyn Fn(f64) -> String) -> String {
    let words = all.iter().map(|each| match each.ends() {
        Some((last, most)) => {
            format!("{}: last {}, maximum {}.", each.series.name, format(last), format(most))
        }
        None => format!("{}: no data.", each.series.name),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What a series looks like, for the legend.
fn swatch(kind: SeriesKind, stacked: bool) -> Markup {
    html! {
        svg.swatch viewBox="0 0 14 12" aria-hidden="true" {
            @match kind {
                SeriesKind::Area if stacked => path.chart-pile d="M1 1h12v10H1z" {},
                SeriesKind::Area => {
                    path.chart-area d="M0 3h14v8H0z" {}
                    path.chart-line d="M0 3h14" {}
                }
                SeriesKind::Line | SeriesKind::Step => path.chart-line d="M0 6h14" {},
                SeriesKind::Limit => path.chart-line.chart-limit d="M0 6h14" {},
            }
        }
    }
}

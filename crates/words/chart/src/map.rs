//! The map of a cell: its racks, and every machine as a small square.
//!
//! A rack has one path for each bucket of utilisation and each state that occurs in it. The unit of its
//! coordinates is the distance of two squares; a line from column to column, as wide as a square and
//! dashed by `charts.css`, is a row of squares. So machines next to each other that look the same are
//! one command of a path, and a cell of many machines is a small page.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

/// The number of buckets of utilisation.
const BUCKETS: usize = 10;

/// The distance of two squares in pixels, with the gap.
const PITCH: usize = 9;

/// How a machine is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Square {
    /// It is up, and this share of it is used: 1 is all of it.
    Up(f64),
    /// It is down.
    Down,
    /// It is up, and no task may be placed on it.
    Drained,
    /// It does not answer.
    Unreachable,
    /// Nothing is known of it.
    Unknown,
}

/// The states, in the order in which they follow the buckets: class, and name.
const STATES: [(&str, &str); 4] = [
    ("down", "down"),
    ("drained", "drained"),
    ("unreachable", "unreachable"),
    ("unknown", "unknown"),
];

impl Square {
    /// Which path has it: a bucket, or [`BUCKETS`] and more for a state.
    fn layer(self) -> usize {
        match self {
            Square::Up(used) => bucket(used).unwrap_or(BUCKETS + 3),
            Square::Down => BUCKETS,
            Square::Drained => BUCKETS + 1,
            Square::Unreachable => BUCKETS + 2,
            Square::Unknown => BUCKETS + 3,
        }
    }
}

/// The bucket of a share: all of it and more is the last, and what is not a number has none.
pub(super) fn bucket(used: f64) -> Option<usize> {
    let tenths = super::whole((super::finite(used)?.min(1.0) * 10.0 + 1e-9).floor());
    Some(usize::try_from(tenths).unwrap_or(0).min(BUCKETS - 1))
}

/// The squares in a row of a rack: as many as make it about 4 wide and 3 high.
pub(super) fn columns(machines: usize) -> usize {
    // The nearest integer to the root of 4/3 of the machines.
    (1..).find(|columns| 3 * (2 * columns + 1) * (2 * columns + 1) > 16 * machines).unwrap_or(1)
}

/// A rack and its machines.
#[derive(Clone, Copy, Debug)]
pub struct Rack<'a> {
    /// The id of its element in the page.
    pub id: &'a str,
    /// Its name, such as `r7`.
    pub name: &'a str,
    /// Where its link goes.
    pub href: &'a str,
    /// Its machines, row by row from the top left.
    pub machines: &'a [Square],
}

/// The racks of a map, each by the id of its element: a link with the element `svg.rack` of that id
/// and the name. `measure` says what of the machines is shown, such as `CPU used`.
///
/// The machine with the index `row * data-columns + column` is at `column * 9` and `row * 9` pixels
/// from the top left of the `svg`, if the style does not scale it.
#[must_use]
pub fn racks(racks: &[Rack<'_>], measure: &str) -> Vec<(String, Markup)> {
    racks.iter().map(|each| (each.id.to_owned(), rack(each, measure))).collect()
}

/// One rack.
fn rack(rack: &Rack<'_>, measure: &str) -> Markup {
    let columns = columns(rack.machines.len());
    let rows = rack.machines.len().div_ceil(columns).max(1);
    let paths = paths(rack.machines, columns);
    html! {
        a href=(rack.href) {
            svg.rack id=(rack.id) data-rack=(rack.name) data-columns=(columns)
                width=(columns * PITCH) height=(rows * PITCH)
                viewBox={ "0 -.4444 " (columns) " " (rows) }
                role="img" aria-label=(label(rack, measure)) {
                @for (layer, path) in paths.iter().enumerate() {
                    @if !path.is_empty() { (drawn(layer, path)) }
                }
            }
            span aria-hidden="true" { (rack.name) }
        }
    }
}

/// The paths of a layer: states are shapes, so that they are told without colours.
fn drawn(layer: usize, path: &str) -> Markup {
    // There may be thousands of these: without an end tag, and without quotes that are not needed.
    let mut markup = String::new();
    let _infallible = match layer.checked_sub(BUCKETS).map(|state| STATES[state].0) {
        None => write!(markup, "<path class=b{layer} d=\"{path}\"/>"),
        Some(class @ ("down" | "unreachable")) => write!(
            markup,
            "<path class={class} d=\"{path}\"/><path class={class}-in d=\"{path}\"/>"
        ),
        Some(class) => write!(markup, "<path class={class} d=\"{path}\"/>"),
    };
    PreEscaped(markup)
}

/// The data of the path of each layer, empty if no machine is in it.
fn paths(machines: &[Square], columns: usize) -> [String; BUCKETS + STATES.len()] {
    let mut paths: [String; BUCKETS + STATES.len()] = Default::default();
    for (row, squares) in machines.chunks(columns).enumerate() {
        let mut column = 0;
        for run in squares.chunk_by(|a, b| a.layer() == b.layer()) {
            if let Some(first) = run.first() {
                let length = run.len();
                let _infallible = write!(paths[first.layer()], "M{column} {row}h{length}");
                column += length;
            }
        }
    }
    paths
}

/// The text alternative, such as `rack r7: 40 machines, 38 up, mean 61 % of CPU used, 2 down`.
fn label(rack: &Rack<'_>, measure: &str) -> String {
    let count = rack.machines.len();
    let plural = if count == 1 { "" } else { "s" };
    let used = rack.machines.iter().filter_map(|square| match square {
        Square::Up(used) => Some(*used),
        _ => None,
    });
    let up = used.clone().count();
    let mut label = format!("rack {}: {count} machine{plural}, {up} up", rack.name);
    let known: Vec<f64> = used.filter_map(super::finite).collect();
    if !known.is_empty() {
        let mean = known.iter().sum::<f64>() / known.len() as f64 * 100.0;
        let _infallible = write!(label, ", mean {mean:.0} % of {measure}");
    }
    for (state, (_, name)) in STATES.iter().enumerate() {
        let in_state = |square: &&Square| {
            !matches!(square, Square::Up(_)) && square.layer() == BUCKETS + state
        };
        let count = rack.machines.iter().filter(in_state).count();
        if count > 0 {
            let _infallible = write!(label, ", {count} {name}");
        }
    }
    label
}

/// The legend of the map: the buckets of a measure, such as `CPU used`, and the states.
#[must_use]
pub fn map_legend(measure: &str) -> Markup {
    let entry = |layer: usize| {
        html! {
            svg.rack width=(PITCH) height=(PITCH) viewBox="0 -.4444 1 1" aria-hidden="true" {
                (drawn(layer, "M0 0h1"))
            }
        }
    };
    html! {
        div.map-legend {
            span.map-measure { (measure) }
            ul.map-buckets {
                @for bucket in 0..BUCKETS {
                    li { (entry(bucket)) span { (10 * bucket) "–" (10 * bucket + 10) " %" } }
                }
            }
            ul.map-states {
                @for (state, (_, name)) in STATES.iter().enumerate() {
                    li { (entry(BUCKETS + state)) span { (name) } }
                }
            }
        }
    }
}

//! Charts as SVG: pure functions from values to markup.
//!
//! - For pages: time charts, sparklines, stacked bars and the map of a cell, with the little HTML around them.
//!   Colours, line widths and sizes are classes of [`STYLE`]: the content policy of the pages allows no inline
//!   style. Texts come ready from the caller, and so does the formatting of values, because only the caller
//!   knows units. A value that is not finite is a gap, so no chart contains a number that is not finite.
//! - For files: [`figure`], documents that need nothing else.
//!
//! Not here: which values are shown.

mod chart;
pub mod figure;
mod map;
mod points;
mod scale;
mod spark;
mod stack;
#[cfg(test)]
mod tests;

pub use chart::{Chart, Series, SeriesKind, chart};
pub use map::{Rack, Square, map_legend, racks};
pub use points::Point;
pub use scale::Unit;
pub use spark::spark;
pub use stack::{Bar, BarPart, Marker, Size, stack, stack_legend};

/// The style sheet of the charts for pages, with a light and a dark theme.
pub const STYLE: &str = include_str!("charts.css");

/// The largest value that is drawn: sums and products of a few such values are finite.
const VALUE_MAX: f64 = 1e30;

/// A value as it is drawn: at least 0, and none if it is not finite.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then(|| value.clamp(0.0, VALUE_MAX))
}

/// A coordinate: the nearest integer.
#[expect(clippy::cast_possible_truncation, reason = "coordinates are at most a few thousands")]
fn whole(value: f64) -> i32 {
    value.round() as i32
}

/// A length as a share of the whole, such as `12.5%`: at most two decimals.
fn percent(share: f64) -> String {
    let text = format!("{:.2}", share.clamp(0.0, 1.0) * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

//! Sparklines: the course of a value in a row of a table.

use maud::{Markup, html};

use super::finite;
use super::points::{Join, Point, path, thin};

/// Twice the width and the height in pixels that `charts.css` gives a sparkline, less the line.
const WIDTH: f64 = 192.0;
const HEIGHT: f64 = 40.0;

/// The most points that are drawn.
const POINTS_MAX: usize = 96;

/// A sparkline from the oldest value to the newest, at equal distances. The top is `top`, or the
/// maximum if that is more. `label` is the text alternative and what a hover shows.
#[must_use]
pub fn spark(label: &str, class: &str, values: &[Option<f64>], top: f64) -> Markup {
    let points: Vec<Point> = (0..).zip(values.iter().map(|value| value.and_then(finite))).collect();
    let known = || points.iter().filter_map(|&(_, value)| value);
    if known().next().is_none() {
        return html! { span.spark-empty title=(label) { "no data" } };
    }
    let top = known().fold(finite(top).unwrap_or(0.0), f64::max);
    let last = values.len().saturating_sub(1).max(1) as f64;
    let positions = thin(&points, POINTS_MAX).into_iter().map(|index| {
        let (at, value) = points[index];
        let share = if top > 0.0 { value? / top } else { 0.0 };
        value.map(|_| (at as f64 / last * WIDTH, (1.0 - share) * HEIGHT))
    });
    html! {
        svg class={ "spark " (class) } viewBox="-2 -2 196 44" preserveAspectRatio="none" role="img" {
            title { (label) }
            path.chart-line d=(path(positions, Join::Line)) {}
        }
    }
}

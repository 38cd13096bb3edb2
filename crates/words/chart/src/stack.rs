//! Stacked bars: parts of a capacity, next to each other.

use maud::{Markup, html};

use super::{finite, percent};

/// A part of a bar.
#[derive(Clone, Copy, Debug)]
pub struct BarPart<'a> {
    /// The class of its colour, such as `series-production`.
    pub class: &'a str,
    /// How much it is, in the unit of the capacity.
    pub value: f64,
    /// What it is and how much, such as `production 3.2 cores`.
    pub label: &'a str,
}

/// A place on a bar, such as a limit.
#[derive(Clone, Copy, Debug)]
pub struct Marker<'a> {
    /// The class of its colour, such as `series-limit`.
    pub class: &'a str,
    /// Where it is, in the unit of the capacity.
    pub value: f64,
    /// What it is and how much, such as `limit 8 cores`.
    pub label: &'a str,
}

/// How large a bar is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// For a row of a table.
    Compact,
    /// For a page of its own: with a legend.
    Large,
}

/// A bar: parts of a capacity.
#[derive(Clone, Copy, Debug)]
pub struct Bar<'a> {
    /// What is divided, such as `CPU`.
    pub name: &'a str,
    /// How much the whole bar is.
    pub capacity: f64,
    /// How much that is as text, such as `16 cores`.
    pub of: &'a str,
    /// From left to right.
    pub parts: &'a [BarPart<'a>],
    /// In any order.
    pub markers: &'a [Marker<'a>],
    /// How large it is.
    pub size: Size,
}

/// A stacked bar. What is beyond the capacity is cut off, and the end of the bar gets a mark of the
/// class `over`. The text alternative names all parts and markers.
#[must_use]
pub fn stack(bar: &Bar<'_>) -> Markup {
    let Some(capacity) = finite(bar.capacity).filter(|&capacity| capacity > 0.0) else {
        return html! { span.stack-empty { (bar.name) ": no capacity" } };
    };
    let mut sum = 0.0;
    let mut drawn = Vec::new();
    for part in bar.parts {
        let start: f64 = sum;
        sum += finite(part.value).unwrap_or(0.0) / capacity;
        let width = sum.min(1.0) - start.min(1.0);
        if width > 0.0 {
            drawn.push((part, start, width));
        }
    }
    // Sums of floating-point numbers may miss the capacity by a little.
    let over = sum > 1.0 + 1e-9;
    let markers: Vec<(&Marker<'_>, f64)> = bar
        .markers
        .iter()
        .filter_map(|marker| finite(marker.value).map(|value| (marker, value / capacity)))
        .collect();
    let summary = summary(bar, over);
    let large = bar.size == Size::Large;
    let bar_markup = html! {
        svg.stack.compact[!large].large[large] role="img" {
            title { (summary) }
            rect.stack-free width="100%" height="100%" {}
            @for (part, start, width) in &drawn {
                rect class={ "stack-part " (part.class) } x=(percent(*start)) width=(percent(*width))
                    height="100%" { title { (part.label) } }
            }
            @for (marker, at) in &markers {
                @let x = percent(*at);
                g class={ "stack-marker " (marker.class) } {
                    title { (marker.label) }
                    line.halo x1=(x) x2=(x) y1="-15%" y2="115%" {}
                    line class=[(*at > 1.0).then_some("over")] x1=(x) x2=(x) y1="-15%" y2="115%" {}
                }
            }
            @if over {
                line.over x1="100%" x2="100%" y1="-15%" y2="115%" {
                    title { "over the capacity of " (bar.of) }
                }
            }
        }
    };
    if !large {
        return bar_markup;
    }
    html! {
        figure.stack-figure {
            figcaption.chart-title {
                (bar.name) " " span.chart-note { "of " (bar.of) }
                @if over { " " strong.stack-warning { "over the capacity" } }
            }
            (bar_markup)
            ul.chart-legend {
                @for part in bar.parts {
                    li class=(part.class) { (swatch(false)) (part.label) }
                }
                @for marker in bar.markers {
                    li class=(marker.class) { (swatch(true)) (marker.label) }
                }
            }
        }
    }
}

/// What the colours of several bars mean: class and name of each part and of each marker.
#[must_use]
pub fn stack_legend(parts: &[(&str, &str)], markers: &[(&str, &str)]) -> Markup {
    html! {
        ul.chart-legend {
            @for (class, name) in parts { li class=(class) { (swatch(false)) (name) } }
            @for (class, name) in markers { li class=(class) { (swatch(true)) (name) } }
        }
    }
}

/// The text alternative of a bar.
fn summary(bar: &Bar<'_>, over: bool) -> String {
    let labels = bar.parts.iter().map(|part| part.label);
    let labels: Vec<&str> = labels.chain(bar.markers.iter().map(|marker| marker.label)).collect();
    let labels = if labels.is_empty() { "nothing".to_owned() } else { labels.join(", ") };
    let over = if over { "; over the capacity" } else { "" };
    format!("{}: {labels} of {}{over}", bar.name, bar.of)
}

/// What a part or a marker looks like, for a legend.
fn swatch(marker: bool) -> Markup {
    html! {
        svg.swatch viewBox="0 0 14 12" aria-hidden="true" {
            @if marker {
                path.swatch-marker d="M7 0v12" {}
            } @else {
                path.stack-part d="M1 1h12v10H1z" {}
            }
        }
    }
}

//! Tests of the charts: values in, markup out.

mod axes;
mod bars;
mod charts;
mod colours;
mod maps;
mod series;

/// A label that must be escaped wherever it appears.
const HOSTILE: &str = "<script>alert(1)</script>\"'&";

/// Checks what holds for all markup: numbers are finite, nothing is a script, and nothing has a style.
#[track_caller]
fn check(markup: &str) {
    for wrong in ["NaN", "inf", "<script", "style=", "<style"] {
        assert!(!markup.contains(wrong), "{wrong} in {markup}");
    }
}

//! The style sheet: contrasts, an even scale, and the same dark colours however they are chosen.

use std::collections::BTreeMap;

use super::super::STYLE as SHEET;

/// Backgrounds of the main style sheet.
const LIGHT: &str = "#ffffff";
const DARK: &str = "#14171b";

/// The custom properties of the blocks with colours: light, dark by preference, dark by choice.
fn themes() -> Vec<BTreeMap<&'static str, &'static str>> {
    let block = |text: &'static str| {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("--"));
        let pairs = lines.filter_map(|line| line.strip_suffix(';')?.split_once(": "));
        pairs.collect::<BTreeMap<_, _>>()
    };
    SHEET.split('}').map(block).filter(|block| !block.is_empty()).collect()
}

/// The relative luminance of a colour, from 0 to 1, as WCAG defines it.
fn luminance(colour: &str) -> f64 {
    let channel = |at: usize| {
        let value = u8::from_str_radix(&colour[at..at + 2], 16).expect("two hexadecimal digits");
        let share = f64::from(value) / 255.0;
        if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn both_ways_to_the_dark_theme_have_the_same_colours() {
    let themes = themes();
    assert_eq!(themes.len(), 3);
    assert_eq!(themes[1], themes[2]);
    assert!(themes[0].keys().eq(themes[1].keys()));
}

#[test]
fn colours_have_enough_contrast() {
    for (theme, background) in themes().iter().zip([LIGHT, DARK]) {
        for (name, colour) in theme {
            if name.starts_with("bucket-") || *name == "chart-track" {
                continue;
            }
            // The mark of too much is also a text.
            let least = if *name == "chart-over" { 4.5 } else { 3.0 };
            let contrast = contrast(colour, background);
            assert!(contrast >= least, "{name}: {contrast:.2} against {background}");
        }
    }
}

#[test]
fn buckets_are_evenly_far_from_each_other() {
    // The lightness as CIE defines it, which is nearly even for the eye.
    let lightness = |colour: &str| 116.0 * luminance(colour).cbrt() - 16.0;
    for (theme, background) in themes().iter().zip([LIGHT, DARK]) {
        let buckets: Vec<f64> =
            (0..10).map(|bucket| lightness(theme[&*format!("bucket-{bucket}")])).collect();
        let toward = if background == LIGHT { -1.0 } else { 1.0 };
        for (bucket, pair) in buckets.windows(2).enumerate() {
            let step = (pair[1] - pair[0]) * toward;
            assert!((4.0..=9.5).contains(&step), "{background}: {step:.1} after bucket {bucket}");
        }
    }
}

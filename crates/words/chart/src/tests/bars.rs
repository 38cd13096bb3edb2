//! Stacked bars.

use super::super::{Bar, BarPart, Marker, Size, stack};
use super::{HOSTILE, check};

fn bar(values: &[f64], markers: &[f64], capacity: f64, size: Size) -> String {
    let part = |&value: &f64| BarPart { class: "series-batch", value, label: "some" };
    let marker = |&value: &f64| Marker { class: "series-limit", value, label: "limit" };
    let parts: Vec<_> = values.iter().map(part).collect();
    let markers: Vec<_> = markers.iter().map(marker).collect();
    let (parts, markers) = (&*parts, &*markers);
    stack(&Bar { name: "CPU", capacity, of: "10 cores", parts, markers, size }).into_string()
}

/// The places and widths of the parts, and the places of the markers.
fn places(markup: &str) -> String {
    let attribute = |element: &str, name: &str| {
        let (_, rest) = element.split_once(&format!(" {name}=\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    let part = |element: &str| {
        let width = attribute(element, "width")?;
        Some(format!("{}+{width}", attribute(element, "x")?))
    };
    let parts = markup.split("<rect").filter_map(part);
    let over = |line: &str| line.starts_with(" class=\"over\"");
    let marker = |line: &str| {
        let mark = if over(line) { "!" } else { "" };
        Some(format!("{}{mark}", attribute(line, "x1")?))
    };
    let lines = markup.split("<line").filter(|line| !line.contains("halo"));
    parts.chain(lines.filter_map(marker)).collect::<Vec<_>>().join(" ")
}

#[test]
fn parts_follow_each_other_up_to_the_capacity() {
    let table: [(&[f64], &[f64], f64, &str); 10] = [
        (&[], &[], 10.0, ""),
        (&[2.5, 5.0], &[8.0], 10.0, "0%+25% 25%+50% 80%"),
        (&[1.0, 1.0], &[], 3.0, "0%+33.33% 33.33%+33.33%"),
        (&[0.1, 0.2, 0.7], &[], 1.0, "0%+10% 10%+20% 30%+70%"),
        (&[6.0, 6.0, 6.0], &[], 10.0, "0%+60% 60%+40% 100%!"),
        (&[20.0], &[5.0, 30.0], 10.0, "0%+100% 50% 100%! 100%!"),
        (&[5.0], &[30.0], 10.0, "0%+50% 100%!"),
        (&[f64::NAN, 5.0, f64::INFINITY, -3.0], &[f64::NAN], 10.0, "0%+50%"),
        (&[f64::MAX, f64::MAX], &[f64::MAX], f64::MIN_POSITIVE, "0%+100% 100%! 100%!"),
        (&[0.0], &[0.0], 10.0, "0%"),
    ];
    for (values, markers, capacity, expected) in table {
        for size in [Size::Compact, Size::Large] {
            let markup = bar(values, markers, capacity, size);
            check(&markup);
            assert_eq!(places(&markup), expected, "{values:?} of {capacity}: {markup}");
            let over = values.iter().filter(|value| value.is_finite()).sum::<f64>() > capacity;
            let said = markup.contains("over the capacity");
            assert_eq!(said, over, "{values:?} of {capacity}: {markup}");
        }
    }
}

#[test]
fn a_bar_has_a_text_alternative() {
    let compact = bar(&[2.0], &[8.0], 10.0, Size::Compact);
    let title = r#"role="img"><title>CPU: some, limit of 10 cores</title>"#;
    assert!(compact.starts_with(&format!(r#"<svg class="stack compact" {title}"#)), "{compact}");
    let large = bar(&[2.0], &[8.0], 10.0, Size::Large);
    assert!(large.contains(&format!(r#"<svg class="stack large" {title}"#)), "{large}");
    assert!(large.contains("<figcaption"), "{large}");
    let nothing = bar(&[], &[], 10.0, Size::Compact);
    assert!(nothing.contains("<title>CPU: nothing of 10 cores</title>"), "{nothing}");
    let over = bar(&[12.0], &[], 10.0, Size::Compact);
    assert!(over.contains("CPU: some of 10 cores; over the capacity</title>"), "{over}");
}

#[test]
fn a_bar_without_a_capacity_is_a_text() {
    for capacity in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let markup = bar(&[1.0], &[1.0], capacity, Size::Large);
        assert_eq!(markup, r#"<span class="stack-empty">CPU: no capacity</span>"#);
    }
}

#[test]
fn hostile_labels_are_escaped() {
    let parts = &[BarPart { class: HOSTILE, value: 1.0, label: HOSTILE }];
    let markers = &[Marker { class: HOSTILE, value: 1.0, label: HOSTILE }];
    for (size, capacity) in [(Size::Compact, 0.5), (Size::Large, 0.5), (Size::Large, 0.0)] {
        let (name, of) = (HOSTILE, HOSTILE);
        check(&stack(&Bar { name, capacity, of, parts, markers, size }).into_string());
    }
}

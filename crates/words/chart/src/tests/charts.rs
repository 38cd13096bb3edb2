//! Whole time charts and sparklines.

use super::super::{Chart, Point, Series, SeriesKind, Unit, chart, spark};
use super::{HOSTILE, check};

const MINUTE: u64 = 60_000_000;
/// 2026-03-09 09:00 UTC.
const NINE: u64 = (20_521 * 24 + 9) * 60 * MINUTE;
const KINDS: [SeriesKind; 4] =
    [SeriesKind::Area, SeriesKind::Line, SeriesKind::Step, SeriesKind::Limit];

fn cores(value: f64) -> String {
    format!("{value:.1} cores")
}

fn series<'a>(name: &'a str, kind: SeriesKind, points: &'a [Point]) -> Series<'a> {
    Series { name, kind, class: "series-usage", points }
}

fn hour(series: &[Series<'_>], stacked: bool) -> String {
    let (from, to) = (NINE, NINE + 60 * MINUTE);
    let (title, unit, format) = ("CPU", Unit::Decimal, &cores);
    chart(&Chart { title, from, to, top: 0.0, unit, format, stacked, series }).into_string()
}

#[test]
fn a_chart_says_what_it_shows() {
    let usage =
        [(NINE, Some(1.0)), (NINE + 30 * MINUTE, Some(3.5)), (NINE + 59 * MINUTE, Some(2.0))];
    let limit = [(0, Some(4.0))];
    let all = [
        series("usage", SeriesKind::Area, &usage),
        series("limit", SeriesKind::Limit, &limit),
        series("old", SeriesKind::Line, &[]),
    ];
    let markup = hour(&all, false);
    check(&markup);
    for expected in [
        r#"<svg class="chart-plot" role="img"><title>CPU, 09:00 to 10:00 UTC</title>"#,
        "<desc>usage: last 2.0 cores, maximum 3.5 cores. \
         limit: last 4.0 cores, maximum 4.0 cores. old: no data.</desc>",
        "usage <b>2.0 cores</b>",
        "old <b>no data</b>",
        ">4.0 cores</text>",
        ">09:15</text>",
        // The usage, and the limit at the top.
        r#"d="M0 375l1000-312 967 187""#,
        r#"class="chart-line chart-limit" d="M0 0h2000""#,
        "<title>09:30 UTC\nusage: 3.5 cores\nlimit: 4.0 cores</title>",
    ] {
        assert!(markup.contains(expected), "{expected} is not in {markup}");
    }
    assert!(!markup.contains("total"), "{markup}");
}

#[test]
fn stacked_areas_are_painted_from_the_highest_to_the_lowest() {
    let (one, two) = ([(NINE, Some(1.0))], [(NINE, Some(3.0))]);
    let (one, two) = (series("one", SeriesKind::Area, &one), series("two", SeriesKind::Area, &two));
    let other = Series { class: "series-batch", ..two };
    let markup = hour(&[one, other], true);
    check(&markup);
    let batch = markup.find(r#"<path class="chart-pile series-batch" d="M0 500V0V500z""#);
    let usage = markup.find(r#"<path class="chart-pile series-usage" d="M0 500V375V500z""#);
    assert!(batch.is_some() && batch < usage, "{markup}");
    assert!(markup.contains("one: 1.0 cores\ntwo: 3.0 cores\ntotal: 4.0 cores"), "{markup}");
}

#[test]
fn a_chart_without_values_says_so() {
    let never = [(NINE, None), (NINE + 1, Some(f64::NAN)), (NINE + 2, Some(f64::INFINITY))];
    let early = [(NINE - 1, Some(1.0))];
    for kind in KINDS {
        let early: &[Point] =
            if matches!(kind, SeriesKind::Area | SeriesKind::Line) { &early } else { &[] };
        for points in [&[], &never[..], early] {
            let markup = hour(&[series("usage", kind, points)], kind == SeriesKind::Area);
            check(&markup);
            assert!(markup.contains("No data for this time."), "{markup}");
        }
    }
    let points = [(NINE, Some(1.0))];
    for (from, to) in [(NINE, NINE), (NINE + 1, NINE - 1)] {
        let series = &[series("usage", SeriesKind::Line, &points)];
        let (title, unit, format) = ("CPU", Unit::Whole, &cores);
        let chart =
            chart(&Chart { title, from, to, top: 0.0, unit, format, stacked: false, series });
        assert!(chart.into_string().contains("No data"));
    }
}

#[test]
fn every_number_is_finite_whatever_the_values_are() {
    let values = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        -0.0,
        1e-300,
        1.0,
    ];
    for (first, second) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
        let points =
            [(NINE, Some(first)), (NINE + MINUTE, Some(second)), (NINE + 60 * MINUTE, None)];
        for kind in KINDS {
            let series = [series("a", kind, &points), series("b", kind, &points)];
            check(&hour(&series, false));
            check(&hour(&series, true));
        }
        check(&spark("x", "series-usage", &[Some(first), None, Some(second)], first).into_string());
    }
    for (from, to) in [(0, 1), (0, u64::MAX), (u64::MAX - 1, u64::MAX)] {
        let points = [(from, Some(1.0)), (to, Some(2.0))];
        for kind in KINDS {
            let series = &[series("usage", kind, &points)];
            let (title, unit, format) = ("CPU", Unit::Binary, &cores);
            let top = f64::NAN;
            let chart =
                chart(&Chart { title, from, to, top, unit, format, stacked: false, series });
            check(&chart.into_string());
        }
    }
}

#[test]
fn hostile_names_are_escaped() {
    let points = [(NINE, Some(1.0))];
    let hostile = Series { class: HOSTILE, ..series(HOSTILE, SeriesKind::Line, &points) };
    let (from, to) = (NINE, NINE + MINUTE);
    let format = |_: f64| HOSTILE.to_owned();
    let (title, unit, format) = (HOSTILE, Unit::Decimal, &format);
    let series = &[hostile];
    let chart = chart(&Chart { title, from, to, top: 0.0, unit, format, stacked: false, series });
    check(&chart.into_string());
    check(&spark(HOSTILE, HOSTILE, &[Some(1.0)], 0.0).into_string());
    check(&spark(HOSTILE, HOSTILE, &[], 0.0).into_string());
}

#[test]
fn charts_of_many_points_are_small() {
    // As uneven as can be, which makes the longest paths; with gaps everywhere, there is also a path
    // between every two.
    for (gaps, most) in [(u64::MAX, 19_000), (97, 24_000)] {
        let point = |index: u64| {
            let value = if index.is_multiple_of(3) { 0.0 } else { (index * 7919 % 1000) as f64 };
            (
                NINE + index * 60 * MINUTE / 20_000,
                Some(value).filter(|_| !index.is_multiple_of(gaps)),
            )
        };
        let points: Vec<Point> = (0..20_000).map(point).collect();
        for kind in KINDS {
            for count in [1, 3, 6] {
                for stacked in [false, true] {
                    let all = vec![series("memory of production tasks", kind, &points); count];
                    let size = hour(&all, stacked).len();
                    assert!(size < most, "{kind:?}, {count} series, {stacked}: {size} bytes");
                }
            }
        }
    }
}

#[test]
fn a_sparkline_is_one_path() {
    let table: [(&[Option<f64>], f64, &str); 5] = [
        (&[Some(1.0), Some(2.0)], 0.0, "M0 20l192-20"),
        (&[Some(1.0), Some(2.0)], 4.0, "M0 30l192-10"),
        (&[Some(1.0), None, Some(1.0)], 2.0, "M0 20h0M192 20h0"),
        (&[Some(0.0), Some(0.0)], 0.0, "M0 40l192 0"),
        (&[Some(2.0)], 0.0, "M0 0h0"),
    ];
    for (values, top, expected) in table {
        let markup = spark("CPU of r7", "series-usage", values, top).into_string();
        check(&markup);
        assert!(
            markup.contains(&format!(
                "<title>CPU of r7</title><path class=\"chart-line\" d=\"{expected}\""
            )),
            "{markup}"
        );
    }
    let many: Vec<Option<f64>> = (0..10_000).map(|index| Some(f64::from(index % 10))).collect();
    assert!(spark("x", "y", &many, 0.0).into_string().len() < 1200);
    assert!(spark("x", "y", &[None], 0.0).into_string().contains("no data"));
}

//! What of a series is drawn, and its paths.

use super::super::points::{Join, Point, clip, path, pile, thin, value_at};

const N: Option<f64> = None;

fn some(value: f64) -> Option<f64> {
    Some(value)
}

#[test]
fn points_are_clipped_to_the_chart() {
    let points = [(30, some(3.0)), (10, some(1.0)), (20, some(f64::NAN)), (40, some(-4.0))];
    let table: [(u64, u64, bool, &[Point]); 7] = [
        (10, 40, false, &[(10, some(1.0)), (20, N), (30, some(3.0)), (40, some(0.0))]),
        (15, 35, false, &[(20, N), (30, some(3.0))]),
        (15, 35, true, &[(15, some(1.0)), (20, N), (30, some(3.0)), (35, some(3.0))]),
        (25, 35, true, &[(25, N), (30, some(3.0)), (35, some(3.0))]),
        (50, 60, true, &[(50, some(0.0)), (60, some(0.0))]),
        (50, 60, false, &[]),
        (0, 5, true, &[]),
    ];
    for (from, to, holds, expected) in table {
        assert_eq!(clip(&points, from, to, holds), expected, "{from} {to} {holds}");
    }
}

#[test]
fn a_value_counts_until_the_next() {
    let points = [(10, some(1.0)), (20, N), (30, some(3.0))];
    let table = [(9, 0, N), (10, 0, some(1.0)), (19, 0, some(1.0)), (25, 0, N), (30, 0, some(3.0))];
    for (at, slack, expected) in table.into_iter().chain([(31, 0, N), (31, 1, some(3.0))]) {
        assert_eq!(value_at(&points, at, slack), expected, "{at} {slack}");
    }
}

#[test]
fn thinning_keeps_extremes_gaps_and_ends() {
    let mut points: Vec<Point> =
        (0..10_000).map(|at| (at, some(5.0 + (at % 7) as f64 / 10.0))).collect();
    points[1234].1 = some(99.0);
    points[1235].1 = some(0.25);
    for gap in [None, Some(7000..7100)] {
        for index in gap.clone().into_iter().flatten() {
            points[index].1 = N;
        }
        for most in [2, 40, 400] {
            let kept = thin(&points, most);
            assert!(kept.len() <= most.max(5), "{most}: {}", kept.len());
            assert!(kept.is_sorted_by(|a, b| a < b), "{most}");
            for index in [0, 1234, 1235, 9999] {
                assert!(kept.contains(&index), "{most}: {index}");
            }
            let has_gap = kept.iter().any(|&index| points[index].1.is_none());
            assert_eq!(has_gap, gap.is_some(), "{most}");
        }
    }
    assert_eq!(thin(&points[..3], 3), [0, 1, 2]);
    assert!(thin(&[], 3).is_empty());
    let same_time = vec![(u64::MAX, some(1.0)); 10];
    assert_eq!(thin(&same_time, 4), [0, 9]);
}

#[test]
fn series_are_piled_at_all_their_times() {
    let below = [(0, some(1.0)), (10, some(2.0)), (20, N), (30, some(4.0))];
    let above = [(5, some(10.0)), (20, N), (30, some(30.0)), (40, some(40.0))];
    let piles = pile(&[&below, &above], 100);
    let times = [0, 5, 10, 20, 30, 40];
    let expected = [
        [some(1.0), some(1.0), some(2.0), N, some(4.0), some(0.0)],
        [some(1.0), some(11.0), some(12.0), N, some(34.0), some(40.0)],
    ];
    for (pile, values) in piles.iter().zip(expected) {
        assert_eq!(*pile, times.into_iter().zip(values).collect::<Vec<_>>());
    }
    assert!(pile(&[], 100).is_empty());
}

#[test]
fn paths_are_relative_and_break_at_gaps() {
    let dot = [some(1.0)];
    let two = [some(1.0), some(3.0), some(2.0)];
    let gap = [some(1.0), some(3.0), N, N, some(2.0), N, some(4.0), some(4.0)];
    let table: [(&[Option<f64>], Join, &str); 10] = [
        (&[], Join::Line, ""),
        (&[N, N], Join::Area(9), ""),
        (&dot, Join::Line, "M0 1h0"),
        (&dot, Join::Dots, "M0 1h0"),
        (&two, Join::Line, "M0 1l10 2 10-1"),
        (&two, Join::Step, "M0 1h10v2h10v-1"),
        (&two, Join::Area(9), "M0 9V1l10 2 10-1V9z"),
        (&gap, Join::Line, "M0 1l10 2M40 2h0M60 4l10 0"),
        (&gap, Join::Dots, "M40 2h0"),
        (&[some(1.0), some(1.0), some(1.0), some(2.0)], Join::Step, "M0 1h30v1"),
    ];
    for (values, join, expected) in table {
        let places = (0..).zip(values).map(|(x, y)| y.map(|y| (f64::from(x * 10), y)));
        assert_eq!(path(places, join), expected);
    }
}

//! Ticks of values and of time.

use super::super::scale::{Unit, day, moments, ticks};

const HOUR: u64 = 3_600_000_000;
const DAY: u64 = 24 * HOUR;
/// 2026-03-09 00:00 UTC.
const MONDAY: u64 = 20_521 * DAY;

#[test]
fn ticks_of_values_are_nice() {
    let table: [(f64, Unit, &[f64]); 16] = [
        (0.0, Unit::Decimal, &[0.0, 0.5, 1.0]),
        (1.0, Unit::Decimal, &[0.0, 0.5, 1.0]),
        (0.3, Unit::Decimal, &[0.0, 0.1, 0.2, 0.3]),
        (0.000_7, Unit::Decimal, &[0.0, 0.000_2, 0.000_4, 0.000_6, 0.000_8]),
        (3.1, Unit::Decimal, &[0.0, 1.0, 2.0, 3.0, 4.0]),
        (4.0, Unit::Decimal, &[0.0, 1.0, 2.0, 3.0, 4.0]),
        (4.1, Unit::Decimal, &[0.0, 2.0, 4.0, 6.0]),
        (97.0, Unit::Decimal, &[0.0, 50.0, 100.0]),
        (12_600.0, Unit::Decimal, &[0.0, 5000.0, 10_000.0, 15_000.0]),
        (0.0, Unit::Whole, &[0.0, 1.0]),
        (1.0, Unit::Whole, &[0.0, 1.0]),
        (3.0, Unit::Whole, &[0.0, 1.0, 2.0, 3.0]),
        (7.0, Unit::Whole, &[0.0, 2.0, 4.0, 6.0, 8.0]),
        (0.0, Unit::Binary, &[0.0, 256.0, 512.0, 768.0, 1024.0]),
        (3.0, Unit::Binary, &[0.0, 1.0, 2.0, 3.0]),
        (5e9, Unit::Binary, &[0.0, 2_147_483_648.0, 4_294_967_296.0, 6_442_450_944.0]),
    ];
    for (most, unit, expected) in table {
        assert_eq!(ticks(most, unit), expected, "{most} {unit:?}");
    }
}

#[test]
fn an_axis_of_values_has_three_to_five_ticks() {
    for unit in [Unit::Decimal, Unit::Binary] {
        for exponent in -60..=300 {
            let most = 1.26_f64.powi(exponent).min(1e30);
            // The shortest distance of two bytes is one.
            if unit == Unit::Binary && most <= 4.0 {
                continue;
            }
            let ticks = ticks(most, unit);
            assert!((3..=5).contains(&ticks.len()), "{most} {unit:?}: {ticks:?}");
            let top = ticks[ticks.len() - 1];
            assert!(top >= most * (1.0 - 1e-8) && top.is_finite(), "{most} {unit:?}: {ticks:?}");
        }
    }
}

#[test]
fn ticks_of_time_are_nice_in_utc() {
    // Labels of minor ticks are in brackets.
    let table = [
        (MONDAY + 9 * HOUR, HOUR, "09:00 09:15 09:30 09:45 10:00"),
        (MONDAY + 9 * HOUR, 3 * HOUR, "09:00 [09:30] 10:00 [10:30] 11:00 [11:30] 12:00"),
        (
            MONDAY - 2 * HOUR,
            4 * HOUR,
            "22:00 [22:30] 23:00 [23:30] 9 Mar [00:30] 01:00 [01:30] 02:00",
        ),
        (MONDAY, 4_000_000, "00:00:00 [00:00:01] 00:00:02 [00:00:03] 00:00:04"),
        (MONDAY + 1, 14 * DAY, "11 Mar 14 Mar 17 Mar 20 Mar 23 Mar"),
        (MONDAY - 31 * DAY / 2, 7 * DAY, "22 Feb [23 Feb] 24 Feb [25 Feb] 26 Feb [27 Feb] 28 Feb"),
        (0, HOUR, "00:00 00:10 00:20 00:30 00:40 00:50 01:00"),
    ];
    for (from, length, expected) in table {
        let labels = moments(from, from + length)
            .into_iter()
            .map(|tick| if tick.minor { format!("[{}]", tick.label) } else { tick.label });
        let labels = labels.collect::<Vec<_>>().join(" ");
        assert_eq!(labels, expected, "{from} {length}");
    }
}

#[test]
fn an_axis_of_time_has_few_ticks() {
    for exponent in 0..64 {
        let length = 1_u64 << exponent;
        for from in [0, 1, MONDAY, MONDAY + 12_345_678_901] {
            let to = from.saturating_add(length);
            let ticks = moments(from, to);
            let major = ticks.iter().filter(|tick| !tick.minor).count();
            assert!(major <= 7 && ticks.len() <= 11, "{from} {length}: {ticks:?}");
            assert!(ticks.iter().all(|tick| (from..=to).contains(&tick.at)), "{from} {length}");
            assert!(length < 2_000_000 || major >= 1, "{from} {length}");
        }
    }
}

#[test]
fn days_have_the_names_of_the_calendar() {
    let table = [
        (0, "1 Jan"),
        (58, "28 Feb"),
        (59, "1 Mar"),
        (364, "31 Dec"),
        (789, "29 Feb"),
        (790, "1 Mar"),
        (11_016, "29 Feb"),
        (20_521, "9 Mar"),
    ];
    for (days, expected) in table {
        assert_eq!(day(days * DAY), expected, "{days}");
    }
}

//! The map of a cell.

use super::super::map::{bucket, columns};
use super::super::{Rack, Square, map_legend, racks};
use super::{HOSTILE, check};

fn rack(machines: &[Square]) -> String {
    let rack = Rack { id: "rack-r7", name: "r7", href: "/racks/r7", machines };
    let mut racks = racks(&[rack], "CPU");
    let (id, markup) = racks.pop().expect("one rack in, one out");
    assert_eq!((id.as_str(), racks.len()), ("rack-r7", 0));
    markup.into_string()
}

#[test]
fn shares_are_in_ten_buckets() {
    let table = [
        (-1.0, Some(0)),
        (0.0, Some(0)),
        (0.099, Some(0)),
        (0.1, Some(1)),
        (0.3, Some(3)),
        (0.7, Some(7)),
        (0.1 + 0.2, Some(3)),
        (0.999, Some(9)),
        (1.0, Some(9)),
        (7.0, Some(9)),
        (f64::MAX, Some(9)),
        (f64::NAN, None),
        (f64::INFINITY, None),
    ];
    for (used, expected) in table {
        assert_eq!(bucket(used), expected, "{used}");
    }
}

#[test]
fn racks_are_about_four_wide_and_three_high() {
    let table = [(0, 1), (1, 1), (2, 2), (12, 4), (40, 7), (48, 8), (100, 12), (1200, 40)];
    for (machines, expected) in table {
        assert_eq!(columns(machines), expected, "{machines}");
    }
}

#[test]
fn a_rack_has_a_path_for_each_bucket_and_state() {
    let up = Square::Up;
    let machines = [
        [up(0.61), up(0.65), up(0.05), Square::Down],
        [Square::Drained, Square::Unreachable, Square::Unknown, up(f64::NAN)],
        [up(1.0), up(0.95), up(0.99), up(2.0)],
    ];
    assert_eq!(
        rack(machines.as_flattened()),
        "<a href=\"/racks/r7\"><svg class=\"rack\" id=\"rack-r7\" data-rack=\"r7\" \
         data-columns=\"4\" width=\"36\" height=\"27\" viewBox=\"0 -.4444 4 3\" role=\"img\" \
         aria-label=\"rack r7: 12 machines, 8 up, mean 89 % of CPU, 1 down, 1 drained, \
         1 unreachable, 1 unknown\">\
         <path class=b0 d=\"M2 0h1\"/>\
         <path class=b6 d=\"M0 0h2\"/>\
         <path class=b9 d=\"M0 2h4\"/>\
         <path class=down d=\"M3 0h1\"/><path class=down-in d=\"M3 0h1\"/>\
         <path class=drained d=\"M0 1h1\"/>\
         <path class=unreachable d=\"M1 1h1\"/><path class=unreachable-in d=\"M1 1h1\"/>\
         <path class=unknown d=\"M2 1h2\"/>\
         </svg><span aria-hidden=\"true\">r7</span></a>"
    );
}

#[test]
fn the_text_of_a_rack_counts_its_machines() {
    let table: [(&[Square], &str); 4] = [
        (&[], "rack r7: 0 machines, 0 up"),
        (&[Square::Up(0.255)], "rack r7: 1 machine, 1 up, mean 26 % of CPU"),
        (&[Square::Up(f64::NAN)], "rack r7: 1 machine, 1 up"),
        (&[Square::Down, Square::Up(0.5)], "rack r7: 2 machines, 1 up, mean 50 % of CPU, 1 down"),
    ];
    for (machines, expected) in table {
        let markup = rack(machines);
        check(&markup);
        assert!(markup.contains(&format!("aria-label=\"{expected}\"")), "{markup}");
    }
}

#[test]
fn a_large_cell_is_a_small_page() {
    const RACKS: usize = 320;
    const MACHINES: usize = 12_600;
    // No two neighbours look the same, which makes the longest paths; then a cell that lost its racks.
    let uneven = |index: usize| match index * 7919 % 101 {
        0 => Square::Down,
        1 => Square::Drained,
        2 => Square::Unreachable,
        _ => Square::Up((index * 3 % 10) as f64 / 10.0 + 0.05),
    };
    let lost = |_: usize| Square::Unreachable;
    let cells: [(&dyn Fn(usize) -> Square, usize); 2] = [(&uneven, 250_000), (&lost, 125_000)];
    for (square, most) in cells {
        let machines: Vec<Square> = (0..MACHINES).map(square).collect();
        let ids: Vec<String> = (0..RACKS).map(|rack| format!("rack-r{rack}")).collect();
        let all: Vec<Rack<'_>> = machines
            .chunks(MACHINES.div_ceil(RACKS))
            .zip(&ids)
            .map(|(machines, id)| Rack { id, name: &id[5..], href: "/racks/r100", machines })
            .collect();
        let size: usize = racks(&all, "CPU").iter().map(|(_, markup)| markup.0.len()).sum();
        assert!(size < most, "{size} bytes");
    }
}

#[test]
fn the_legend_names_buckets_and_states() {
    let legend = map_legend("CPU").into_string();
    check(&legend);
    for expected in ["0–10 %", "90–100 %", "down", "drained", "unreachable", "unknown"] {
        assert!(legend.contains(&format!("<span>{expected}</span>")), "{expected}: {legend}");
    }
}

#[test]
fn hostile_names_are_escaped() {
    let machines = &[Square::Up(0.5)];
    let rack = Rack { id: HOSTILE, name: HOSTILE, href: HOSTILE, machines };
    for (_, markup) in racks(&[rack], HOSTILE) {
        check(&markup.into_string());
    }
    check(&map_legend(HOSTILE).into_string());
}

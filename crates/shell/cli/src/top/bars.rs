//! The totals of the cell as lines with bars.

use api::v1;
use present::amount::{self, bytes, cpu, percent};

use super::table::width;

/// The maximum length of a bar.
const BAR_MAX: u16 = 40;
/// The width of the name of a resource, and of what is measured of it.
const NAMES: usize = 13;
/// The width of an amount and its share.
const AMOUNTS: u16 = 21;

/// A resource of the cell: capacity, limits, reservations, usage.
struct Resource {
    name: &'static str,
    show: fn(Option<i64>) -> String,
    capacity: Option<i64>,
    limit: Option<i64>,
    reserved: Option<i64>,
    used: Option<i64>,
}

/// The number of lines of [`full`].
pub(super) const FULL: u16 = 12;
/// The number of lines of [`short`].
pub(super) const SHORT: u16 = 3;

fn resources(cell: &v1::CellUsage) -> [Resource; 3] {
    let tasks = cell.tasks.as_ref();
    let used = cell.used.unwrap_or_default();
    let resource = |name, show, of: fn(&v1::Resources) -> i64, used| Resource {
        name,
        show,
        capacity: cell.capacity.as_ref().map(of),
        limit: tasks.and_then(|tasks| tasks.limit.as_ref()).map(of),
        reserved: tasks.and_then(|tasks| tasks.reservation.as_ref()).map(of),
        used,
    };
    [
        resource("CPU", cpu, |all| all.cpu_milli, used.cpu_milli),
        resource("RAM", bytes, |all| all.ram_bytes, used.memory_bytes),
        resource("disk", bytes, |all| all.disk_bytes, used.disk_bytes),
    ]
}

/// Capacity, limits, reservations and usage of each resource, a line each.
pub(super) fn full(cell: &v1::CellUsage, room: u16) -> Vec<String> {
    let mut lines = Vec::new();
    for resource in resources(cell) {
        let Resource { name, show, capacity, limit, reserved, used } = resource;
        lines.push(format!("{:NAMES$} {}", format!("{name} capacity"), show(capacity)));
        for (what, part) in [("limits", limit), ("reservations", reserved), ("usage", used)] {
            lines.push(line(what, part, capacity, show, room));
        }
    }
    lines
}

/// The usage of each resource, a line each.
pub(super) fn short(cell: &v1::CellUsage, room: u16) -> Vec<String> {
    let line = |resource: Resource| {
        let Resource { name, show, capacity, used, .. } = resource;
        line(name, used, capacity, show, room)
    };
    resources(cell).into_iter().map(line).collect()
}

/// For example ` usage        ████████░░░░░░░░  6.2         52 %`. Without room for a bar: the
/// numbers alone.
fn line(
    what: &str,
    part: Option<i64>,
    whole: Option<i64>,
    show: fn(Option<i64>) -> String,
    room: u16,
) -> String {
    let share = amount::share(part, whole);
    let names = u16::try_from(NAMES).unwrap_or_default() + 1;
    let bar = room.saturating_sub(names + 1 + AMOUNTS).min(BAR_MAX);
    let amount = format!("{:12} {}", show(part), percent(share));
    match bar {
        0..5 => format!("{what:6} {amount}"),
        _ => format!(" {what:12} {} {amount}", drawn(share, bar)),
    }
}

/// A bar that is full at 1,000 thousandths; blank if the share is not known.
fn drawn(share: Option<i64>, length: u16) -> String {
    let Some(share) = share else { return " ".repeat(length.into()) };
    let full = i128::from(share) * i128::from(length) / 1_000;
    let full = usize::try_from(full).unwrap_or(usize::MAX).min(length.into());
    let bar = "█".repeat(full) + &"░".repeat(usize::from(length) - full);
    debug_assert_eq!(width(&bar), length);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        for (share, length, expected) in [
            (None, 4, "    "),
            (Some(0), 4, "░░░░"),
            (Some(249), 4, "░░░░"),
            (Some(250), 4, "█░░░"),
            (Some(1_000), 4, "████"),
            (Some(i64::MAX), 4, "████"),
            (Some(500), 0, ""),
        ] {
            assert_eq!(drawn(share, length), expected, "{share:?}");
        }
    }

    #[test]
    fn lines_shrink_with_their_room() {
        let used = |room| line("usage", Some(500), Some(2_000), cpu, room);
        assert_eq!(
            used(47),
            format!(" usage        {}{} 0.5          25 %", "█".repeat(2), "░".repeat(9))
        );
        assert_eq!(used(39), "usage  0.5          25 %");
        assert_eq!(line("usage", None, None, cpu, 10), "usage  -            -");
    }
}

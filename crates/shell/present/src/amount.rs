//! Amounts with their units. What was not measured is `-`, never 0.

use api::v1;
use model::{Bytes, Dimension, Permille, Resources};

/// Stands for a value that was not measured.
pub const UNMEASURED: &str = "-";

/// The text of an amount; [`UNMEASURED`] if it is absent, or negative, which nothing measured is.
fn shown(amount: Option<i64>, show: impl Fn(u64) -> String) -> String {
    let amount = amount.and_then(|amount| u64::try_from(amount).ok());
    amount.map_or_else(|| UNMEASURED.to_owned(), show)
}

/// Cores, without a unit: `0.25`.
#[must_use]
pub fn cpu(milli: Option<i64>) -> String {
    shown(milli, |milli| Dimension::Cpu.write(milli))
}

/// `0.3 cores, 192 MiB`: the CPU and memory of an amount; [`UNMEASURED`] if it is absent, or no amount.
#[must_use]
pub fn cpu_and_ram(amount: Option<&v1::Resources>) -> String {
    let amount = amount.and_then(|amount| Resources::try_from(*amount).ok());
    amount.map_or_else(|| UNMEASURED.to_owned(), |all| format!("{}, {}", all.cpu, all.ram))
}

/// `64 MiB`
#[must_use]
pub fn bytes(bytes: Option<i64>) -> String {
    shown(bytes, |bytes| Bytes(bytes).to_string())
}

/// `1.5 MiB/s`
#[must_use]
pub fn rate(bytes: Option<i64>) -> String {
    shown(bytes, |bytes| Dimension::DiskRate.show(bytes))
}

/// `12.3 %`
#[must_use]
pub fn permille(share: Option<u32>) -> String {
    let share = share.map(|share| Permille::at_most_whole(share.into()));
    share.map_or_else(|| UNMEASURED.to_owned(), |share| share.to_string())
}

/// A part of a whole in thousandths; more than 1,000 if it is larger. Absent if either is, or if the whole
/// is nothing.
#[must_use]
pub fn share(part: Option<i64>, whole: Option<i64>) -> Option<i64> {
    let (part, whole) = (part.filter(|part| *part >= 0)?, whole.filter(|whole| *whole > 0)?);
    let share = i128::from(part) * 1_000 / i128::from(whole);
    Some(i64::try_from(share).unwrap_or(i64::MAX))
}

/// A share in thousandths in per cent, with a decimal below 10: `2.5 %`, `84 %`, `120 %`.
#[must_use]
pub fn percent(share: Option<impl Into<i64>>) -> String {
    shown(share.map(Into::into), |share| match (share / 10, share % 10) {
        (whole @ 0..10, tenth @ 1..) => format!("{whole}.{tenth} %"),
        (whole, _) => format!("{whole} %"),
    })
}

/// The pressures that were measured: `cpu 0.5 %, io 12 %`; [`UNMEASURED`] if none was.
#[must_use]
pub fn pressure(measured: &v1::Measured) -> String {
    let each = [
        ("cpu", measured.cpu_pressure_permille),
        ("memory", measured.memory_pressure_permille),
        ("io", measured.io_pressure_permille),
    ];
    let there = each.into_iter().filter(|(_, share)| share.is_some());
    let there: Vec<String> =
        there.map(|(name, share)| format!("{name} {}", permille(share))).collect();
    if there.is_empty() { UNMEASURED.to_owned() } else { there.join(", ") }
}

/// The sum of what is there; absent if nothing is.
#[must_use]
pub fn sum(amounts: impl IntoIterator<Item = Option<i64>>) -> Option<i64> {
    let there = amounts.into_iter().flatten().filter(|amount| *amount >= 0);
    there
        .fold(None, |sum: Option<i64>, amount| Some(sum.unwrap_or_default().saturating_add(amount)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: v1::Resources =
        v1::Resources { cpu_milli: 1_000, ram_bytes: 64 << 20, disk_bytes: 0, disk_rate_bytes: 0 };

    #[test]
    fn what_was_not_measured_is_not_zero() {
        for (shown, expected) in [
            (cpu(None), "-"),
            (cpu(Some(0)), "0"),
            (cpu(Some(-1)), "-"),
            (cpu(Some(250)), "0.25"),
            (cpu(Some(12_000)), "12"),
            (cpu_and_ram(None), "-"),
            (cpu_and_ram(Some(&v1::Resources { ram_bytes: -1, ..ONE })), "-"),
            (cpu_and_ram(Some(&ONE)), "1 core, 64 MiB"),
            (percent(None::<u32>), "-"),
            (percent(Some(25_u32)), "2.5 %"),
            (bytes(None), "-"),
            (bytes(Some(0)), "0 B"),
            (bytes(Some(96 << 19)), "48 MiB"),
            (rate(Some(3 << 19)), "1.5 MiB/s"),
            (permille(None), "-"),
            (permille(Some(0)), "0 %"),
            (permille(Some(123)), "12.3 %"),
            (permille(Some(u32::MAX)), "100 %"),
        ] {
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn shares_are_of_a_limit_and_may_exceed_it() {
        for (used, limit, expected) in [
            (None, Some(1_000), "-"),
            (Some(1), None, "-"),
            (Some(1), Some(0), "-"),
            (Some(-1), Some(1_000), "-"),
            (Some(0), Some(1_000), "0 %"),
            (Some(25), Some(1_000), "2.5 %"),
            (Some(50), Some(1_000), "5 %"),
            (Some(845), Some(1_000), "84 %"),
            (Some(1_200), Some(1_000), "120 %"),
            (Some(i64::MAX), Some(1), "922337203685477580 %"),
        ] {
            assert_eq!(percent(share(used, limit)), expected, "{used:?} of {limit:?}");
        }
    }

    #[test]
    fn pressure_is_shown_where_it_was_measured() {
        let of = |cpu, memory, io| {
            pressure(&v1::Measured {
                cpu_pressure_permille: cpu,
                memory_pressure_permille: memory,
                io_pressure_permille: io,
                ..v1::Measured::default()
            })
        };
        assert_eq!(of(None, None, None), "-");
        assert_eq!(of(Some(5), None, Some(120)), "cpu 0.5 %, io 12 %");
        assert_eq!(of(Some(0), Some(0), Some(0)), "cpu 0 %, memory 0 %, io 0 %");
    }

    #[test]
    fn a_sum_is_of_what_is_there() {
        assert_eq!(sum([]), None);
        assert_eq!(sum([None, None]), None);
        assert_eq!(sum([Some(1), None, Some(2)]), Some(3));
        assert_eq!(sum([Some(i64::MAX), Some(2), Some(-9)]), Some(i64::MAX));
    }
}

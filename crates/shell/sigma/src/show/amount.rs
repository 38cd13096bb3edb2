//! Amounts with their units. What was not measured is `–`, never 0.

use model::{Bytes, Dimension, Resources};
use proto::v1;

/// Stands for a value that was not measured.
pub(crate) const UNMEASURED: &str = "–";

fn shown(amount: Option<i64>, show: impl Fn(u64) -> String) -> String {
    let amount = amount.and_then(|amount| u64::try_from(amount).ok());
    amount.map_or_else(|| UNMEASURED.to_owned(), show)
}

/// `0.25`, in cores.
pub(crate) fn cores(milli: Option<i64>) -> String {
    shown(milli, |milli| Dimension::Cpu.write(milli))
}

/// `64 MiB`
pub(crate) fn bytes(bytes: Option<i64>) -> String {
    shown(bytes, |bytes| Bytes(bytes).to_string())
}

/// `1.5 MiB/s`
pub(crate) fn rate(bytes: Option<i64>) -> String {
    shown(bytes, |bytes| Dimension::DiskRate.show(bytes))
}

/// `0.3 cores, 192 MiB`: the CPU and memory of an amount.
pub(crate) fn memory(amount: Option<&v1::Resources>) -> String {
    let Some(amount) = amount else { return UNMEASURED.to_owned() };
    let all: Result<Resources, _> = (*amount).try_into();
    match all {
        Ok(all) => {
            let cpu = Dimension::Cpu.write(all.cpu.0);
            let unit = if cpu == "1" { "core" } else { "cores" };
            format!("{cpu} {unit}, {}", all.ram)
        }
        Err(_) => UNMEASURED.to_owned(),
    }
}

/// A part of a whole, in thousandths; more than 1,000 if it is larger. None if the whole is nothing.
pub(crate) fn share(part: Option<i64>, whole: Option<i64>) -> Option<u32> {
    let (part, whole) = (part.filter(|part| *part >= 0)?, whole.filter(|whole| *whole > 0)?);
    let share = i128::from(part) * 1_000 / i128::from(whole);
    Some(u32::try_from(share).unwrap_or(u32::MAX))
}

/// Such a part in per cent: `2.5 %`, `84 %`, `120 %`.
pub(crate) fn percent(share: Option<u32>) -> String {
    shown(share.map(i64::from), |share| match (share / 10, share % 10) {
        (whole @ 0..10, tenth @ 1..) => format!("{whole}.{tenth} %"),
        (whole, _) => format!("{whole} %"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_not_zero() {
        for (shown, expected) in [
            (cores(None), "–"),
            (cores(Some(0)), "0"),
            (cores(Some(-1)), "–"),
            (cores(Some(250)), "0.25"),
            (bytes(Some(64 << 20)), "64 MiB"),
            (percent(None), "–"),
            (percent(share(Some(1), Some(40))), "2.5 %"),
            (percent(share(Some(84), Some(100))), "84 %"),
            (percent(share(Some(120), Some(100))), "120 %"),
            (percent(share(Some(1), Some(0))), "–"),
            (percent(share(Some(i64::MAX), Some(1))), "429496729 %"),
        ] {
            assert_eq!(shown, expected);
        }
    }
}

//! The kernel's choice when the machine runs out of memory faster than the Borglet acts: its order, and
//! what is said of it.

use model::{Band, Bytes, Priority};

/// Whom the kernel kills first if the machine runs out of memory faster than the Borglet acts: the lowest
/// band first, and in it those that may use slack memory.
pub(super) fn score_adj(priority: Priority, slack: bool) -> u16 {
    let of_band = match priority.band() {
        Band::Free => 900,
        Band::BestEffortBatch => 700,
        Band::Mid => 500,
        Band::Production => 200,
        Band::Monitoring => 100,
    };
    of_band + if slack { 50 } else { 0 }
}

/// Why a task ended that the kernel killed although its own limit was not reached.
pub(super) fn killed_by_kernel(limit_bytes: u64, peak_bytes: u64) -> String {
    let peak = Bytes(peak_bytes);
    let limit = match limit_bytes >= 1 << 62 {
        true => "it has no limit of its own".to_owned(),
        false => format!("its limit is {}", Bytes(limit_bytes)),
    };
    format!(
        "it used {peak} at most, {limit}; the machine had no memory left, and the kernel chose it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_kills_in_the_order_of_bands() {
        let order = |slack| Band::ALL.map(|band| score_adj(band.usual(), slack));
        assert_eq!(order(false), [900, 700, 500, 200, 100]);
        assert_eq!(order(true), [950, 750, 550, 250, 150]);
    }

    #[test]
    fn a_kill_by_the_kernel_is_explained_with_numbers() {
        let end = "; the machine had no memory left, and the kernel chose it";
        let table = [
            (64 << 20, "it used 10 MiB at most, its limit is 64 MiB"),
            (u64::MAX, "it used 10 MiB at most, it has no limit of its own"),
        ];
        for (limit, expected) in table {
            assert_eq!(killed_by_kernel(limit, 10 << 20), format!("{expected}{end}"));
        }
    }
}

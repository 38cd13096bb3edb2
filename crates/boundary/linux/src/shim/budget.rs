//! What a shim may use of the CPUs to write a task's output, which is not the task's time to the kernel: a small
//! part of the task's own limit. Beyond it the output is left in its pipe, so that a task that writes
//! without end waits, as it would for a slow disk.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// The part of the task's CPU limit, and the least, in thousandths of a core.
const PART: u64 = 8;
const MILLI_MIN: u64 = 5;
/// What may be used at once after a pause: a start, or an error, has much to say.
const BURST: Duration = Duration::from_millis(200);
/// Output is left alone for at least so long, so that much is read at once then.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest that it is left alone before the time is looked at again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A part of the CPUs, by the time that this process used.
#[derive(Debug)]
pub(super) struct CpuBudget {
    /// Thousandths of a core.
    milli: u64,
    /// When it was looked at last, and what had been used until then.
    last: (Instant, Duration),
    /// What may be used before the next pause, in nanoseconds; below zero: what was used too much.
    left: i128,
}

impl CpuBudget {
    /// The budget of the shim of a task with a CPU limit in thousandths of a core.
    pub(super) fn of(cpu_milli: u64) -> Self {
        let milli = (cpu_milli / PART).max(MILLI_MIN);
        Self { milli, last: (Instant::now(), used()), left: nanoseconds(BURST) }
    }

    /// How long no output is to be read from now on; none if it may be read.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        self.pause_at(Instant::now(), used())
    }

    fn pause_at(&mut self, now: Instant, used: Duration) -> Option<Duration> {
        let (before, used_before) = std::mem::replace(&mut self.last, (now, used));
        let passed = nanoseconds(now.saturating_duration_since(before));
        let gained = passed * i128::from(self.milli) / 1_000;
        let spent = nanoseconds(used.saturating_sub(used_before));
        self.left = (self.left + gained - spent).min(nanoseconds(BURST));
        if self.left >= 0 {
            return None;
        }
        let wait = -self.left * 1_000 / i128::from(self.milli.max(1));
        let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        Some(wait.clamp(PAUSE_MIN, PAUSE_MAX))
    }
}

fn nanoseconds(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

/// The CPU time of this process.
fn used() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shim_uses_a_part_of_its_tasks_limit_after_a_burst() {
        for (cpu_milli, expected) in [(50, 6), (1, 5), (800, 100)] {
            let mut budget = CpuBudget::of(cpu_milli);
            let (mut now, mut used) = budget.last;
            let (begun, used_before) = (now, used);
            // It reads whenever it may, for 1 ms of CPU time each.
            while now.duration_since(begun) < Duration::from_secs(100) {
                now += match budget.pause_at(now, used) {
                    Some(pause) => pause,
                    None => {
                        used += Duration::from_millis(1);
                        Duration::from_millis(1)
                    }
                };
            }
            let used = used - used_before - BURST;
            let milli = used.as_millis() / 100;
            assert!((expected..=expected + 1).contains(&milli), "{cpu_milli}: {milli}");
        }
    }

    #[test]
    fn a_shim_with_little_output_never_pauses() {
        let mut budget = CpuBudget::of(100);
        let (begun, used) = budget.last;
        for second in 1..1_000 {
            let (seconds, ms) = (Duration::from_secs(second), Duration::from_millis(second * 5));
            assert_eq!(budget.pause_at(begun + seconds, used + ms), None);
        }
    }
}

//! The reservation of one task.
//!
//! An estimate has for CPU and RAM a level. Excess of the level over the target, which is the usage
//! plus the margin, halves in each half-life; if the target is higher, the level is the target at
//! once. All of it is integer arithmetic, so every replica computes the same.

use model::{Bytes, MilliCores, Permille, Reclamation, Resources, Span, Time};

use crate::sample::{self, CPU_MAX, RAM_MAX, Rejection, SKEW_MAX, Sample};
use crate::setting::{Margin, Pace};

/// The maximum of time that one step accounts for. After a pause, one sample alone does not say what
/// the task has used meanwhile.
pub const STEP_MAX: Span = Span::from_secs(30);

/// Levels of CPU are counted in such parts of a milli-core. In whole ones, a small excess would
/// lose nothing in a step, or all of it.
const CPU_PARTS: u64 = 1 << 16;

/// The natural logarithm of 2, times 2^32.
const LN_2: u64 = 2_977_044_472;

/// The estimate of a task's needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The time of the newest accepted sample, by its machine; zero before the first.
    newest: Time,
    /// When that sample was accepted, or the estimate began.
    heard: Time,
    /// Up to when the levels account for time.
    stepped: Time,
    /// The usage of the newest sample; zero before the first.
    cpu_used: MilliCores,
    ram_used: Bytes,
    /// In parts of a milli-core, and in bytes.
    cpu_level: u64,
    ram_level: u64,
}

/// How an estimate follows the samples.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// How much of the limit is reclaimed.
    pub setting: Reclamation,
    /// How fast reservations rise and fall.
    pub pace: Pace,
}

/// What a step is computed from, beside the sample.
#[derive(Clone, Copy)]
struct StepInput {
    elapsed: Span,
    measured: bool,
    silent: bool,
    rise: Span,
}

impl Estimate {
    /// Begins, or continues, with the reservation in force: the limit for a new task, otherwise
    /// what the cell's state has. So a new leader resets nothing. `newest` is the time of the newest
    /// sample that is in it. The task counts as heard of at `now`.
    #[must_use]
    pub fn new(reservation: &Resources, newest: Option<Time>, now: Time) -> Self {
        Self {
            newest: newest.unwrap_or(Time::ZERO),
            heard: now,
            stepped: now,
            cpu_used: MilliCores(0),
            ram_used: Bytes(0),
            cpu_level: reservation.cpu.0.saturating_mul(CPU_PARTS),
            ram_level: reservation.ram.0,
        }
    }

    /// Advances to `now`. `started` is the start of the task, none if it has not started. A sample
    /// with the time of the newest one is a repetition, and counts as none. A limit above
    /// [`CPU_MAX`] or [`RAM_MAX`] stays the reservation. After every step, also one with a rejected
    /// sample, the reservation is at most the limit.
    ///
    /// # Errors
    /// The reason for which the sample was rejected. The step was made as without it.
    pub fn step(
        &mut self,
        tuning: Tuning,
        limit: &Resources,
        started: Option<Time>,
        sample: Option<&Sample>,
        now: Time,
    ) -> Result<(), Rejection> {
        let Tuning { setting, pace } = tuning;
        // A time of the newest sample that cannot be must not make all later ones out of order.
        self.newest = self.newest.min(now + SKEW_MAX);
        let taken = self.take(started, sample, now);
        let silent = self.is_silent(now, pace);
        let measured = taken == Ok(true);
        let elapsed = now.since(self.stepped).min(STEP_MAX);
        // Without news nothing is accounted for, so the next sample accounts for this time, too. A
        // clock that went back begins anew.
        if measured || silent || now < self.stepped {
            self.stepped = now;
        }
        self.heard = self.heard.min(now);

        let step = StepInput { elapsed, measured, silent, rise: pace.silence_rise };
        let warm = started.is_some_and(|started| now.since(started) >= pace.warm_up);
        let countable = limit.cpu <= CPU_MAX && limit.ram <= RAM_MAX;
        let margin = Margin::of(setting).filter(|_| warm && countable);
        let limits = (limit.cpu.0.saturating_mul(CPU_PARTS), limit.ram.0);
        (self.cpu_level, self.ram_level) = match margin {
            None => limits,
            Some(margin) => {
                let used = self.cpu_used.0.saturating_mul(CPU_PARTS);
                let (cpu, ram) = (pace.half_life_cpu, pace.half_life_ram);
                (
                    step.level(&margin, cpu, self.cpu_level, used, limits.0),
                    step.level(&margin, ram, self.ram_level, self.ram_used.0, limits.1),
                )
            }
        };
        taken.map(|_| ())
    }

    /// Accepts a sample. Whether there was a new one.
    fn take(
        &mut self,
        started: Option<Time>,
        sample: Option<&Sample>,
        now: Time,
    ) -> Result<bool, Rejection> {
        let (Some(started), Some(sample)) = (started, sample) else { return Ok(false) };
        if sample.at == self.newest {
            return Ok(false);
        }
        let (cpu, ram) = sample::accepted(sample, started, self.newest_sample(), now)?;
        (self.cpu_used, self.ram_used) = (cpu, ram);
        (self.newest, self.heard) = (sample.at, now);
        Ok(true)
    }

    /// The reservation for a task with this limit.
    #[must_use]
    pub fn reservation(&self, limit: &Resources) -> Resources {
        // Parts are rounded up: the reservation is never below the level. A limit that cannot be
        // counted in parts has the level of the maximum.
        let whole = self.cpu_level >= limit.cpu.0.saturating_mul(CPU_PARTS);
        let cpu = if whole { limit.cpu.0 } else { self.cpu_level.div_ceil(CPU_PARTS) };
        let estimated = Resources { cpu: MilliCores(cpu), ram: Bytes(self.ram_level), ..*limit };
        estimated.least(*limit)
    }

    /// The time of the newest accepted sample, by the machine's clock.
    #[must_use]
    pub fn newest_sample(&self) -> Option<Time> {
        (self.newest != Time::ZERO).then_some(self.newest)
    }

    /// Whether the newest sample is older than [`Pace::silent_after`] at `now`.
    #[must_use]
    pub fn is_silent(&self, now: Time, pace: Pace) -> bool {
        now.since(self.heard) > pace.silent_after
    }

    /// Whether the newest sample used more than `reservation` in a resource. Usage above the limit
    /// counts as the limit.
    #[must_use]
    pub fn exceeds(&self, reservation: &Resources, limit: &Resources) -> bool {
        self.cpu_used.min(limit.cpu) > reservation.cpu
            || self.ram_used.min(limit.ram) > reservation.ram
    }
}

impl StepInput {
    /// The level of a resource after the step.
    fn level(&self, margin: &Margin, half_life: Span, before: u64, used: u64, limit: u64) -> u64 {
        let before = before.min(limit);
        if self.silent {
            let rise = product(limit, self.elapsed.0, self.rise.0).max(1);
            return before.saturating_add(rise).max(used).min(limit);
        }
        let target = used
            .saturating_add(share(used, margin.of_usage))
            .saturating_add(share(limit, margin.of_limit))
            .min(limit);
        match before.checked_sub(target) {
            None | Some(0) => target,
            Some(excess) if self.measured => target + decayed(excess, self.elapsed, half_life),
            Some(_) => before,
        }
    }
}

/// The excess that is left after some time, which is at most the half-life: e^-x, with the first
/// four terms of the series. They are exact to a millionth up to a tenth of the half-life.
fn decayed(excess: u64, elapsed: Span, half_life: Span) -> u64 {
    let one = 1_u64 << 32;
    let x = product(LN_2, elapsed.0.min(half_life.0), half_life.0);
    let square = product(x, x, 2 * one);
    let cube = product(square, x, 3 * one);
    // x is below 1, so the terms become smaller.
    let left = (one + square).saturating_sub(x + cube);
    product(excess, left, one)
}

/// A share of an amount.
fn share(amount: u64, share: Permille) -> u64 {
    product(amount, share.thousandths().into(), 1_000)
}

/// `amount * by / of`, rounded down, saturating; `amount` if `of` is 0.
fn product(amount: u64, by: u64, of: u64) -> u64 {
    let product = u128::from(amount) * u128::from(by);
    product.checked_div(of.into()).map_or(amount, |part| u64::try_from(part).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excess_halves_in_a_half_life_however_it_is_cut() {
        let half_life = Span::from_secs(3_600);
        for seconds in [1, 2, 5, 30, 60] {
            let steps = 3_600 / seconds;
            let left = (0..steps)
                .fold(1 << 40, |left, _| decayed(left, Span::from_secs(seconds), half_life));
            let half = 1_u64 << 39;
            assert!(left.abs_diff(half) < half / 100_000, "{left} in steps of {seconds} s");
        }
    }

    #[test]
    fn the_decayed_excess_never_grows() {
        let half_life = Span::from_secs(900);
        for excess in [0, 1, 2, 1_000, u64::MAX] {
            assert_eq!(decayed(excess, Span::ZERO, half_life), excess);
            let mut before = excess;
            for micros in [1, 1_000, 30_000_000, 900_000_000, u64::MAX] {
                let left = decayed(excess, Span(micros), half_life);
                assert!(left <= before, "{excess} after {micros} µs: {left}, before {before}");
                before = left;
            }
        }
        assert_eq!(decayed(7, Span(1), Span::ZERO), 3, "no time at all is one half-life");
    }

    #[test]
    fn an_estimate_is_small() {
        assert_eq!(size_of::<Estimate>(), 56);
    }
}

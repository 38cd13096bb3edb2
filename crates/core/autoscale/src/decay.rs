//! What is old counts less: half after each half-life.

use model::Span;

/// A value after an age: halved in each half-life, and on a straight line between. It never rises with
/// the age.
pub(crate) fn decayed(value: u64, age: Span, half_life: Span) -> u64 {
    let half_life = half_life.0.max(1);
    let halvings = u32::try_from(age.0 / half_life).unwrap_or(u32::MAX);
    let whole = value.checked_shr(halvings).unwrap_or_default();
    // At most half of `whole`, so this neither overflows nor goes below zero.
    let lost = u128::from(whole) * u128::from(age.0 % half_life) / (2 * u128::from(half_life));
    whole - u64::try_from(lost).unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_halves_in_each_half_life() {
        let hour = Span::from_secs(3_600);
        let of = |minutes: u64| decayed(1_000, Span::from_secs(60 * minutes), hour);
        let table = [(0, 1_000), (30, 750), (60, 500), (90, 375), (120, 250), (600, 0)];
        for (minutes, value) in table {
            assert_eq!(of(minutes), value, "after {minutes} min");
        }
        assert_eq!(decayed(u64::MAX, Span(u64::MAX), Span::ZERO), 0);
        assert_eq!(decayed(u64::MAX, Span(1), Span(u64::MAX)), u64::MAX);
        let ages: Vec<u64> = (0..400).map(of).collect();
        assert!(ages.is_sorted_by(|before, after| before >= after), "{ages:?}");
    }
}

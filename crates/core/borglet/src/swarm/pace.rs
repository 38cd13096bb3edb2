//! How fast a machine sends chunks to others.

use model::{Bytes, Span, Time};

/// How much may be sent at once after a pause: what the rate gives in that time.
const BURST: Span = Span(250_000);

/// A rate of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendPace {
    /// In bytes per second; 0: nothing is sent.
    rate: Bytes,
    /// When all that was sent would have been sent at the rate.
    paid: Time,
}

impl SendPace {
    /// At most so many bytes per second.
    #[must_use]
    pub fn new(rate: Bytes) -> Self {
        Self { rate, paid: Time::ZERO }
    }

    /// How long to wait before bytes are sent that were asked for now; `None`: they are not sent.
    pub fn delay(&mut self, bytes: Bytes, now: Time) -> Option<Span> {
        let micros = u128::from(bytes.0) * 1_000_000;
        let takes = micros.checked_div(u128::from(self.rate.0))?;
        let delay = self.paid.since(now);
        self.paid = self.paid.max(now - BURST) + Span(u64::try_from(takes).unwrap_or(u64::MAX));
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_kept_but_for_a_burst() {
        let mut pace = SendPace::new(Bytes(1_000_000));
        let mut sent =
            |bytes: u64, at: u64| pace.delay(Bytes(bytes), Time(at)).map(|delay| delay.0);
        for (bytes, at, delay) in [
            (250_000, 1_000_000, 0),
            (100_000, 1_000_000, 0),
            (100_000, 1_000_000, 100_000),
            (100_000, 1_150_000, 50_000),
            // After a pause, no more than a burst.
            (350_000, 9_000_000, 0),
            (1, 9_000_000, 100_000),
        ] {
            assert_eq!(sent(bytes, at), Some(delay), "{bytes} at {at}");
        }
        assert_eq!(SendPace::new(Bytes(0)).delay(Bytes(1), Time(1)), None);
    }
}

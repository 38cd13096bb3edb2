//! A limit on the requests of each client.

use std::collections::BTreeMap;

use model::{Span, Time};

/// How many requests a client may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests per second in the long run; at least 1.
    pub per_second: u32,
    /// Requests at once after a pause; at least 1.
    pub burst: u32,
}

impl Rate {
    /// The cost of a request, in microseconds.
    fn cost(self) -> u64 {
        1_000_000 / u64::from(self.per_second.clamp(1, 1_000_000))
    }

    /// How far a client may be ahead of its rate, in microseconds.
    fn ahead(self) -> u64 {
        self.cost().saturating_mul(u64::from(self.burst.max(1)))
    }
}

/// Token buckets of a bounded number of clients, of which each has the same [`Rate`].
///
/// A full bucket is not stored. While all of them are in use, further clients share one.
#[derive(Clone, Debug)]
pub struct RateLimiter<K> {
    rate: Rate,
    clients_max: usize,
    /// When each bucket is full again.
    full_at: BTreeMap<K, Time>,
    /// The same of the clients beyond the maximum.
    others_full_at: Time,
    /// When full buckets are looked for next.
    sweep_at: Time,
}

impl<K: Ord> RateLimiter<K> {
    /// A limiter with at most `clients_max` buckets.
    #[must_use]
    pub fn new(rate: Rate, clients_max: usize) -> Self {
        let (others_full_at, sweep_at) = (Time::ZERO, Time::ZERO);
        Self { rate, clients_max, full_at: BTreeMap::new(), others_full_at, sweep_at }
    }

    /// Whether a client may make a request now; if so it is counted.
    pub fn allows(&mut self, client: K, now: Time) -> bool {
        if self.full_at.len() >= self.clients_max && now >= self.sweep_at {
            self.full_at.retain(|_, full_at| *full_at > now);
            self.sweep_at = now + Span(self.rate.ahead().max(100_000));
        }
        let full = self.full_at.len() >= self.clients_max;
        let bucket = if full {
            self.full_at.get_mut(&client).unwrap_or(&mut self.others_full_at)
        } else {
            self.full_at.entry(client).or_insert(now)
        };
        // A clock that was set back must not block a client for longer than an empty bucket would.
        let limit = now + Span(self.rate.ahead());
        *bucket = (*bucket).max(now).min(limit);
        let after = *bucket + Span(self.rate.cost());
        let allowed = after <= limit;
        if allowed {
            *bucket = after;
        }
        allowed
    }

    /// The number of stored buckets.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.full_at.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 10, burst: 3 };

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Span::from_millis(milliseconds)
    }

    #[test]
    fn a_client_has_its_burst_and_then_its_rate() {
        let mut limiter = RateLimiter::new(RATE, 10);
        let table = [
            (1_000, 'a', true),
            (1_000, 'a', true),
            (1_000, 'a', true),
            (1_000, 'a', false),
            (1_000, 'b', true),
            (1_099, 'a', false),
            (1_100, 'a', true),
            (1_100, 'a', false),
            (1_300, 'a', true),
            (1_300, 'a', true),
            (1_300, 'a', false),
            (9_000, 'a', true),
            // The clock was set back: no worse than with an empty bucket.
            (0, 'a', false),
            (100, 'a', true),
        ];
        for (number, (now, client, allowed)) in table.into_iter().enumerate() {
            assert_eq!(limiter.allows(client, at(now)), allowed, "line {number}");
        }
    }

    #[test]
    fn clients_beyond_the_maximum_share_a_bucket() {
        let mut limiter = RateLimiter::new(RATE, 2);
        assert!(limiter.allows(1, at(0)) && limiter.allows(2, at(0)));
        let allowed = (3..1_000).filter(|client| limiter.allows(*client, at(0))).count();
        assert_eq!((allowed, limiter.clients()), (3, 2));
        assert!(limiter.allows(1, at(0)), "the others take nothing from those who have one");
        assert!(limiter.allows(3, at(1_000)), "full buckets make room");
        assert_eq!(limiter.clients(), 1);
    }

    #[test]
    fn the_clients_never_exceed_the_maximum_nor_their_rate() {
        let (mut random, mut limiter) = (model::Random::new(1), RateLimiter::new(RATE, 50));
        let mut allowed = 0;
        for request in 0..100_000 {
            allowed += u64::from(limiter.allows(random.below(200), at(request / 10)));
            assert!(limiter.clients() <= 50);
        }
        // 10 s of the rate of 51 buckets, their first burst, and what is full at a sweep.
        assert!(allowed < 51 * (100 + 30 + 3), "{allowed}");
    }
}

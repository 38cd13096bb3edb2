//! What a server counts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use process::metrics::counters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;

/// The names of response codes (RFC 6895).
const CODES: [(usize, &str); 6] = [
    (0, "noerror"),
    (1, "formerr"),
    (2, "servfail"),
    (3, "nxdomain"),
    (4, "notimp"),
    (5, "refused"),
];

/// The counters of a server, since its start.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests received.
    pub queries: AtomicU64,
    /// Replies by response code; those of 16 and above are in the last one.
    pub replies: [AtomicU64; 17],
    /// Requests that were forwarded to a resolver.
    pub forwarded: AtomicU64,
    /// Forwarded requests that no resolver answered.
    pub unanswered: AtomicU64,
    /// Requests that were rejected because of their client's rate.
    pub limited: AtomicU64,
    /// Requests that were rejected because too many waited.
    pub overloaded: AtomicU64,
    /// Connections that were closed at once because there were too many.
    pub connections_rejected: AtomicU64,
    /// Replies with names that may be outdated, because no replica answers.
    pub stale: AtomicU64,
    /// Requests for names that had to be looked up at a replica.
    pub misses: AtomicU64,
    /// Those of them that shared another one's lookup.
    pub shared_lookups: AtomicU64,
    /// Messages without a reply: responses, and what is too short to be a request.
    pub dropped: AtomicU64,
}

impl Metrics {
    /// Counts one more.
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a reply by its header's response code.
    pub(crate) fn count_reply(&self, message: &[u8]) {
        let code = message.get(3).map_or(0, |flags| usize::from(flags & 0x0f));
        self.count_code(code);
    }

    /// Counts a reply by its response code.
    pub(crate) fn count_code(&self, code: usize) {
        let last = self.replies.len() - 1;
        Self::count(&self.replies[code.min(last)]);
    }
}

/// Writes a counter without labels.
fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let value = ConstCounter::new(value);
    value.encode(encoder.encode_descriptor(name, help, None, value.metric_type())?)
}

/// The counters of a server in Prometheus' format, as `bourg_dns_…`.
#[derive(Debug)]
pub struct Exported(pub Arc<Metrics>);

impl Collector for Exported {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let metrics = &self.0;
        let help = "DNS requests received.";
        counter(&mut encoder, "bourg_dns_requests", help, of(&metrics.queries))?;
        let named: u64 = CODES.iter().map(|(code, _)| of(&metrics.replies[*code])).sum();
        let all: u64 = metrics.replies.iter().map(of).sum();
        let replies =
            CODES.iter().map(|(code, name)| ([("code", *name)], of(&metrics.replies[*code])));
        let others = [([("code", "other")], all.saturating_sub(named))];
        let help = "DNS replies, by response code.";
        counters(&mut encoder, "bourg_dns_replies", help, replies.chain(others))?;
        let help = "DNS replies with names that may be outdated, because no replica answers.";
        counter(&mut encoder, "bourg_dns_stale_replies", help, of(&metrics.stale))?;
        let help = "DNS requests for names that were looked up at a replica.";
        counter(&mut encoder, "bourg_dns_lookups", help, of(&metrics.misses))?;
        let forwarded = [
            ([("answered", "yes")], of(&metrics.forwarded).saturating_sub(of(&metrics.unanswered))),
            ([("answered", "no")], of(&metrics.unanswered)),
        ];
        let help = "DNS requests for foreign names that were forwarded to a resolver.";
        counters(&mut encoder, "bourg_dns_forwarded", help, forwarded)?;
        let rejected = [
            ([("cause", "rate")], of(&metrics.limited)),
            ([("cause", "overload")], of(&metrics.overloaded)),
            ([("cause", "connections")], of(&metrics.connections_rejected)),
        ];
        let help = "DNS requests and connections over a limit.";
        counters(&mut encoder, "bourg_dns_rejected", help, rejected)
    }
}

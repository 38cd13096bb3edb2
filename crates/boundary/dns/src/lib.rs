//! DNS over the names of a cell: a request in, a reply out.
//!
//! [`answer()`] is a function of the request's bytes, of what the caller knows ([`Names`]), of
//! [`Settings`] and of a seeded generator. The names are those below the zone of the cell ([`Zone`]):
//!
//! | name | types | what it is |
//! |---|---|---|
//! | `INDEX.JOB.USER.ZONE` | A, AAAA | a task, while it runs, healthy or not |
//! | `JOB.USER.ZONE` | A, AAAA | the healthy tasks of a job, in random order |
//! | `_PORT._tcp.JOB.USER.ZONE` | SRV | a port of the healthy tasks of a job |
//! | `_PORT._tcp.INDEX.JOB.USER.ZONE` | SRV | a port of a task |
//! | `master.ZONE` | A, AAAA | the replicas of the Borgmaster |
//! | `ZONE` | SOA, NS | the cell |
//! | below `in-addr.arpa` and `ip6.arpa` | PTR | the names that an address has |
//!
//! Around it are what a server needs to decide: [`Cache`] for names that were asked at a replica, and
//! [`RateLimiter`].
//!
//! **Wire format.** From `hickory-proto` this crate uses the decoders of header, question and name, with
//! their checks of compression, and the encoders of names and record data. The rest of a message is
//! small, and read and written in `request` and `reply`, so that the data of a request's records is
//! never decoded, and a reply never exceeds its limit. `hickory-server` is not used: it serves zones that
//! it holds, and has no limits per client and no cache by name
//! (`docs/decisions/050-hickory-proto-for-dns.md`).
//!
//! What is deliberately not here: sockets, clocks, randomness of the system, forwarding to other
//! resolvers, DNSSEC, zone transfers, dynamic updates.

mod answer;
mod cache;
mod limiter;
mod names;
mod question;
mod reply;
mod request;
mod zone;

pub use self::answer::{Outcome, Reply, Settings, answer};
pub use self::cache::{Cache, CacheLimits};
pub use self::limiter::{Rate, RateLimiter};
pub use self::names::{Answer, Endpoint, Lookup, Names, Owner};
pub use self::question::{NamePart, Question, Target};
pub use self::reply::{Failure, TTL, Via, failure, truncated};
pub use self::request::{answers, reply_limit};
pub use self::zone::{BadDomain, Zone};

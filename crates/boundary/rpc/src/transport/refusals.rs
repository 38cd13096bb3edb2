//! Counts rejected connections and requests by cause, and logs them at a limited rate, since
//! clients control how often they occur.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::CertificateError;

/// The minimum interval between log lines of one cause.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Why a connection was rejected at the handshake, or a request by a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// No certificate was presented.
    NoCertificate,
    /// The certificate was issued by another authority.
    WrongAuthority,
    /// The certificate has expired, or is not valid yet.
    Expired,
    /// The certificate belongs to another cell.
    WrongCell,
    /// The certificate is unusable, for example without an identity.
    BadCertificate,
    /// The certificate was revoked.
    Revoked,
    /// The role of the certificate does not allow this.
    WrongRole,
    /// The identity belongs to the cell, but is not the expected one.
    WrongIdentity,
    /// The join token was used with another key.
    UsedToken,
    /// The task of the certificate has ended.
    Ended,
    /// The client, or all clients together, reached the connection limit.
    TooMany,
    /// The client did not trust this server.
    Distrusted,
    /// The handshake took too long.
    Slow,
    /// The handshake was not valid TLS, or was cut off.
    NoTls,
}

impl Cause {
    /// Every cause, in the order of its number.
    pub const ALL: [Self; 14] = [
        Self::NoCertificate,
        Self::WrongAuthority,
        Self::Expired,
        Self::WrongCell,
        Self::BadCertificate,
        Self::Revoked,
        Self::WrongRole,
        Self::WrongIdentity,
        Self::UsedToken,
        Self::Ended,
        Self::TooMany,
        Self::Distrusted,
        Self::Slow,
        Self::NoTls,
    ];

    /// The cause as a metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoCertificate => "no_certificate",
            Self::WrongAuthority => "wrong_authority",
            Self::Expired => "expired",
            Self::WrongCell => "wrong_cell",
            Self::BadCertificate => "bad_certificate",
            Self::Revoked => "revoked",
            Self::WrongRole => "wrong_role",
            Self::WrongIdentity => "wrong_identity",
            Self::UsedToken => "used_token",
            Self::Ended => "ended",
            Self::TooMany => "too_many",
            Self::Distrusted => "distrusted",
            Self::Slow => "slow",
            Self::NoTls => "no_tls",
        }
    }

    /// The cause of a server's handshake failure.
    pub(super) fn of_handshake(error: &std::io::Error) -> Self {
        match error.get_ref().and_then(|error| error.downcast_ref()) {
            Some(rustls::Error::NoCertificatesPresented) => Self::NoCertificate,
            Some(rustls::Error::InvalidCertificate(error)) => Self::of_certificate(error),
            Some(rustls::Error::AlertReceived(_)) => Self::Distrusted,
            _ => Self::NoTls,
        }
    }

    /// The cause for a certificate error.
    pub(super) fn of_certificate(error: &CertificateError) -> Self {
        match error {
            // `BadSignature` if two authorities have the same name.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Self::WrongAuthority
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Self::Expired,
            _ => Self::BadCertificate,
        }
    }

    fn number(self) -> usize {
        Self::ALL.iter().position(|cause| *cause == self).unwrap_or_default()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCertificate => "without a certificate",
            Self::WrongAuthority => "with a certificate of another authority",
            Self::Expired => "with a certificate that is not valid now",
            Self::WrongCell => "with a certificate of another cell",
            Self::BadCertificate => "with an unusable certificate",
            Self::Revoked => "with a revoked certificate",
            Self::WrongRole => "with a certificate of a role without permission",
            Self::WrongIdentity => "with the certificate of another identity",
            Self::UsedToken => "with a join token that another key has used",
            Self::Ended => "with the certificate of a task that has ended",
            Self::TooMany => "above the connection limit",
            Self::Distrusted => "that do not trust this server",
            Self::Slow => "whose handshake took too long",
            Self::NoTls => "without valid TLS",
        })
    }
}

/// Counters of rejections by cause. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<[Counter; Cause::ALL.len()]>);

#[derive(Debug, Default)]
struct Counter {
    total: AtomicU64,
    /// When it was last logged, and the count at that time.
    logged: Mutex<Option<(Instant, u64)>>,
}

impl Refusals {
    /// Counts a rejection. Logs the number since the last line, unless that was within the last
    /// second. `last` describes this rejection.
    pub fn count(&self, cause: Cause, last: impl FnOnce() -> String) {
        if let Some((times, total)) = self.counted(cause) {
            let last = last();
            tracing::warn!(
                "rejected: {times} {cause} ({total} since the start), the last one {last}"
            );
        }
    }

    /// Counts a rejection. Returns the number since the last log line and the total, if it is time
    /// to log.
    fn counted(&self, cause: Cause) -> Option<(u64, u64)> {
        let counter = self.0.get(cause.number())?;
        let total = counter.total.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let mut logged = counter.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match *logged {
            Some((at, _)) if at.elapsed() < LOG_INTERVAL => return None,
            Some((_, before)) => before,
            None => 0,
        };
        *logged = Some((Instant::now(), total));
        Some((total.saturating_sub(before), total))
    }

    /// The number of rejections with a cause.
    #[must_use]
    pub fn total(&self, cause: Cause) -> u64 {
        self.0.get(cause.number()).map_or(0, |counter| counter.total.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_at_once_are_one_line_and_counted_by_cause() {
        let refusals = Refusals::default();
        let clone = refusals.clone();
        let logged: Vec<_> = (0..1_000).filter_map(|_| clone.counted(Cause::Expired)).collect();
        assert_eq!(logged[0], (1, 1));
        assert!(logged.len() <= 2, "a second may have passed: {logged:?}");
        assert_eq!(refusals.counted(Cause::Slow), Some((1, 1)), "each cause is logged by itself");
        for cause in Cause::ALL {
            let total = match cause {
                Cause::Expired => 1_000,
                Cause::Slow => 1,
                _ => 0,
            };
            assert_eq!(refusals.total(cause), total, "{cause:?}");
        }
    }

    #[test]
    fn every_cause_has_a_word_of_its_own() {
        for (number, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause.number(), number);
            let same = Cause::ALL.iter().filter(|other| other.as_str() == cause.as_str());
            assert_eq!(same.count(), 1, "{cause:?}");
        }
    }
}

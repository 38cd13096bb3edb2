//! Who was not let in, and why: counted by cause, and said in the log at a bounded rate, because
//! refused ones come as often as they like.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::CertificateError;

/// How often refusals of one cause are said at most.
const SAY: Duration = Duration::from_secs(1);

/// Why somebody was not let in: at the handshake a connection, by a service a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// They showed no certificate.
    NoCertificate,
    /// Another authority than the cell's issued their certificate.
    WrongAuthority,
    /// Their certificate has expired, or is not valid yet.
    Expired,
    /// Their certificate is of another cell.
    WrongCell,
    /// Their certificate cannot be used, as one without an identity.
    BadCertificate,
    /// Their certificate was revoked.
    Revoked,
    /// Their certificate is that of a role that may not do this.
    WrongRole,
    /// They are somebody of the cell, and not the one that they should be.
    WrongIdentity,
    /// The join token was used with another key.
    UsedToken,
    /// The task whose certificate they show has ended.
    Ended,
    /// They have as many connections as they may, or all together have.
    TooMany,
    /// They did not take this server for the one that they wanted.
    Distrusted,
    /// Their handshake took too long.
    Slow,
    /// What they sent is no TLS that is understood here, or ended within the handshake.
    NoTls,
}

impl Cause {
    /// Every cause, in the order of their numbers.
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

    /// A word for it, as for a label of a metric.
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

    /// Why a server's handshake failed.
    pub(super) fn of_handshake(error: &std::io::Error) -> Self {
        match error.get_ref().and_then(|error| error.downcast_ref()) {
            Some(rustls::Error::NoCertificatesPresented) => Self::NoCertificate,
            Some(rustls::Error::InvalidCertificate(error)) => Self::of_certificate(error),
            Some(rustls::Error::AlertReceived(_)) => Self::Distrusted,
            _ => Self::NoTls,
        }
    }

    /// What is wrong with a certificate.
    pub(super) fn of_certificate(error: &CertificateError) -> Self {
        match error {
            // The latter where two authorities have the same name.
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
            Self::BadCertificate => "with a certificate that cannot be used",
            Self::Revoked => "with a revoked certificate",
            Self::WrongRole => "with a certificate of a role that may not do this",
            Self::WrongIdentity => "with the certificate of somebody else",
            Self::UsedToken => "with a join token that another key has used",
            Self::Ended => "with the certificate of a task that has ended",
            Self::TooMany => "above the number of connections that there may be",
            Self::Distrusted => "that do not trust this server",
            Self::Slow => "whose handshake took too long",
            Self::NoTls => "that speak no TLS that is understood here",
        })
    }
}

/// How often somebody was not let in, by cause. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<[Counter; Cause::ALL.len()]>);

#[derive(Debug, Default)]
struct Counter {
    total: AtomicU64,
    /// When it was said, and how often it had happened by then.
    said: Mutex<Option<(Instant, u64)>>,
}

impl Refusals {
    /// Counts one more, and says in the log how many there were since that was last said, unless it
    /// was within the last second. `last` tells of this one.
    pub fn count(&self, cause: Cause, last: impl FnOnce() -> String) {
        if let Some((times, total)) = self.counted(cause) {
            let last = last();
            tracing::warn!(
                "refused: {times} {cause} ({total} since the start), the last of them: {last}"
            );
        }
    }

    /// How often it has happened since that was last said and in all, where it is to be said now.
    fn counted(&self, cause: Cause) -> Option<(u64, u64)> {
        let counter = self.0.get(cause.number())?;
        let total = counter.total.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let mut said = counter.said.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match *said {
            Some((at, _)) if at.elapsed() < SAY => return None,
            Some((_, before)) => before,
            None => 0,
        };
        *said = Some((Instant::now(), total));
        Some((total.saturating_sub(before), total))
    }

    /// How many there were of a cause.
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
        let said: Vec<_> = (0..1_000).filter_map(|_| clone.counted(Cause::Expired)).collect();
        assert_eq!(said[0], (1, 1));
        assert!(said.len() <= 2, "a second may have passed: {said:?}");
        assert_eq!(refusals.counted(Cause::Slow), Some((1, 1)), "each cause is said by itself");
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

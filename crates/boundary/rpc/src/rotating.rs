//! Credentials that can be replaced while in use.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::tls::Tls;
use crate::{Credentials, Error, Result, certificate};

/// Credentials in use by servers and clients. After a replacement, new handshakes use the new
/// credentials; existing connections are not affected. Clones share their state.
#[derive(Clone)]
pub struct Rotating(Arc<InUse>);

struct InUse {
    tls: Tls,
    newest: RwLock<Arc<Credentials>>,
}

impl Rotating {
    /// Sets up TLS with credentials.
    ///
    /// # Errors
    /// [`Error::Tls`].
    pub fn new(credentials: Credentials) -> Result<Self> {
        let tls = Tls::new(&credentials)?;
        Ok(Self(Arc::new(InUse { tls, newest: RwLock::new(Arc::new(credentials)) })))
    }

    /// Replaces the credentials with others of the same identity, from the same authority.
    ///
    /// # Errors
    /// [`Error::NoRenewal`] if identity, cell or authority differ, [`Error::BadCertificate`] and
    /// [`Error::Tls`]. On errors the old ones stay in use.
    pub fn replace(&self, renewed: Credentials) -> Result<()> {
        let mut newest = self.0.newest.write().unwrap_or_else(PoisonError::into_inner);
        let other = |what: &str, old: &str, new: &str| Error::NoRenewal {
            why: format!("the {what} is {new}, and not {old}"),
        };
        let (old, new) = (newest.identity(), renewed.identity());
        if old != new {
            return Err(other("identity", &old.to_string(), &new.to_string()));
        }
        if newest.cell() != renewed.cell() {
            return Err(other("cell", newest.cell(), renewed.cell()));
        }
        // Compare the parsed content, since a PEM text may be written in several ways.
        if certificate::der(newest.ca_pem(), "")? != certificate::der(renewed.ca_pem(), "")? {
            return Err(other("authority", "the one in use", "another one"));
        }
        self.0.tls.show(&renewed)?;
        *newest = Arc::new(renewed);
        Ok(())
    }

    /// The current credentials.
    #[must_use]
    pub fn credentials(&self) -> Arc<Credentials> {
        Arc::clone(&self.0.newest.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn tls(&self) -> &Tls {
        &self.0.tls
    }
}

impl fmt::Debug for Rotating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rotating").field(&self.credentials()).finish()
    }
}

//! Credentials in use, which can be replaced while they are.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::tls::Tls;
use crate::{Credentials, Error, Result, certificate};

/// Credentials in use, by servers and clients alike. Replaced by renewed ones, they are shown at
/// every handshake from then on; connections that are there go on with those that they began with.
/// Clones are replaced together.
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

    /// Shows other credentials from now on: of the same identity, from the same authority.
    ///
    /// # Errors
    /// [`Error::NoRenewal`] for those of somebody else, [`Error::BadCertificate`] and [`Error::Tls`]. All leave the old ones
    /// in use.
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
        // By what the text says, which may be written in more than one way.
        if certificate::der(newest.ca_pem(), "")? != certificate::der(renewed.ca_pem(), "")? {
            return Err(other("authority", "the one in use", "another one"));
        }
        self.0.tls.show(&renewed)?;
        *newest = Arc::new(renewed);
        Ok(())
    }

    /// The credentials that are shown now.
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

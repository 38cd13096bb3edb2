//! The right to run an amount (paper, section 2.5).

use crate::{Band, GrantId, Resources, Time, UserName};

/// A user's right to run a given amount in a band, for a period. Simultaneous grants of one user
/// and band add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// The user.
    pub user: UserName,
    /// The band; never the free one.
    pub band: Band,
    /// The amount.
    pub amount: Resources,
    /// When it begins.
    pub from: Time,
    /// When it ends; `None`: never.
    pub until: Option<Time>,
    /// Who granted it.
    pub by: UserName,
}

impl Grant {
    /// Whether the grant is in effect at a given time.
    #[must_use]
    pub fn runs(&self, at: Time) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }
}

//! Who holds how much of what users share: the stores of the cell and the calls of this replica.

use std::cmp::Reverse;

use api::v1;
use cell::Cell;
use model::{Asker, Held, SharedBound, UserName};

use crate::caller::Caller;
use crate::streams::Streams;

/// The maximum number of holders of a bound in an answer.
const HOLDERS_MAX: usize = 10;

/// What is used of a bound.
#[derive(Debug)]
pub(crate) struct UsedBound {
    pub(crate) name: &'static str,
    pub(crate) max: u64,
    /// Rejected requests, of a bound of this replica.
    pub(crate) rejected: Option<u64>,
    /// Who holds how much, most first.
    holders: Vec<(UserName, u64)>,
}

impl UsedBound {
    /// What all hold.
    pub(crate) fn held(&self) -> u64 {
        self.holders.iter().map(|(_, held)| held).sum()
    }
}

/// All bounds that users share.
pub(crate) fn used(cell: &Cell, of_replica: &[Streams]) -> Vec<UsedBound> {
    let of_cell = cell.shared_use().into_iter().map(|of| UsedBound {
        name: of.name,
        max: of.bound.max(),
        rejected: None,
        holders: most_first(of.holders),
    });
    let of_replica = of_replica.iter().map(|streams| {
        let limiter = streams.limiter();
        let holders = limiter.holders().into_iter().map(|(user, held)| (user, held as u64));
        UsedBound {
            name: streams.name(),
            max: limiter.max() as u64,
            rejected: Some(limiter.rejected()),
            holders: most_first(holders),
        }
    });
    of_cell.chain(of_replica).collect()
}

fn most_first(holders: impl IntoIterator<Item = (UserName, u64)>) -> Vec<(UserName, u64)> {
    let mut holders: Vec<_> = holders.into_iter().collect();
    holders
        .sort_unstable_by(|one, other| (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0)));
    holders
}

/// The answer for a caller: administrators see who holds most, others what they hold themselves.
pub(crate) fn answer(used: &[UsedBound], cell: &Cell, by: &Caller) -> v1::LimitsResponse {
    let asker = by.asker(cell);
    let limits = used.iter().map(|of| {
        let (bound, all) = (SharedBound::new(of.max), of.held());
        let own = of.holders.iter().find(|(user, _)| *user == by.user).map_or(0, |(_, held)| *held);
        let holders = of
            .holders
            .iter()
            .filter(|(user, _)| asker == Asker::Administrator || *user == by.user)
            .take(HOLDERS_MAX)
            .map(|(user, held)| {
                let share = match cell.is_administrator(user) {
                    true => bound.share_of(Held { all, own: *held }, Asker::Administrator),
                    false => bound.share(Held { all, own: *held }),
                };
                v1::LimitHolder { user: user.to_string(), held: *held, share }
            });
        v1::LimitUse {
            name: of.name.to_owned(),
            of_replica: of.rejected.is_some(),
            max: of.max,
            held: all,
            share: bound.share_of(Held { all, own }, asker),
            holders: holders.collect(),
            rejected: of.rejected.unwrap_or_default(),
        }
    });
    v1::LimitsResponse { limits: limits.collect() }
}

//! What must hold of the replicas that are recorded.

use super::{Found, Violation};
use crate::state::bounds::{ATTRIBUTE_CHARACTERS_MAX, REPLICAS_MAX};
use crate::{Cell, Member, REPLICAS};

impl Cell {
    pub(super) fn check_replicas(&self, found: &mut Found) {
        let (records, last) = (&self.replicas.records, self.replicas.last);
        found.at_most("replicas", records.len(), REPLICAS_MAX);
        for (id, replica) in records {
            found.id("replica", replica.id.0, last.0, *id == replica.id);
            let characters = replica.address.chars().count();
            found.at_most(
                "characters of a replica's address",
                characters,
                ATTRIBUTE_CHARACTERS_MAX,
            );
            if replica.member == Member::Waiting && replica.leaving {
                found.add(Violation::WaitsToLeave(*id));
            }
            if self.level < REPLICAS {
                let what = format!("replica {id} is recorded");
                found.add(Violation::TooEarly { what, level: self.level, needs: REPLICAS });
            }
        }
        let stays = |id| records.get(&id).is_none_or(|replica| !replica.leaving);
        if !self.voters().any(stays) {
            found.add(Violation::NobodyVotes);
        }
    }
}

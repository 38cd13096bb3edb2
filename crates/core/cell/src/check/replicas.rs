//! Invariants of the recorded replicas, and of each change of membership.

use std::collections::BTreeSet;

use model::{Member, ReplicaId};

use super::decision::Step;
use super::{Violation, Violations};
use crate::Cell;
use crate::bounds::{ATTRIBUTE_CHARACTERS_MAX, REPLICAS_MAX};

impl Cell {
    pub(super) fn check_replicas(&self, found: &mut Violations) {
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
            if let Some(token) = &replica.token
                && token.certificate.expires < token.certificate.issued
            {
                found.add(Violation::Token(token.certificate.serial));
            }
        }
        let stays = |id| records.get(&id).is_none_or(|replica| !replica.leaving);
        if !self.voters().any(stays) {
            found.add(Violation::NobodyVotes);
        }
    }
}

impl Step<'_> {
    /// A replica's token is used once: the key that used it never changes. Nor does its directory.
    pub(super) fn replicas_join(&mut self) {
        for replica in self.before.replicas() {
            let after = self.cell.replica(replica.id).map(|replica| replica.directory);
            if replica.directory.is_known() && after.is_some_and(|after| after != replica.directory)
            {
                self.found.add(Violation::DirectoryAgain(replica.id));
            }
            let Some(before) = replica.token else { continue };
            let after = self.cell.replica(replica.id).and_then(|replica| replica.token);
            if before.used.is_some() && after.is_some_and(|after| after != before) {
                self.found.add(Violation::TokenAgain(before.certificate.serial));
            }
        }
    }

    /// At most one replica's role in consensus changed, so that a majority before and one after
    /// always overlap.
    pub(super) fn members(&mut self) {
        let members = |cell: &Cell| {
            let voters = cell.voters().map(|id| (id, Member::Voter));
            let learners = cell.learners().map(|id| (id, Member::Learner));
            voters.chain(learners).collect::<BTreeSet<_>>()
        };
        let (before, after) = (members(self.before), members(self.cell));
        let changed: BTreeSet<ReplicaId> =
            before.symmetric_difference(&after).map(|(id, _)| *id).collect();
        if changed.len() > 1 {
            self.found.add(Violation::MembersAtOnce(changed.into_iter().collect()));
        }
    }
}

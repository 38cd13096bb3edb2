//! That the cell goes on while a majority of its replicas is well: up, connected and with a disk, for
//! long enough. Whatever is wrong with the others must not keep it from that.

use model::{Span, Time};
use replica::Codec;

use crate::network::Node;
use crate::world::World;

/// Within so long somebody leads and a request is answered.
const LONG_ENOUGH: Span = Span::from_secs(30);

/// Who is well, and since when nobody was lost of them.
#[derive(Debug, Default)]
pub(crate) struct Well {
    hosts: Vec<usize>,
    since: Time,
    /// When it was last seen that somebody leads.
    led: Time,
}

impl<C: Codec> World<C> {
    /// Looks whether it goes on, from time to time.
    pub(crate) fn look_at_progress(&mut self) {
        let hosts = self.majority_that_is_well();
        let kept = |before: &usize| hosts.contains(before);
        if self.well.hosts.is_empty() || !self.well.hosts.iter().all(kept) {
            self.well.since = self.now;
        }
        self.well.hosts = hosts;
        if self.leading().is_some() {
            self.well.led = self.now;
        }
        let for_long = |since: Time| self.now.since(since.max(self.well.since)) > LONG_ENOUGH;
        if for_long(self.well.led) {
            let what = "nobody leads, and a majority of the replicas is well for long enough";
            self.invariants.violated(what.to_owned());
        } else if let Some(asked) = self.clients.waits_since().filter(|asked| for_long(*asked)) {
            let waits = self.now.since(asked);
            self.invariants.violated(format!(
                "a client waits for {waits}, and a majority of the replicas is well for long enough"
            ));
        }
    }

    /// The replicas that are up and have a disk, and are connected with a majority of such; none
    /// where they are not a majority, or where clients may not find them.
    fn majority_that_is_well(&self) -> Vec<usize> {
        let Some(cell) = self.knowing().and_then(|host| self.masters[host].cell()) else {
            return Vec::new();
        };
        let voters: Vec<usize> = cell.voters().filter_map(|id| self.place_of(id)).collect();
        let is_majority = |count: usize| count * 2 > cell.voters().count();
        let both_ways = |one, other| {
            !self.network.is_disturbed(one, other) && !self.network.is_disturbed(other, one)
        };
        let up: Vec<usize> = voters.into_iter().filter(|host| self.is_well(*host)).collect();
        let connected = |host: &usize| {
            let with = |other: &&usize| {
                *other == host || both_ways(Node::Master(*host), Node::Master(**other))
            };
            is_majority(up.iter().filter(with).count())
        };
        let well: Vec<usize> = up.iter().copied().filter(connected).collect();
        // Clients try all of them.
        let reached = |host: &usize| both_ways(Node::Clients, Node::Master(*host));
        let quiet = !self.operator.is_restless() && self.present().iter().all(reached);
        if is_majority(well.len()) && quiet { well } else { Vec::new() }
    }

    fn is_well(&self, host: usize) -> bool {
        let master = &self.masters[host];
        let has_disk = !master.disk.full && master.disk.slow == Span::ZERO;
        master.is_up() && !master.is_frozen() && has_disk
    }
}

//! Liveness: the cell makes progress while a majority of its replicas is healthy for long enough,
//! that is up, connected and with a working disk, whatever is wrong with the others.

use model::{LogIndex, Span, Time};
use replica::Codec;

use crate::network::Node;
use crate::world::World;

/// Time within which there is a leader and a request is answered.
const LONG_ENOUGH: Span = Span::from_secs(30);

/// The healthy replicas, and since when none of them was lost.
#[derive(Debug, Default)]
pub(crate) struct HealthyMajority {
    hosts: Vec<usize>,
    since: Time,
    /// When there last was a leader.
    led: Time,
}

impl<C: Codec> World<C> {
    /// Checks periodically whether the cell makes progress.
    pub(crate) fn check_progress(&mut self) {
        let hosts = self.healthy_majority();
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
            let what = "there is no leader although a majority of the replicas is healthy for long";
            self.invariants.violated(what.to_owned());
        } else if let Some(asked) = self.clients.waits_since().filter(|asked| for_long(*asked)) {
            let waits = self.now.since(asked);
            self.invariants.violated(format!(
                "a client waits for {waits} although a majority of the replicas is healthy for long"
            ));
        }
    }

    /// The replicas that are up with a working disk and connected with a majority of such; empty if
    /// they are not a majority, or if clients may not reach them.
    fn healthy_majority(&self) -> Vec<usize> {
        let Some(cell) = self.most_advanced().and_then(|host| self.masters[host].cell()) else {
            return Vec::new();
        };
        let voters: Vec<usize> = cell.voters().filter_map(|id| self.place_of(id)).collect();
        let is_majority = |count: usize| count * 2 > cell.voters().count();
        let both_ways = |one, other| {
            !self.network.is_disturbed(one, other) && !self.network.is_disturbed(other, one)
        };
        let up: Vec<usize> = voters.into_iter().filter(|host| self.is_healthy(*host)).collect();
        let connected = |host: &usize| {
            let with = |other: &&usize| {
                *other == host || both_ways(Node::Master(*host), Node::Master(**other))
            };
            is_majority(up.iter().filter(with).count())
        };
        let well: Vec<usize> = up.iter().copied().filter(connected).collect();
        // Clients try all of them.
        let reached = |host: &usize| both_ways(Node::Clients, Node::Master(*host));
        let quiet = !self.operator.has_induced_elections() && self.present().iter().all(reached);
        if is_majority(well.len()) && quiet { well } else { Vec::new() }
    }

    fn is_healthy(&self, host: usize) -> bool {
        let master = &self.masters[host];
        let has_disk = !master.disk.full && master.disk.slow == Span::ZERO;
        // One whose disk was emptied gives no vote until another takes its place.
        let knows = master.cell().is_some_and(|cell| cell.index() > LogIndex(0));
        master.is_up() && !master.is_frozen() && has_disk && knows
    }
}

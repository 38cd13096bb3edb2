//! That the cell goes on while a majority of its replicas is well: up, connected and with a disk, for
//! long enough. Whatever is wrong with the others must not keep it from that.

use model::Span;
use replica::Codec;

use crate::network::Node;
use crate::world::World;

/// So long a majority has to have been well before anything is asked of it; within so long a request
/// is answered then.
const LONG_ENOUGH: Span = Span::from_secs(30);

impl<C: Codec> World<C> {
    /// Looks whether it goes on, from time to time.
    pub(crate) fn look_at_progress(&mut self) {
        if !self.majority_is_well() {
            self.well_since = None;
            return;
        }
        let since = *self.well_since.get_or_insert(self.now);
        if self.now.since(since) < LONG_ENOUGH {
            return;
        }
        if self.leading().is_none() {
            let what = "nobody leads, and a majority of the replicas is well for long enough";
            self.judge.violated(what.to_owned());
        }
        if let Some(asked) = self.clients.waits_since()
            && self.now.since(asked.max(since)) > LONG_ENOUGH
        {
            let waits = self.now.since(asked);
            self.judge.violated(format!(
                "a client waits for {waits}, and a majority of the replicas is well for long enough"
            ));
        }
    }

    fn majority_is_well(&self) -> bool {
        let Some(cell) = self.knowing().and_then(|host| self.masters[host].cell()) else {
            return false;
        };
        let voters: Vec<Option<usize>> = cell.voters().map(|id| self.place_of(id)).collect();
        let well: Vec<usize> =
            voters.iter().flatten().copied().filter(|at| self.is_well(*at)).collect();
        let both_ways = |one, other| {
            !self.network.is_disturbed(one, other) && !self.network.is_disturbed(other, one)
        };
        // Clients try all of them: those that are not well must not keep them waiting.
        let reached = |at: &usize| both_ways(Node::Clients, Node::Master(*at));
        let connected =
            |(one, other): (&usize, &usize)| both_ways(Node::Master(*one), Node::Master(*other));
        let pairs = well.iter().flat_map(|one| well.iter().map(move |other| (one, other)));
        well.len() * 2 > voters.len()
            && !self.operator.is_restless()
            && self.present().iter().all(reached)
            && pairs.into_iter().all(connected)
    }

    fn is_well(&self, host: usize) -> bool {
        let master = &self.masters[host];
        let disk = &master.disk;
        let there = master.is_up() && !master.is_frozen();
        there && !disk.full && disk.slow == Span::ZERO
    }
}

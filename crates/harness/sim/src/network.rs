//! The network: the latency and the loss of messages.
//!
//! Messages of one stream stay in order, as with TCP; those of separate calls do not.

use std::collections::BTreeMap;
use std::ops::Range;

use model::{Random, Span, Time};

/// An endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A replica of the Borgmaster, by its number from 0, in order of creation.
    Master(usize),
    /// The scheduler.
    Scheduler,
    /// The clients of the master.
    Clients,
    /// A machine, by number.
    Machine(usize),
}

/// A set of endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// A single one.
    One(Node),
    /// A range of machines, such as a rack.
    Machines(Range<usize>),
    /// A range of replicas of the Borgmaster.
    Masters(Range<usize>),
    /// All endpoints.
    All,
}

impl Nodes {
    /// Every replica of the Borgmaster.
    pub const MASTERS: Self = Self::Masters(0..usize::MAX);

    fn has(&self, node: Node) -> bool {
        match (self, node) {
            (Self::One(one), node) => *one == node,
            (Self::Machines(range), Node::Machine(number))
            | (Self::Masters(range), Node::Master(number)) => range.contains(&number),
            (Self::Machines(_) | Self::Masters(_), _) => false,
            (Self::All, _) => true,
        }
    }
}

/// A network fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing arrives.
    Cut,
    /// This many messages in a thousand are lost.
    Loss(u64),
    /// Messages are delayed by up to this, individually, so they can overtake each other.
    Delay(Span),
    /// This many messages in a thousand arrive twice.
    Twice(u64),
}

/// A network fault between two sets of endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// The senders.
    pub from: Nodes,
    /// The receivers.
    pub to: Nodes,
    /// Whether it applies in the other direction, too.
    pub both_ways: bool,
    /// The fault.
    pub trouble: Trouble,
}

impl Disturbance {
    fn affects(&self, from: Node, to: Node) -> bool {
        let there = self.from.has(from) && self.to.has(to);
        there || (self.both_ways && self.from.has(to) && self.to.has(from))
    }
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It never arrives.
    Lost,
    /// It arrives after the first delay, and possibly again after the second.
    Arrives(Span, Option<Span>),
}

/// The network.
#[derive(Debug)]
pub(crate) struct Network {
    random: Random,
    disturbances: Vec<(usize, Disturbance)>,
    /// The arrival time of the last message on each connection.
    connected: BTreeMap<(Node, Node), Time>,
}

/// Minimum latency.
const NEAR: Span = Span(100);
/// Maximum additional latency.
const FAR: u64 = 400;
/// Maximum additional delay of a duplicate.
const AGAIN: Span = Span::from_secs(10);

impl Network {
    pub(crate) fn new(random: Random) -> Self {
        Self { random, disturbances: Vec::new(), connected: BTreeMap::new() }
    }

    /// Begins a disturbance, identified by a number.
    pub(crate) fn disturb(&mut self, number: usize, disturbance: Disturbance) {
        self.disturbances.push((number, disturbance));
    }

    /// Ends it.
    pub(crate) fn calm(&mut self, number: usize) {
        self.disturbances.retain(|(other, _)| *other != number);
    }

    /// Whether nothing at all gets from one to the other.
    pub(crate) fn is_cut(&self, from: Node, to: Node) -> bool {
        let cuts = |disturbance: &Disturbance| {
            disturbance.trouble == Trouble::Cut && disturbance.affects(from, to)
        };
        self.disturbances.iter().any(|(_, disturbance)| cuts(disturbance))
    }

    /// Whether any disturbance applies from one to the other.
    pub(crate) fn is_disturbed(&self, from: Node, to: Node) -> bool {
        self.disturbances.iter().any(|(_, disturbance)| disturbance.affects(from, to))
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, from: Node, to: Node) -> Fate {
        let mut delay = Span(NEAR.0 + self.random.below(FAR));
        let mut again = None;
        for (_, disturbance) in &self.disturbances {
            if !disturbance.affects(from, to) {
                continue;
            }
            match disturbance.trouble {
                Trouble::Cut => return Fate::Lost,
                Trouble::Loss(permille) if self.random.chance(permille) => return Fate::Lost,
                Trouble::Delay(most) => delay = delay + Span(self.random.below(most.0)),
                Trouble::Twice(permille) if self.random.chance(permille) => {
                    again = Some(delay + Span(self.random.below(AGAIN.0)));
                }
                Trouble::Loss(_) | Trouble::Twice(_) => {}
            }
        }
        Fate::Arrives(delay, again)
    }

    /// The arrival time of a message sent now on a stream: after the one sent before; `None` if the
    /// way is cut. The transport retransmits lost segments.
    pub(crate) fn stream(&mut self, now: Time, last: Time, from: Node, to: Node) -> Option<Time> {
        if self.is_cut(from, to) {
            return None;
        }
        let delay = match self.send(from, to) {
            Fate::Lost => Span::from_millis(200),
            Fate::Arrives(delay, _) => delay,
        };
        Some((now + delay).max(last))
    }

    /// Sends a message on a connection that is re-established when it breaks: messages stay in
    /// order without a disturbance; with one, they overtake each other and get lost like others.
    pub(crate) fn connected(&mut self, now: Time, from: Node, to: Node) -> Fate {
        let disturbed = self.is_disturbed(from, to);
        match self.send(from, to) {
            Fate::Arrives(delay, _) if !disturbed => {
                let last = self.connected.entry((from, to)).or_insert(Time::ZERO);
                *last = (now + delay).max(*last);
                Fate::Arrives(last.since(now), None)
            }
            fate => fate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disturbed(from: Nodes, to: Nodes, both_ways: bool, trouble: Trouble) -> Network {
        let mut network = Network::new(Random::new(1));
        network.disturb(4, Disturbance { from, to, both_ways, trouble });
        network
    }

    #[test]
    fn a_network_cut_affects_the_given_nodes_and_directions() {
        let rack = || Nodes::Machines(2..4);
        let master = || Nodes::One(Node::Master(0));
        for (both_ways, from, to, lost) in [
            (true, Node::Master(0), Node::Machine(2), true),
            (true, Node::Machine(3), Node::Master(0), true),
            (true, Node::Master(0), Node::Machine(4), false),
            (true, Node::Scheduler, Node::Master(0), false),
            (true, Node::Machine(3), Node::Master(1), false),
            (false, Node::Master(0), Node::Machine(2), true),
            (false, Node::Machine(2), Node::Master(0), false),
        ] {
            let mut network = disturbed(master(), rack(), both_ways, Trouble::Cut);
            assert_eq!(network.send(from, to) == Fate::Lost, lost, "{from:?} to {to:?}");
            assert_eq!(network.stream(Time(0), Time(0), from, to).is_none(), lost);
            network.calm(4);
            assert_ne!(network.send(from, to), Fate::Lost);
        }
    }

    #[test]
    fn messages_are_lost_and_duplicated_at_the_given_rate() {
        let mut network = disturbed(Nodes::All, Nodes::All, false, Trouble::Loss(100));
        let lost =
            |network: &mut Network| network.send(Node::Master(0), Node::Clients) == Fate::Lost;
        let count = (0..10_000).filter(|_| lost(&mut network)).count();
        assert!((900..1_100).contains(&count), "{count}");
        let mut network = disturbed(Nodes::All, Nodes::All, false, Trouble::Twice(500));
        let twice = |network: &mut Network| {
            matches!(network.send(Node::Master(0), Node::Clients), Fate::Arrives(_, Some(_)))
        };
        let count = (0..10_000).filter(|_| twice(&mut network)).count();
        assert!((4_800..5_200).contains(&count), "{count}");
    }

    #[test]
    fn a_stream_keeps_its_order() {
        let trouble = Trouble::Delay(Span::from_secs(1));
        let mut network = disturbed(Nodes::All, Nodes::All, false, trouble);
        let mut last = Time(0);
        for now in 0..1_000 {
            let arrives = network.stream(Time(now), last, Node::Master(0), Node::Scheduler);
            assert!(arrives.is_some_and(|arrives| arrives >= last));
            last = arrives.expect("not cut");
        }
    }
}

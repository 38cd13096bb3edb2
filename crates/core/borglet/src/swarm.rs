//! Assigns the chunks of a layer to sources: a store, and other machines that have the layer or are fetching it (paper,
//! section 3.2: "tree- and torrent-like protocols").
//!
//! A [`Swarm`] takes events with their time, and returns the next requests; it knows no connections and no clock.
//!
//! - Every source has a few requests at a time, and takes the next chunks when one has ended: a fast source sends more.
//! - Each machine begins elsewhere in the layer, by its seed, so that machines soon have different chunks for each other.
//! - Machines come first. The store is asked while there is no machine to ask, and for what they do not have once none of
//!   them has sent anything for [`PEER_PAUSE`]. So a store sends each chunk about once, however many machines fetch.
//! - A chunk that is late is asked of one more source. A machine without progress for [`STALLED`], or with wrong bytes, is
//!   asked no more. The store always is.

mod bans;
mod chunk_set;
mod pace;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use model::{Random, Span, Time};

pub use bans::{BANNED_FOR, Bans};
pub use chunk_set::ChunkSet;
pub use pace::SendPace;

/// A machine that has sent nothing for so long while it was asked for something is asked no more.
pub const STALLED: Span = Span::from_secs(10);
/// The store is asked for what no machine has when none has sent anything for so long.
pub const PEER_PAUSE: Span = Span(500_000);
/// A chunk that has not come for so long is asked of one more source.
const LATE: Span = Span::from_secs(2);
/// The same when nothing else is left to ask for.
const LATE_AT_THE_END: Span = Span(500_000);
/// How often a machine that had nothing new is asked what it has.
const LOOK: Span = Span(100_000);
/// How long the store is left alone after a failure.
const STORE_REST: Span = Span::from_secs(1);
/// After so many failures of the store in a row, with no machine left, the layer cannot be fetched.
const STORE_FAILURES: u32 = 3;
/// The number of requests of a machine at a time, and of chunks in each.
const PEER_REQUESTS: usize = 2;
const PEER_CHUNKS: usize = 8;
/// The same for a store that is the only source, and for one beside machines.
const STORE_ALONE: (usize, usize) = (4, 16);
const STORE_BESIDE: (usize, usize) = (1, 8);

/// A source of chunks, by its number in the order in which sources were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub usize);

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A store, which has everything.
    Store,
    /// Another machine.
    Peer,
}

/// A request, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Why a machine is asked no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerFault {
    /// It has sent nothing for [`STALLED`].
    Stalled,
    /// It has sent other bytes than those of the chunk.
    WrongBytes,
    /// It cannot be reached, or does not send.
    Failed,
}

impl PeerFault {
    /// Whether it counts for later layers, too: see [`Bans`].
    #[must_use]
    pub fn is_banned(self) -> bool {
        match self {
            Self::Stalled | Self::WrongBytes => true,
            Self::Failed => false,
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwarmAction {
    /// Ask a source for chunks; without chunks, a machine for what it has.
    Ask {
        /// The number of the request.
        ask: AskId,
        /// Whom.
        source: SourceId,
        /// The positions of the chunks.
        chunks: Vec<u32>,
    },
    /// Break off the requests of a machine.
    Drop {
        /// Which.
        source: SourceId,
        /// Why.
        why: PeerFault,
    },
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwarmState {
    /// Chunks are missing.
    Fetching,
    /// All are there.
    Done,
    /// Chunks are missing, and there is nobody to ask any more.
    Stuck,
}

/// What a source can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SourceState {
    Active,
    /// A store that has failed, until then.
    Resting(Time),
    Dropped,
}

#[derive(Clone, Debug)]
struct ChunkSource {
    kind: SourceKind,
    state: SourceState,
    /// What it has; `None`: everything.
    has: Option<ChunkSet>,
    /// The chunks that are still to come, by request.
    asked: BTreeMap<AskId, Vec<u32>>,
    /// When it last sent something, or was asked after a time without requests.
    progress: Time,
    /// When a machine is asked again what it has.
    look: Time,
    /// Failures in a row.
    failures: u32,
    /// Where the search for its next chunks begins, always: if it moved, machines that fetch from one that is fetching itself
    /// would all be where that one is.
    start: u32,
}

/// A chunk that is on its way.
#[derive(Clone, Debug)]
struct OnItsWay {
    since: Time,
    from: Vec<SourceId>,
}

/// A layer that is being fetched.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// What is neither here nor on its way.
    wanted: ChunkSet,
    arrived: ChunkSet,
    left: usize,
    on_their_way: BTreeMap<u32, OnItsWay>,
    sources: Vec<ChunkSource>,
    seed: u64,
    next: AskId,
    /// When a machine last sent a chunk.
    peers_sent: Time,
    /// The store fails, and machines have sent nothing for long.
    is_given_up: bool,
}

impl Swarm {
    /// A layer of so many chunks, of which some are here. Machines with different seeds begin with different chunks.
    #[must_use]
    pub fn new(chunks: u32, here: impl IntoIterator<Item = u32>, seed: u64, now: Time) -> Self {
        let (mut wanted, mut arrived) = (ChunkSet::all(chunks), ChunkSet::none(chunks));
        for chunk in here {
            if wanted.remove(chunk) {
                arrived.insert(chunk);
            }
        }
        let left = wanted.count();
        let (on_their_way, sources) = (BTreeMap::new(), Vec::new());
        // At the beginning machines have less time: they may have nothing yet.
        let (next, peers_sent) = (AskId(0), now - Span(PEER_PAUSE.0 - LOOK.0));
        Self {
            wanted,
            arrived,
            left,
            on_their_way,
            sources,
            seed,
            next,
            peers_sent,
            is_given_up: false,
        }
    }

    /// Adds a source. Nothing is known of what a machine has before it has said it.
    pub fn add(&mut self, kind: SourceKind, now: Time) -> SourceId {
        let id = SourceId(self.sources.len());
        let has = match kind {
            SourceKind::Store => None,
            SourceKind::Peer => Some(ChunkSet::none(self.wanted.length())),
        };
        // A layer that comes from one source comes in its order: it can be unpacked meanwhile.
        let is_alone = kind == SourceKind::Store && self.sources.is_empty();
        let start = if is_alone { 0 } else { Random::mixed(self.seed ^ id.0 as u64) };
        let start = start.checked_rem(u64::from(self.wanted.length())).unwrap_or_default();
        let start = u32::try_from(start).unwrap_or_default();
        let (asked, state, failures) = (BTreeMap::new(), SourceState::Active, 0);
        let (progress, look) = (now, now);
        let source = ChunkSource { kind, state, has, asked, progress, look, failures, start };
        self.sources.push(source);
        id
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> SwarmState {
        let is_usable = |source: &ChunkSource| match source.kind {
            SourceKind::Store => source.failures < STORE_FAILURES,
            SourceKind::Peer => source.state == SourceState::Active,
        };
        match self.left {
            0 => SwarmState::Done,
            _ if self.is_given_up => SwarmState::Stuck,
            _ if self.sources.iter().any(is_usable) => SwarmState::Fetching,
            _ => SwarmState::Stuck,
        }
    }

    /// The chunks that are here.
    #[must_use]
    pub fn arrived(&self) -> &ChunkSet {
        &self.arrived
    }

    /// A machine has said what it has; `None`: everything.
    pub fn holds(&mut self, source: SourceId, has: Option<ChunkSet>, now: Time) {
        if let Some(source) = self.sources.get_mut(source.0)
            && source.kind == SourceKind::Peer
        {
            source.has = has;
            source.progress = now;
        }
    }

    /// A chunk has come, and its bytes are right. Returns whether it is the first time.
    pub fn came(&mut self, ask: AskId, source: SourceId, chunk: u32, now: Time) -> bool {
        if let Some(of) = self.sources.get_mut(source.0) {
            take(of, ask, chunk);
            (of.progress, of.failures) = (now, 0);
            if of.kind == SourceKind::Peer {
                self.peers_sent = now;
            }
        }
        self.on_their_way.remove(&chunk);
        self.wanted.remove(chunk);
        let is_new = self.arrived.insert(chunk);
        self.left -= usize::from(is_new);
        is_new
    }

    /// A source does not have a chunk that it was asked for.
    pub fn lacks(&mut self, ask: AskId, source: SourceId, chunk: u32, now: Time) {
        let Some(of) = self.sources.get_mut(source.0) else { return };
        take(of, ask, chunk);
        of.progress = now;
        if of.kind == SourceKind::Peer {
            let length = self.wanted.length();
            of.has.get_or_insert_with(|| ChunkSet::all(length)).remove(chunk);
        }
        self.give_back(source, chunk);
    }

    /// A request has been answered. What was not sent is asked for again.
    pub fn answered(&mut self, ask: AskId, source: SourceId, now: Time) {
        let Some(of) = self.sources.get_mut(source.0) else { return };
        let left = of.asked.remove(&ask).unwrap_or_default();
        of.progress = now;
        for chunk in left {
            self.give_back(source, chunk);
        }
    }

    /// A request has failed: a machine is asked no more, and a store after a while.
    pub fn failed(&mut self, source: SourceId, why: PeerFault, now: Time) -> Option<SwarmAction> {
        let of = self.sources.get_mut(source.0)?;
        if of.state == SourceState::Dropped {
            return None;
        }
        let asked = std::mem::take(&mut of.asked);
        of.state = match of.kind {
            SourceKind::Store => SourceState::Resting(now + STORE_REST),
            SourceKind::Peer => SourceState::Dropped,
        };
        of.failures = of.failures.saturating_add(1);
        for chunk in asked.into_values().flatten() {
            self.give_back(source, chunk);
        }
        Some(SwarmAction::Drop { source, why })
    }

    /// What is to be done at a moment. Called after every input, and every tenth of a second.
    pub fn next(&mut self, now: Time) -> Vec<SwarmAction> {
        let mut actions = Vec::new();
        if self.left == 0 {
            return actions;
        }
        for number in 0..self.sources.len() {
            let source = &mut self.sources[number];
            let is_stalled = !source.asked.is_empty() && now.since(source.progress) >= STALLED;
            if is_stalled {
                actions.extend(self.failed(SourceId(number), PeerFault::Stalled, now));
            } else if matches!(source.state, SourceState::Resting(until) if until <= now) {
                source.state = SourceState::Active;
            }
        }
        let is_failing = |source: &ChunkSource| {
            source.kind == SourceKind::Store && source.failures >= STORE_FAILURES
        };
        // Machines may wait for each other as long as the store is gone.
        self.is_given_up =
            self.sources.iter().any(is_failing) && now.since(self.peers_sent) >= STALLED;
        // Machines first: what they have is not asked of the store.
        let count = self.sources.len();
        let of_kind = |kind| move |source: &ChunkSource| source.kind == kind;
        let is_peer = of_kind(SourceKind::Peer);
        for number in
            (0..count).filter(|number| is_peer(&self.sources[*number])).collect::<Vec<_>>()
        {
            self.ask(SourceId(number), PEER_REQUESTS, PEER_CHUNKS, now, &mut actions);
        }
        let has_peers =
            self.sources.iter().any(|it| is_peer(it) && it.state == SourceState::Active);
        if has_peers && now.since(self.peers_sent) < PEER_PAUSE {
            return actions;
        }
        let (requests, chunks) = if has_peers { STORE_BESIDE } else { STORE_ALONE };
        for number in 0..count {
            if !is_peer(&self.sources[number]) {
                self.ask(SourceId(number), requests, chunks, now, &mut actions);
            }
        }
        actions
    }

    /// Asks a source for what it has and is wanted, in as many requests as it may have.
    fn ask(
        &mut self,
        id: SourceId,
        requests: usize,
        chunks: usize,
        now: Time,
        actions: &mut Vec<SwarmAction>,
    ) {
        loop {
            let source = &self.sources[id.0];
            if source.state != SourceState::Active || source.asked.len() >= requests {
                return;
            }
            let mut some = self.wanted_of(source, chunks);
            if some.is_empty() {
                some = self.late_of(id, source, chunks, now);
            }
            let source = &mut self.sources[id.0];
            // It is asked what it has, unless it is known.
            let is_look = some.is_empty();
            let looks = source.has.is_some() && source.asked.is_empty() && source.look <= now;
            if is_look && !looks {
                return;
            }
            if source.asked.is_empty() {
                source.progress = now;
            }
            source.look = now + LOOK;
            let ask = self.next;
            self.next.0 += 1;
            source.asked.insert(ask, some.clone());
            for chunk in &some {
                self.wanted.remove(*chunk);
                let way = self.on_their_way.entry(*chunk);
                let way = way.or_insert_with(|| OnItsWay { since: now, from: Vec::new() });
                way.from.push(id);
            }
            actions.push(SwarmAction::Ask { ask, source: id, chunks: some });
            if is_look {
                return;
            }
        }
    }

    /// The next wanted chunks that a source has.
    fn wanted_of(&self, source: &ChunkSource, chunks: usize) -> Vec<u32> {
        match &source.has {
            Some(has) => self.wanted.from(source.start, chunks, |word| has.word(word)),
            // A machine that has everything, or a store: beside machines it sends what none of them has.
            None if source.kind == SourceKind::Peer => {
                self.wanted.from(source.start, chunks, |_| u64::MAX)
            }
            None => {
                let of_peers = |word: usize| {
                    let peers = self.sources.iter().filter(|it| {
                        it.kind == SourceKind::Peer && it.state == SourceState::Active
                    });
                    peers.fold(0, |all, it| {
                        all | it.has.as_ref().map_or(u64::MAX, |has| has.word(word))
                    })
                };
                let some = self.wanted.from(source.start, chunks, |word| !of_peers(word));
                // Machines that send nothing do not keep the store from sending what they have.
                match some.is_empty() {
                    true => self.wanted.from(source.start, chunks, |_| u64::MAX),
                    false => some,
                }
            }
        }
    }

    /// Chunks that are late, and not asked of this source.
    fn late_of(&self, id: SourceId, source: &ChunkSource, chunks: usize, now: Time) -> Vec<u32> {
        let patience = if self.wanted.is_empty() { LATE_AT_THE_END } else { LATE };
        let is_late = |(chunk, way): &(&u32, &OnItsWay)| {
            now.since(way.since) >= patience
                && way.from.len() < 2
                && !way.from.contains(&id)
                && source.has.as_ref().is_none_or(|has| has.contains(**chunk))
        };
        let late = self.on_their_way.iter().filter(is_late);
        late.map(|(chunk, _)| *chunk).take(chunks).collect()
    }

    /// A chunk does not come from a source.
    fn give_back(&mut self, source: SourceId, chunk: u32) {
        let Some(way) = self.on_their_way.get_mut(&chunk) else { return };
        way.from.retain(|from| *from != source);
        if way.from.is_empty() {
            self.on_their_way.remove(&chunk);
            if !self.arrived.contains(chunk) {
                self.wanted.insert(chunk);
            }
        }
    }
}

/// A chunk of a request has been answered.
fn take(source: &mut ChunkSource, ask: AskId, chunk: u32) {
    if let Some(asked) = source.asked.get_mut(&ask) {
        asked.retain(|it| *it != chunk);
    }
}

use super::*;

const MS: u64 = 1_000;

fn at(ms: u64) -> Time {
    Time(1_000_000_000 + ms * MS)
}

/// What is asked: the number of the source, and the chunks.
fn asked(actions: &[SwarmAction]) -> Vec<(usize, Vec<u32>)> {
    let ask = |action: &SwarmAction| match action {
        SwarmAction::Ask { source, chunks, .. } => Some((source.0, chunks.clone())),
        SwarmAction::Drop { .. } => None,
    };
    actions.iter().filter_map(ask).collect()
}

/// Everything that was asked comes.
fn come(swarm: &mut Swarm, actions: &[SwarmAction], now: Time) {
    for action in actions {
        let SwarmAction::Ask { ask, source, chunks } = action else { continue };
        for chunk in chunks {
            swarm.came(*ask, *source, *chunk, now);
        }
        swarm.answered(*ask, *source, now);
    }
}

fn dropped(actions: &[SwarmAction]) -> Vec<(usize, PeerFault)> {
    let drop = |action: &SwarmAction| match action {
        SwarmAction::Drop { source, why } => Some((source.0, *why)),
        SwarmAction::Ask { .. } => None,
    };
    actions.iter().filter_map(drop).collect()
}

#[test]
fn a_store_alone_sends_everything_in_order_and_once() {
    let mut swarm = Swarm::new(150, [3], 7, at(0));
    swarm.add(SourceKind::Store, at(0));
    let mut all = Vec::new();
    while swarm.state() == SwarmState::Fetching {
        let actions = swarm.next(at(0));
        all.extend(asked(&actions).into_iter().flat_map(|(_, chunks)| chunks));
        come(&mut swarm, &actions, at(0));
    }
    assert_eq!(all, (0..150).filter(|chunk| *chunk != 3).collect::<Vec<u32>>());
    assert_eq!((swarm.state(), swarm.next(at(9))), (SwarmState::Done, vec![]));
}

#[test]
fn machines_come_first_and_the_store_sends_what_they_lack_when_they_are_silent() {
    let mut swarm = Swarm::new(40, [], 1, at(0));
    swarm.add(SourceKind::Store, at(0));
    let peer = swarm.add(SourceKind::Peer, at(0));
    // The machine is asked what it has, and the store waits for it.
    let look = swarm.next(at(0));
    assert_eq!(asked(&look), [(1, vec![])]);
    swarm.holds(peer, Some(ChunkSet::from_bits(40, &[0b111])), at(10));
    come(&mut swarm, &look, at(10));
    let actions = swarm.next(at(10));
    let mut chunks = asked(&actions).concat_chunks(1);
    chunks.sort_unstable();
    assert_eq!(chunks, [0, 1, 2]);
    come(&mut swarm, &actions, at(20));
    // It has nothing new, and is asked again from time to time.
    assert_eq!(asked(&swarm.next(at(20))), []);
    let look = swarm.next(at(150));
    assert_eq!(asked(&look), [(1, vec![])]);
    come(&mut swarm, &look, at(150));
    // Silence: the store sends something, not all.
    let actions = swarm.next(at(520));
    let of_store = asked(&actions).concat_chunks(0);
    assert_eq!(of_store.len(), 8, "{actions:?}");
    come(&mut swarm, &actions, at(530));
    // The machine has all, and the store is not asked any more.
    swarm.holds(peer, None, at(540));
    swarm.came(AskId(999), peer, 0, at(540));
    let actions = swarm.next(at(540));
    assert_eq!(asked(&actions).concat_chunks(0), [0_u32; 0]);
    assert_eq!(asked(&actions).concat_chunks(1).len(), 16);
}

trait Chunks {
    fn concat_chunks(&self, source: usize) -> Vec<u32>;
}

impl Chunks for Vec<(usize, Vec<u32>)> {
    fn concat_chunks(&self, source: usize) -> Vec<u32> {
        let of = self.iter().filter(|asked| asked.0 == source);
        of.flat_map(|asked| asked.1.clone()).collect()
    }
}

#[test]
fn machines_are_asked_for_different_chunks_and_seeds_begin_elsewhere() {
    let first = |seed| {
        let mut swarm = Swarm::new(1_000, [], seed, at(0));
        swarm.add(SourceKind::Store, at(0));
        for _ in 0..3 {
            let peer = swarm.add(SourceKind::Peer, at(0));
            swarm.holds(peer, None, at(0));
        }
        let actions = asked(&swarm.next(at(0)));
        assert_eq!(actions.len(), 6, "two requests of each machine, and none of the store");
        let mut all: Vec<u32> = actions.into_iter().flat_map(|asked| asked.1).collect();
        let begin = all.first().copied();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 48, "no chunk is asked for twice");
        begin
    };
    let begins: std::collections::BTreeSet<_> = (1..=24).map(first).collect();
    assert!(begins.len() > 20, "{begins:?}");
    assert_eq!(first(5), first(5));
}

#[test]
fn who_fails_is_dropped_and_its_chunks_are_asked_elsewhere() {
    for (why, banned) in
        [(PeerFault::Failed, false), (PeerFault::WrongBytes, true), (PeerFault::Stalled, true)]
    {
        assert_eq!(why.is_banned(), banned);
        let mut swarm = Swarm::new(10, [], 1, at(0));
        swarm.add(SourceKind::Store, at(0));
        let peer = swarm.add(SourceKind::Peer, at(0));
        swarm.holds(peer, None, at(0));
        assert_eq!(asked(&swarm.next(at(0))).concat_chunks(1).len(), 10);
        let actions = match why {
            PeerFault::Stalled => {
                // Nothing comes. What is late is asked of the store, whose answer does not come either.
                assert_eq!(asked(&swarm.next(at(9_999))).concat_chunks(0).len(), 8);
                swarm.next(at(10_000))
            }
            _ => {
                let mut actions: Vec<_> = swarm.failed(peer, why, at(1)).into_iter().collect();
                assert_eq!(swarm.failed(peer, why, at(1)), None, "it is dropped once");
                actions.extend(swarm.next(at(1)));
                actions
            }
        };
        assert_eq!(dropped(&actions), [(1, why)]);
        let again = asked(&actions).concat_chunks(0).len();
        assert_eq!(again, if why == PeerFault::Stalled { 2 } else { 10 });
        assert_eq!(swarm.state(), SwarmState::Fetching);
    }
}

#[test]
fn a_store_is_tried_again_and_only_three_failures_without_machines_end_it() {
    let mut swarm = Swarm::new(10, [], 1, at(0));
    let store = swarm.add(SourceKind::Store, at(0));
    for (failure, ms) in [(1, 0), (2, 1_000), (3, 2_000)] {
        assert_eq!(asked(&swarm.next(at(ms))).concat_chunks(0).len(), 10, "attempt {failure}");
        swarm.failed(store, PeerFault::Failed, at(ms));
        assert_eq!(asked(&swarm.next(at(ms + 999))), [], "it rests");
        let stuck = if failure == 3 { SwarmState::Stuck } else { SwarmState::Fetching };
        assert_eq!(swarm.state(), stuck, "after {failure}");
    }
    // A machine that comes later helps.
    swarm.add(SourceKind::Peer, at(2_500));
    assert_eq!(swarm.state(), SwarmState::Fetching);
}

#[test]
fn what_a_machine_lacks_is_not_asked_of_it_again() {
    let mut swarm = Swarm::new(3, [], 1, at(0));
    swarm.add(SourceKind::Store, at(0));
    let peer = swarm.add(SourceKind::Peer, at(0));
    swarm.holds(peer, None, at(0));
    let actions = swarm.next(at(0));
    let [SwarmAction::Ask { ask, source, chunks }] = &actions[..] else { panic!("{actions:?}") };
    for chunk in chunks {
        match chunk {
            1 => swarm.lacks(*ask, *source, 1, at(1)),
            other => drop(swarm.came(*ask, *source, *other, at(1))),
        }
    }
    swarm.answered(*ask, *source, at(1));
    let later = asked(&swarm.next(at(501)));
    assert_eq!((later.concat_chunks(0), later.concat_chunks(1)), (vec![1], vec![]));
}

#[test]
fn machines_that_have_nothing_do_not_hide_that_the_store_is_gone() {
    let mut swarm = Swarm::new(3, [], 1, at(0));
    let store = swarm.add(SourceKind::Store, at(0));
    let peer = swarm.add(SourceKind::Peer, at(0));
    for ms in (0..=9_500).step_by(100) {
        assert_eq!(swarm.state(), SwarmState::Fetching, "at {ms}");
        for action in swarm.next(at(ms)) {
            let SwarmAction::Ask { ask, source, .. } = action else { panic!("{action:?}") };
            if source == store {
                swarm.failed(store, PeerFault::Failed, at(ms));
            } else {
                swarm.holds(peer, Some(ChunkSet::none(3)), at(ms));
                swarm.answered(ask, peer, at(ms));
            }
        }
    }
    swarm.next(at(10_000));
    assert_eq!(swarm.state(), SwarmState::Stuck);
}

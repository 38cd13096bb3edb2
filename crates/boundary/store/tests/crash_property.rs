//! Random batches and a crash at a random point: the recovered log is a prefix of what was appended
//! and contains everything synced.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;

use proptest::prelude::*;
use store::log::{Log, RecordKind, Recovered, Repair};
use support::{SMALL, segments};

#[derive(Debug, Clone)]
enum Step {
    /// Each record: how far its index goes back from the next one, and its payload's length; no
    /// distance is a hard state.
    Append(Vec<(Option<u64>, usize)>),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let back = prop_oneof![
        6 => Just(Some(0)),
        1 => (1..6_u64).prop_map(Some),
        2 => Just(None),
    ];
    prop_oneof![
        3 => prop::collection::vec((back, 0..300_usize), 1..8).prop_map(Step::Append),
        1 => Just(Step::Sync),
    ]
}

/// Entries as (index, payload) and the hard state, after some record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct State {
    entries: Vec<(u64, Vec<u8>)>,
    hard_state: Option<Vec<u8>>,
}

impl State {
    fn next_index(&self) -> u64 {
        self.entries.last().map_or(1, |(index, _)| index + 1)
    }

    fn of(recovered: &Recovered) -> Self {
        let mut entries = Vec::new();
        recovered
            .for_each(0, |record| {
                entries.push((record.index, record.payload.to_vec()));
                Ok::<_, store::Error>(())
            })
            .unwrap();
        Self { entries, hard_state: recovered.hard_state().map(|h| h.payload.clone()) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_crash_leaves_a_prefix_with_all_that_was_synced(
        steps in prop::collection::vec(step(), 1..25),
        // Which unsynced sectors reached the disk.
        reached in prop::collection::vec(any::<bool>(), 64),
        sector in prop_oneof![Just(512_usize), Just(4096)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = Log::open(dir.path(), SMALL).unwrap();
        let mut states = vec![State::default()];
        let mut synced = 0;
        let mut unique = 0_u64;
        for step in &steps {
            let Step::Append(records) = step else {
                log.sync().unwrap();
                synced = states.len() - 1;
                continue;
            };
            let before = states.len() - 1;
            let mut batch = Vec::new();
            for (back, length) in records {
                let mut state = states.last().unwrap().clone();
                unique += 1;
                let mut payload = unique.to_le_bytes().to_vec();
                payload.resize(8 + length, 0xB0);
                if let Some(back) = back {
                    let index = state.next_index().saturating_sub(*back).max(1);
                    state.entries.retain(|(i, _)| *i < index);
                    state.entries.push((index, payload.clone()));
                    batch.push((RecordKind::Entry, index, payload));
                } else {
                    state.hard_state = Some(payload.clone());
                    batch.push((RecordKind::HardState, 0, payload));
                }
                states.push(state);
            }
            let refs: Vec<_> = batch
                .iter()
                .map(|(kind, index, payload)| store::log::RecordRef {
                    kind: *kind, term: 1, index: *index, level: 0, payload,
                })
                .collect();
            let segment = log.end().segment;
            log.append(&refs).unwrap();
            if segment != log.end().segment {
                // The content of the previous segment is durable now.
                synced = before;
            }
        }
        let durable = log.synced();
        prop_assert!(durable <= log.end());
        drop(log);

        if let Some(file) = segments(dir.path()).pop() {
            let mut content = fs::read(&file).unwrap();
            let from = durable.offset as usize;
            for (at, reached) in (0..content.len()).step_by(sector).zip(reached.iter().cycle()) {
                let end = (at + sector).min(content.len());
                if !reached && end > from {
                    content[at.max(from)..end].fill(0);
                }
            }
            fs::write(&file, content).unwrap();
        }

        let (mut log, recovered) = Log::open(dir.path(), SMALL).unwrap();
        let mut state = State::of(&recovered);
        prop_assert!(states[synced..].contains(&state), "not one of the states since the sync");

        // And the log continues from there.
        let index = state.next_index();
        log.append(&[support::entry(index, 2, b"after the crash")]).unwrap();
        log.sync().unwrap();
        drop(log);
        state.entries.push((index, b"after the crash".to_vec()));
        let (_, recovered) = Log::open(dir.path(), SMALL).unwrap();
        prop_assert_eq!(recovered.repair(), &Repair::None);
        prop_assert_eq!(State::of(&recovered), state);
    }
}

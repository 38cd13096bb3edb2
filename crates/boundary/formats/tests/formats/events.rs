//! Events: the bytes encoded straight from the cell equal those of the message, and are read back
//! with the names of that time.

use std::collections::BTreeMap;

use api::event::{Names, Record, decode};
use cell::{Actor, Cell, Event, EventKind, EvictionCause, PendingCause, StopReason, Subject};
use formats::event::encode_all;
use formats::v1;
use model::{LogIndex, Time};
use proptest::prelude::*;
use prost::Message;

use crate::arbitrary::event::record;
use crate::examples::event::all_events;
use crate::history::history;

/// Every event of a cell's history, as it is stored.
fn kept(ops: &[(Time, cell::Op)]) -> Vec<(Cell, Record)> {
    let (mut cell, mut buffer, mut records) = (Cell::empty(), Vec::new(), Vec::new());
    for (at, op) in ops {
        let applied = cell.apply(*at, op);
        let mut kept = Vec::new();
        encode_all(&cell, &applied, &mut buffer, |sub, bytes| {
            let record = decode(bytes).expect("an event");
            assert_eq!(record.sub, sub);
            kept.push(record);
        });
        let events: Vec<Event> = kept.iter().map(|record| record.event.clone()).collect();
        assert_eq!(events, applied.events);
        assert!(kept.iter().all(|record| record.by == applied.by));
        records.extend(kept.into_iter().map(|record| (cell.clone(), record)));
    }
    records
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn both_ways_give_the_same_bytes_which_are_read_back(record in record()) {
        let mut direct = b"before".to_vec();
        record.as_ref().encode(&mut direct);
        let message = v1::EventRecord::from(&record);
        prop_assert_eq!(&direct[6..], message.encode_to_vec());
        prop_assert_eq!(decode(&direct[6..]), Ok(record.clone()));
        let json = serde_json::to_string(&message).expect("JSON");
        let again: v1::EventRecord = serde_json::from_str(&json).expect("what was written");
        prop_assert_eq!(Record::try_from(again), Ok(record));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    #[test]
    fn what_happens_is_kept_with_its_names(ops in history(60)) {
        let mut last = (LogIndex(0), 0);
        for (cell, record) in kept(&ops) {
            prop_assert!((record.index, record.sub) > last || last.0 == LogIndex(0));
            last = (record.index, record.sub);
            prop_assert_eq!((record.index, record.at), (cell.index(), cell.time()));
            let Names { user, job, machine, reporter, .. } = &record.names;
            prop_assert_eq!(reporter.is_some(), matches!(record.by, Actor::Machine(_)));
            if let EventKind::Stop { why: StopReason::Evict(EvictionCause::Preempted { by }) } =
                &record.event.kind
            {
                let other = cell.job(by.collection).expect("it preempts");
                let named = (other.owner.clone(), other.spec.name.clone());
                prop_assert_eq!(&record.names.related, &Some(named));
            }
            match record.event.subject {
                Subject::Cell => prop_assert_eq!(&record.names, &Names::default()),
                Subject::Machine(_) => {
                    prop_assert!(machine.is_some());
                }
                Subject::Job(id) => {
                    let kept = cell.job(id).expect("it is there");
                    prop_assert_eq!(user.as_ref(), Some(&kept.owner));
                    prop_assert_eq!(job.as_ref(), Some(&kept.spec.name));
                }
                Subject::Task(_) => prop_assert!(user.is_some() && job.is_some()),
            }
        }
    }
}

/// The events of an incarnation of a task on a machine name the machine, from the first to the last.
#[test]
fn every_event_of_an_incarnation_on_a_machine_names_it() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut named: BTreeMap<&'static str, u32> = BTreeMap::new();
    for _ in 0..2_000 {
        let ops = history(60).new_tree(&mut runner).expect("a history").current();
        let mut scheduled = BTreeMap::new();
        for (cell, record) in kept(&ops) {
            let Subject::Task(id) = record.event.subject else { continue };
            if let EventKind::Schedule { machine, .. } = record.event.kind {
                let machine = cell.machine(machine).expect("it is there");
                scheduled.insert(id, machine.name.clone());
            }
            // An updated task stays on its machine if it can: its next incarnation is scheduled there in
            // the same operation, and both events name it.
            let stays = EventKind::Submit { cause: PendingCause::Evicted(EvictionCause::Updated) };
            if record.event.kind == stays && record.names.machine.is_some() {
                continue;
            }
            assert_eq!(record.names.machine.as_ref(), scheduled.get(&id), "{record:?}");
            if record.names.machine.is_some() {
                *named.entry(record.event.kind.name()).or_default() += 1;
            }
        }
    }
    let kinds: Vec<_> = named.into_keys().collect();
    expect_test::expect![
        "EVICT FAIL FINISH HEALTHY KILL LOST SCHEDULE START STOP UNHEALTHY UPDATE_RUNNING UPDATE_SKIP"
    ]
    .assert_eq(&kinds.join(" "));
}

#[test]
fn an_event_takes_no_memory_beyond_its_buffer() {
    let mut buffer = Vec::with_capacity(1 << 10);
    let place = buffer.as_ptr();
    for record in all_events() {
        buffer.clear();
        record.as_ref().encode(&mut buffer);
        assert_eq!(buffer.as_ptr(), place, "{record:?} has {} bytes", buffer.len());
    }
}

#[test]
fn a_malformed_event_is_refused_with_its_place() {
    type Change = fn(&mut v1::EventRecord);
    use v1::event_record::{Kind, Platform, Subject as What};

    let unknown = "has no kind that this build knows";
    let cases: [(Change, String); 6] = [
        (|event| event.kind = None, unknown.to_owned()),
        (|event| event.actor = None, "actor: is missing".to_owned()),
        (|event| event.subject = Some(What { what: None }), format!("subject: {unknown}")),
        (|event| event.job = "A".to_owned(), "job: 'A' is not a job name: use lower-case letters, digits and inner hyphens, for example 'a'".to_owned()),
        (
            |event| event.kind = Some(Kind::Submit(v1::PendingCause::default())),
            format!("submit: {unknown}"),
        ),
        (
            |event| event.kind = Some(Kind::Platform(Platform::default())),
            "platform.factorMilli: must be 1 to 100000, is 0".to_owned(),
        ),
    ];
    let event = Event {
        subject: Subject::Cell,
        kind: EventKind::Bootstrapped,
        usage: model::FinalUsage::UNMEASURED,
    };
    let (index, at, names) = (LogIndex(1), Time(2), Names::default());
    let record = Record { index, sub: 0, at, by: Actor::Master, event, names };
    for (change, says) in cases {
        let mut message = v1::EventRecord::from(&record);
        change(&mut message);
        let refused = decode(&message.encode_to_vec()).expect_err("malformed");
        assert_eq!(refused.to_string(), says);
    }
}

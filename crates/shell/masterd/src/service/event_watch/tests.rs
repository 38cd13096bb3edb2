use std::sync::Arc;

use cell::{Cell, Op};
use model::Time;
use store::events::{Event, Events, Options};
use tokio_stream::StreamExt as _;

use super::*;
use crate::service::test_services::TestServices;
use crate::view::View;

/// More operations than several parts have.
const OPERATIONS: u64 = 15_000;

/// One event of each operation: of `rare`, seldom, on `m1`; otherwise of `usual`, on one of 50 machines.
fn record(index: u64) -> v1::EventRecord {
    let is_rare = [3, 4_095, 4_096, 9_000, 9_001].contains(&index);
    let (job, machine) = match is_rare {
        true => ("rare", "m1".to_owned()),
        false => ("usual", format!("m{}", 2 + index % 50)),
    };
    v1::EventRecord {
        index,
        time: index,
        user: "ana".to_owned(),
        job: job.to_owned(),
        machine,
        ..v1::EventRecord::default()
    }
}

fn services() -> TestServices {
    services_at(OPERATIONS)
}

/// The same when this many operations are applied, and the events of the last ones are not stored yet.
fn services_at(applied: u64) -> TestServices {
    let services = TestServices::new(1);
    let user = UserName::new("ana").expect("a name");
    let mut cell = Cell::empty();
    let (mut events, _) =
        Events::open(services.directory.path(), Options::default()).expect("events");
    for index in 1..=OPERATIONS {
        cell.apply(Time(index), &Op::OpenSession { user: user.clone() });
        let payload = record(index).encode_to_vec();
        let event = Event { index, sub: 0, time_us: index, payload: &payload };
        events.append(&[event]).expect("appended");
    }
    for index in OPERATIONS + 1..=applied {
        cell.apply(Time(index), &Op::OpenSession { user: user.clone() });
    }
    assert_eq!(cell.index().0, applied);
    services.views.send_replace(Arc::new(View::of(cell)));
    services
}

/// The indices of the events of an answer, and where it ends.
async fn asked(
    history: &History,
    request: &v1::EventsRequest,
) -> Result<(Vec<u64>, Option<v1::EventCursor>), Status> {
    let answer = history.follow(&Caller::of("ana"), request)?;
    let (mut events, mut next) = (Vec::new(), None);
    let mut stream = answer.into_inner();
    while let Some(message) = stream.next().await {
        let message = message?;
        events.extend(message.events.iter().map(|event| event.index));
        next = message.next;
    }
    Ok((events, next))
}

fn of_job(job: &str, from: From) -> v1::EventsRequest {
    let job = Some(v1::JobAddress { user: "ana".to_owned(), job: job.to_owned() });
    v1::EventsRequest { job, from: Some(from), ..v1::EventsRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_events_are_found_at_any_age_and_then_faster() {
    let services = services();
    let history = &services.history;
    let until = |request, until| v1::EventsRequest {
        until: Some(v1::Moment { at: Some(until) }),
        ..request
    };
    let of_machine = |machine: &str, last| v1::EventsRequest {
        machine: machine.to_owned(),
        from: Some(From::Last(last)),
        ..v1::EventsRequest::default()
    };
    let rare = |last| of_job("rare", From::Last(last));
    let everything = v1::EventsRequest { from: Some(From::Last(2)), ..Default::default() };
    let end = Some(v1::EventCursor { index: OPERATIONS, sub_index: 1 });
    for time in ["first", "second"] {
        for (request, expected) in [
            (rare(10), &[3, 4_095, 4_096, 9_000, 9_001][..]),
            (rare(3), &[4_096, 9_000, 9_001]),
            (rare(1), &[9_001]),
            (of_machine("m1", 10), &[3, 4_095, 4_096, 9_000, 9_001]),
            (of_machine("m2", 2), &[14_950, 15_000]),
            (everything.clone(), &[14_999, 15_000]),
            (until(rare(2), At::Index(9_000)), &[4_096, 9_000]),
            (until(rare(2), At::Time(8_999)), &[4_095, 4_096]),
            (until(rare(9), At::Time(2)), &[]),
        ] {
            match asked(history, &request).await {
                Ok((found, next)) => {
                    assert_eq!(found, expected, "{time}: {request:?}");
                    assert!(request.until.is_some() || next == end, "{time}: {next:?}");
                }
                Err(status) => assert!(expected.is_empty(), "{time}: {request:?}: {status}"),
            }
        }
    }
    // The first part, and the two older ones, and not the newest.
    assert_eq!(history.events.digests.newest(0..3, &[Name::of_machine(b"none")]), None);
    assert_eq!(history.events.digests.newest(0..4, &[Name::of_machine(b"none")]), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_knows_where_it_was_reads_only_what_is_newer() {
    let services = services();
    let history = &services.history;
    let from = |index| From::Cursor(v1::EventCursor { index, sub_index: 0 });
    let end = Some(v1::EventCursor { index: OPERATIONS, sub_index: 1 });
    let usual = asked(history, &of_job("usual", from(14_999))).await.expect("events");
    assert_eq!(usual, (vec![14_999, 15_000], end));
    let machine = v1::EventsRequest {
        machine: "m1".to_owned(),
        from: Some(from(9_001)),
        ..v1::EventsRequest::default()
    };
    assert_eq!(asked(history, &machine).await.expect("events"), (vec![9_001], end));
    let none = v1::EventsRequest { from: Some(from(9_002)), ..machine };
    assert_eq!(asked(history, &none).await.expect("no events"), (vec![], end));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_continues_before_events_that_are_not_stored_yet() {
    let end = Some(v1::EventCursor { index: OPERATIONS, sub_index: 1 });
    // The newest part begins with the first number, and has no event.
    for applied in [16_384, 16_390, 30_000] {
        let services = services_at(applied);
        for (job, expected) in [("usual", vec![14_999, 15_000]), ("rare", vec![9_000, 9_001])] {
            let found = asked(&services.history, &of_job(job, From::Last(2))).await;
            assert_eq!(found.expect("events"), (expected, end), "{applied}: {job}");
        }
    }
}

/// As after a restoration: the replica continues from a state whose events it does not have.
#[tokio::test(flavor = "multi_thread")]
async fn missing_events_are_a_gap_and_the_rest_is_read() {
    let services = TestServices::new(1);
    let user = UserName::new("ana").expect("a name");
    let mut cell = Cell::empty();
    let (mut events, _) =
        Events::open(services.directory.path(), Options::default()).expect("events");
    for index in 1..=5_010 {
        cell.apply(Time(index), &Op::OpenSession { user: user.clone() });
        if index == 5_000 {
            events.resume(index).expect("there is room");
        }
        if !(101..5_000).contains(&index) {
            let payload = record(index).encode_to_vec();
            let event = Event { index, sub: 0, time_us: index, payload: &payload };
            events.append(&[event]).expect("appended");
        }
    }
    services.views.send_replace(Arc::new(View::of(cell)));
    let at = |index, sub_index| v1::EventCursor { index, sub_index };
    let whole = (at(100, 1), at(5_000, 0));
    for (from, first, count, gap) in [
        (None, 1, 111, Some(whole)),
        (Some(From::Last(1_000)), 1, 111, Some(whole)),
        (Some(From::Last(4)), 5_007, 4, None),
        (Some(From::Since(50)), 50, 62, Some(whole)),
        (Some(From::Cursor(at(90, 0))), 90, 22, Some(whole)),
        (Some(From::Cursor(at(700, 0))), 5_000, 11, Some((at(700, 0), at(5_000, 0)))),
        (Some(From::Cursor(at(5_001, 0))), 5_001, 10, None),
    ] {
        let request = v1::EventsRequest { from, ..v1::EventsRequest::default() };
        let answer = services.history.follow(&Caller::of("ana"), &request);
        let mut stream = answer.expect("it is allowed").into_inner();
        let (mut found, mut gaps) = (Vec::new(), Vec::new());
        while let Some(message) = stream.next().await {
            let message = message.expect("it goes on behind a gap");
            if let Some(v1::EventGap { from: Some(from), until: Some(until) }) = message.gap {
                assert!(found.iter().all(|index| *index < until.index), "it is where it belongs");
                gaps.push((from, until));
            }
            found.extend(message.events.iter().map(|event| event.index));
        }
        assert_eq!((found.first(), found.len()), (Some(&first), count), "{from:?}");
        assert!(found.is_sorted(), "{from:?}");
        assert_eq!(gaps, gap.into_iter().collect::<Vec<_>>(), "{from:?}");
    }
}

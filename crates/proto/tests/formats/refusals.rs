//! What is refused, with the place and the reason.

use cell::{Cell, Op};
use pbjson_types::Duration;
use prost::Message;
use proto::image::read_image;
use proto::log::decode_record;
use proto::{Malformed, v1};
use spec::{JobSpec, TaskSpec};
use v1::image_part::Part;

use crate::golden::{full_image, full_job};
use crate::history::parts;

fn job_says(change: impl FnOnce(&mut v1::JobSpec)) -> String {
    let mut job = v1::JobSpec::from(&full_job());
    change(&mut job);
    JobSpec::try_from(job).expect_err("malformed").to_string()
}

const NOT_A_SPAN: &str = "are not a span: it is whole microseconds, not negative, and at most \
                          18446744073709551615 µs";

#[test]
fn a_malformed_job_is_refused_with_its_place() {
    type Change = fn(&mut v1::JobSpec);
    let cases: &[(Change, &str)] = &[
        (|job| job.name.clear(), "name: a job name cannot be empty"),
        (
            |job| job.priority = Some(451),
            "priority: a priority is a number from 0 to 450, this one is 451",
        ),
        (
            |job| job.appclass = 0,
            "appclass: has the value 0, which stands for nothing that this build knows",
        ),
        (
            |job| job.appclass = 9,
            "appclass: has the value 9, which stands for nothing that this build knows",
        ),
        (|job| job.ram_bytes = -1, "ramBytes: must be 0 to 9223372036854775807, is -1"),
        (|job| job.notice = None, "notice: is missing"),
        (|job| job.restart = None, "restart: is missing"),
        (
            |job| job.restart.as_mut().expect("there").delay_max = None,
            "restart.delayMax: is missing",
        ),
        (
            |job| job.health_check.as_mut().expect("there").port = "HTTP".to_owned(),
            "healthCheck.port: 'HTTP' is not a port name: use lower-case letters, digits and inner \
             hyphens, for example 'http'",
        ),
        (|job| job.ports.push("admin".to_owned()), "ports[1]: is listed twice"),
        (|job| job.ports.insert(0, String::new()), "ports[0]: a port name cannot be empty"),
        (
            |job| job.overrides.get_mut(&7).expect("there").ram_bytes = None,
            "overrides[\"7\"]: of cpuMilli, ramBytes, diskBytes and diskRateBytes give all or none",
        ),
        (
            |job| job.overrides.get_mut(&7).expect("there").cpu_milli = Some(-5),
            "overrides[\"7\"].cpuMilli: must be 0 to 9223372036854775807, is -5",
        ),
    ];
    for (change, says) in cases {
        assert_eq!(job_says(change), *says);
    }
}

#[test]
fn a_duration_that_is_no_span_is_refused() {
    let cases = [
        (-1, 0),
        (0, -1_000),
        (0, 1),
        (0, 1_000_000_000),
        (18_446_744_073_709, 551_616_000),
        (18_446_744_073_710, 0),
        (i64::MAX, 0),
        (i64::MIN, i32::MIN),
    ];
    for (seconds, nanos) in cases {
        let says = job_says(|job| job.notice = Some(Duration { seconds, nanos }));
        assert_eq!(says, format!("notice: {seconds} s and {nanos} ns {NOT_A_SPAN}"));
    }
}

#[test]
fn absent_fields_of_a_task_are_refused() {
    let task = v1::TaskSpec::from(&full_job().task);
    let without_limit = v1::TaskSpec { limit: None, ..task.clone() };
    let says = TaskSpec::try_from(without_limit).expect_err("malformed").to_string();
    assert_eq!(says, "limit: is missing");
    let without_check = v1::TaskSpec { health_check: None, ..task };
    assert_eq!(TaskSpec::try_from(without_check).expect("a task").health_check, None);
}

#[test]
fn a_malformed_record_is_refused_with_its_place() {
    use v1::op::{Op as Kind, Request, request::Mutation};
    let says = |op: Option<Kind>| {
        let op = Some(v1::Op { op });
        let record = v1::LogRecord { at: 1, op }.encode_to_vec();
        decode_record(&record).expect_err("malformed").to_string()
    };
    let unknown = "is of no kind that this build knows";
    let request = |mutation| {
        let id = Some(v1::RequestId { session: 1, sequence: 1 });
        Some(Kind::Request(Request { id, by: "ana".to_owned(), mutation }))
    };
    let selection = v1::TaskSelection { all: true, ranges: vec![v1::IndexRange::default()] };
    let kill = |tasks| request(Some(Mutation::Kill(v1::op::Kill { collection: 1, tasks })));
    let observe = |observation| {
        Some(Kind::Observe(v1::op::Observe { machine: 1, observations: vec![observation] }))
    };
    let instance = Some(v1::InstanceId::default());
    let ended = |how| Some(v1::observation::What::Ended(v1::End { how }));
    let assignment = v1::Assignment { instance, machine: 1, ports: vec![1, 65_536] };
    let cases = [
        (None, format!("op: {unknown}")),
        (request(None), format!("op.request: {unknown}")),
        (kill(None), "op.request.kill.tasks: is missing".to_owned()),
        (
            kill(Some(selection)),
            "op.request.kill.tasks: selects all tasks and single ones".to_owned(),
        ),
        (
            request(Some(Mutation::Submit(v1::JobSpec::default()))),
            "op.request.submit.notice: is missing".to_owned(),
        ),
        (
            Some(Kind::OpenSession(v1::op::OpenSession { user: String::new() })),
            "op.openSession.user: a user name cannot be empty".to_owned(),
        ),
        (
            Some(Kind::Assign(v1::op::Assign { assignments: vec![assignment] })),
            "op.assign.assignments[0].ports[1]: must be 0 to 65535, is 65536".to_owned(),
        ),
        (
            observe(v1::Observation { instance: None, what: ended(None) }),
            "op.observe.observations[0].instance: is missing".to_owned(),
        ),
        (
            observe(v1::Observation { instance, what: None }),
            format!("op.observe.observations[0]: {unknown}"),
        ),
        (
            observe(v1::Observation { instance, what: ended(Some(v1::end::How::Exited(256))) }),
            "op.observe.observations[0].ended.exited: must be 0 to 255, is 256".to_owned(),
        ),
    ];
    for (op, expected) in cases {
        assert_eq!(says(op), expected);
    }
    let no_op = decode_record(&[]).expect_err("malformed").to_string();
    assert_eq!(no_op, "op: is missing");
    let no_message = decode_record(&[0xff]).expect_err("malformed").to_string();
    assert!(no_message.starts_with("these bytes are not the message"), "{no_message}");
}

/// The full image with its parts changed.
fn image_says(change: impl FnOnce(&mut Vec<v1::ImagePart>)) -> String {
    let decode =
        |bytes: &Vec<u8>| v1::ImagePart::decode_length_delimited(bytes.as_slice()).expect("a part");
    let mut all = parts(&full_image()).iter().map(decode).collect();
    change(&mut all);
    let bytes: Vec<Vec<u8>> = all.iter().map(Message::encode_length_delimited_to_vec).collect();
    read_image(&bytes.concat()).expect_err("malformed").to_string()
}

fn head(parts: &mut [v1::ImagePart]) -> &mut v1::ImageHead {
    match parts[0].part.as_mut() {
        Some(Part::Head(head)) => head,
        other => panic!("no head: {other:?}"),
    }
}

#[test]
fn a_malformed_image_is_refused_with_its_place() {
    type Change = fn(&mut Vec<v1::ImagePart>);
    let order = "is out of order: machines, jobs and sessions follow the head, each by rising id";
    let cases: &[(Change, String)] = &[
        (
            |all| {
                // The level is what matters, whatever else a later build has written.
                (head(all).level, head(all).name) = (99, "A B".to_owned());
            },
            "head.level: needs level 99 of the state machine, and this build knows levels up to 1: \
             it is too old"
                .to_owned(),
        ),
        (|all| head(all).level = 0, "head.level: must be 1 to 1, is 0".to_owned()),
        (
            |all| head(all).administrators = vec![String::new()],
            "head.administrators[0]: a user name cannot be empty".to_owned(),
        ),
        (|all| head(all).jobs += 1, "head.jobs: says 3, and 2 are there".to_owned()),
        (|all| drop(all.pop()), "head.sessions: says 2, and 1 are there".to_owned()),
        (|all| drop(all.remove(0)), "head: is missing".to_owned()),
        (Vec::clear, "head: is missing".to_owned()),
        (|all| all.swap(1, 2), format!("parts[2]: {order}")),
        (|all| all.swap(3, 4), format!("parts[4]: {order}")),
        (|all| all.push(all[0].clone()), format!("parts[8]: {order}")),
        (
            |all| all[1].part = None,
            "parts[1]: is of no kind that this build knows".to_owned(),
        ),
        (
            |all| {
                let Some(Part::Job(job)) = &mut all[4].part else { panic!("no job") };
                let Some(v1::task_image::State::Placement(placement)) = &mut job.tasks[1].state
                else {
                    panic!("not placed")
                };
                placement.health = 1;
            },
            "parts[4].job.tasks[1].placement.health: is known of a task that has not started"
                .to_owned(),
        ),
        (
            |all| {
                let Some(Part::Session(session)) = &mut all[6].part else { panic!("no session") };
                session.answers.insert(9, v1::Answer { answer: None });
            },
            "parts[6].session.answers[\"9\"]: is of no kind that this build knows".to_owned(),
        ),
    ];
    for (change, says) in cases {
        assert_eq!(image_says(change), *says);
    }
}

#[test]
fn an_image_that_is_cut_off_says_how_far_it_goes() {
    let bytes = parts(&Cell::empty().image()).concat();
    let says = read_image(&bytes[..3]).expect_err("malformed").to_string();
    assert_eq!(says, format!("parts[0]: is cut off: 2 bytes are there, {} should be", bytes[0]));
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    assert!(read_image(&huge).is_err(), "a length from outside takes no memory");
}

#[test]
fn an_error_knows_its_place_in_the_message() {
    let error: Malformed = Op::try_from(v1::Op { op: None }).expect_err("malformed");
    assert_eq!(error.path, spec::Path::top());
    assert_eq!(error.fault, proto::Fault::UnknownKind);
}

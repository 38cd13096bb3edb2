//! Rejected data, with position and reason.

use api::{Duration, Malformed};
use cell::{Cell, Op};
use formats::image::read_image;
use formats::log::decode_record;
use formats::v1;
use prost::Message;
use spec::{JobSpec, TaskSpec};
use v1::image_part::Part;
use v1::task_image::State;

use crate::examples::full_job;
use crate::examples::image::full_image;
use crate::history::parts;

fn job_says(change: impl FnOnce(&mut v1::JobSpec)) -> String {
    let mut job = v1::JobSpec::from(&full_job());
    change(&mut job);
    JobSpec::try_from(job).expect_err("malformed").to_string()
}

const NOT_A_SPAN: &str = "are not a span: it is whole microseconds, not negative, and at most \
                          18446744073709551615 µs";

const HIDDEN: &str = "hiddenEnv: the values of env are hidden from the user who got this \
                      description: give env with values instead";
const HIDDEN_OF_7: &str = "overrides[\"7\"].hiddenEnv: the values of env are hidden from the user \
                           who got this description: give env with values instead";

#[test]
fn a_malformed_job_is_refused_with_its_place() {
    type Change = fn(&mut v1::JobSpec);
    let cases: &[(Change, &str)] = &[
        (|job| job.name.clear(), "name: a job name cannot be empty"),
        (
            |job| job.priority = Some(451),
            "priority: a priority is a number from 0 to 450, this one is 451",
        ),
        (|job| job.appclass = 0, "appclass: has the value 0, which this build does not know"),
        (|job| job.appclass = 9, "appclass: has the value 9, which this build does not know"),
        (|job| job.ram_bytes = -1, "ramBytes: must be 0 to 9223372036854775807, is -1"),
        (|job| job.notice = None, "notice: is missing"),
        (|job| job.restart = None, "restart: is missing"),
        (
            |job| job.restart.as_mut().expect("there").delay_max = None,
            "restart.delayMax: is missing",
        ),
        (
            |job| job.health_check.as_mut().expect("there").tcp = "http".to_owned(),
            "healthCheck.tcp: is given for another kind of health check",
        ),
        (
            |job| job.health_check.as_mut().expect("there").exec.push("check".to_owned()),
            "healthCheck.exec: is given for another kind of health check",
        ),
        (
            |job| {
                let check = job.health_check.as_mut().expect("there");
                (check.port, check.tcp) = (String::new(), "http".to_owned());
            },
            "healthCheck.path: is given for another kind of health check",
        ),
        (
            |job| job.health_check.as_mut().expect("there").port.clear(),
            "healthCheck.port: is missing",
        ),
        (
            |job| job.restart.as_mut().expect("there").policy = Some(7),
            "restart.policy: has the value 7, which this build does not know",
        ),
        (
            |job| job.health_check.as_mut().expect("there").port = "HTTP".to_owned(),
            "healthCheck.port: 'HTTP' is not a port name: use lower-case letters, digits and inner \
             hyphens, for example 'http'",
        ),
        (
            |job| job.scheduling_class = Some(4),
            "schedulingClass: a scheduling class is a number from 0 to 3, this one is 4",
        ),
        (
            |job| job.constraints[2].relation = 0,
            "constraints[2].relation: has the value 0, which this build does not \
             know",
        ),
        (
            |job| job.after.push("ben/Extract".to_owned()),
            "after[2]: 'Extract' is not a job name: use lower-case letters, digits and inner \
             hyphens, for example 'extract'",
        ),
        (|job| job.after.push("/web".to_owned()), "after[2]: a user name cannot be empty"),
        (|job| job.after.push("load:ended".to_owned()), "after[2]: is listed twice"),
        (|job| job.parent = "ana/".to_owned(), "parent: a job name cannot be empty"),
        (
            |job| {
                let change = job.overrides.get_mut(&7).expect("there");
                change.ports.as_mut().expect("there").names.push("Debug".to_owned());
            },
            "overrides[\"7\"].ports[2]: 'Debug' is not a port name: use lower-case letters, \
             digits and inner hyphens, for example 'debug'",
        ),
        (
            |job| {
                let change = job.overrides.get_mut(&7).expect("there");
                change.constraints.as_mut().expect("there").all[1].relation = 9;
            },
            "overrides[\"7\"].constraints[1].relation: has the value 9, which this build does \
             not know",
        ),
        (
            |job| {
                let change = job.overrides.get_mut(&7).expect("there");
                change.health_check.as_mut().expect("there").timeout = None;
            },
            "overrides[\"7\"].healthCheck.timeout: is missing",
        ),
        (|job| job.hide_env(), HIDDEN),
        (
            |job| {
                let (env, files) = (std::mem::take(&mut job.env), std::mem::take(&mut job.files));
                job.hide_env();
                (job.env, job.hidden_env, job.files) = (env, Vec::new(), files);
            },
            HIDDEN_OF_7,
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
    let unknown = "has no kind that this build knows";
    let request = |mutation| {
        let id = Some(v1::RequestId { session: 1, sequence: 1 });
        Some(Kind::Request(Request { id, by: "ana".to_owned(), mutation }))
    };
    let selection = v1::TaskSelection { all: true, ranges: vec![v1::IndexRange::default()] };
    let kill = |tasks| {
        request(Some(Mutation::Kill(v1::op::Kill {
            owner: "ana".to_owned(),
            job: "web".to_owned(),
            tasks,
            now: false,
        })))
    };
    let observe = |observation| {
        Some(Kind::Observe(v1::op::Observe { machine: 1, observations: vec![observation] }))
    };
    let instance = Some(v1::InstanceId::default());
    let ended = |how| Some(v1::observation::What::Ended(v1::End { how }));
    let ports = vec![1, 65_536];
    let assignment = v1::Assignment {
        network_address: None,
        instance,
        alloc: None,
        machine: 1,
        ports,
        victims: Vec::new(),
    };
    let attributes = |unset: &[&str]| {
        request(Some(Mutation::SetAttributes(v1::op::SetAttributes {
            machine: "m1".to_owned(),
            set: [("rack".to_owned(), "r1".to_owned())].into(),
            unset: unset.iter().map(|name| (*name).to_owned()).collect(),
        })))
    };
    let platform = |factor_milli| {
        let platform = "p".to_owned();
        request(Some(Mutation::SetPlatform(v1::op::SetPlatform { platform, factor_milli })))
    };
    let cases = [
        (None, format!("op: {unknown}")),
        (request(None), format!("op.request: {unknown}")),
        (kill(None), "op.request.kill.tasks: is missing".to_owned()),
        (
            kill(Some(selection)),
            "op.request.kill.tasks: selects both all tasks and single ones".to_owned(),
        ),
        (
            request(Some(Mutation::Submit(v1::JobSpec::default()))),
            "op.request.submit.notice: is missing".to_owned(),
        ),
        (
            request(Some(Mutation::DrainMachine(v1::op::DrainMachine::default()))),
            "op.request.drainMachine.machine: a machine name cannot be empty".to_owned(),
        ),
        (
            attributes(&["note", "rack"]),
            "op.request.setAttributes.unset[1]: is listed twice".to_owned(),
        ),
        (
            attributes(&["note", "note"]),
            "op.request.setAttributes.unset[1]: is listed twice".to_owned(),
        ),
        (
            request(Some(Mutation::SetReclamation("most".to_owned()))),
            "op.request.setReclamation: 'most' is not a setting of resource reclamation: use one of off, \
             baseline, medium, aggressive"
                .to_owned(),
        ),
        (platform(0), "op.request.setPlatform.factorMilli: must be 1 to 100000, is 0".to_owned()),
        (
            platform(100_001),
            "op.request.setPlatform.factorMilli: must be 1 to 100000, is 100001".to_owned(),
        ),
        (
            Some(Kind::OpenSession(v1::op::OpenSession { user: String::new() })),
            "op.openSession.user: a user name cannot be empty".to_owned(),
        ),
        (
            Some(Kind::Assign(v1::op::Assign {
                assignments: vec![assignment],
                by: "main".to_owned(),
                began: None,
            })),
            "op.assign.assignments[0].ports[1]: must be 0 to 65535, is 65536".to_owned(),
        ),
        (
            observe(v1::Observation { instance: None, what: ended(None), ..Default::default() }),
            "op.observe.observations[0].instance: is missing".to_owned(),
        ),
        (
            observe(v1::Observation { instance, ..Default::default() }),
            format!("op.observe.observations[0]: {unknown}"),
        ),
        (
            observe(v1::Observation {
                instance,
                what: ended(Some(v1::end::How::Exited(256))),
                ..Default::default()
            }),
            "op.observe.observations[0].ended.exited: must be 0 to 255, is 256".to_owned(),
        ),
        (
            observe(v1::Observation {
                instance,
                what: ended(Some(v1::end::How::Exited(0))),
                usage: Some(v1::FinalUsage {
                    memory_peak_bytes: Some(-1),
                    ..v1::FinalUsage::default()
                }),
                check: String::new(),
                latency: None,
            }),
            format!(
                "op.observe.observations[0].usage.memoryPeakBytes: must be 0 to {}, is -1",
                i64::MAX
            ),
        ),
        (
            Some(Kind::Enrol(v1::Enrol { token: "07".to_owned(), ..Default::default() })),
            "op.enrol.key: '' is not the digest of a key: use 64 lower-case hexadecimal digits"
                .to_owned(),
        ),
        (
            Some(Kind::ChangeMember(v1::ChangeMember { replica: 2, to: 9 })),
            "op.changeMember.to: has the value 9, which this build does not know".to_owned(),
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

/// The state of a task of the first job.
fn state(parts: &mut [v1::ImagePart], task: usize) -> &mut State {
    match parts[4].part.as_mut() {
        Some(Part::Job(job)) => job.tasks[task].state.as_mut().expect("a state"),
        other => panic!("no job: {other:?}"),
    }
}

fn placement(parts: &mut [v1::ImagePart], task: usize) -> &mut v1::task_image::Placement {
    match state(parts, task) {
        State::Placement(placement) => placement,
        other => panic!("not placed: {other:?}"),
    }
}

#[test]
fn a_malformed_image_is_refused_with_its_place() {
    type Change = fn(&mut Vec<v1::ImagePart>);
    let order =
        "is out of order: machines, jobs, sessions and grants follow the head, each by rising id";
    let cases: &[(Change, String)] = &[
        (
            |all| {
                // Only the level matters, whatever else a later build has written.
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
        (
            |all| {
                head(all).platforms.insert("arm64".to_owned(), 0);
            },
            "head.platforms[\"arm64\"]: must be 1 to 100000, is 0".to_owned(),
        ),
        (
            |all| {
                let certificates = vec![v1::UserCertificate::default()];
                let user = v1::image_head::User { certificates, name: "ana".to_owned(), ..Default::default() };
                head(all).users = vec![user];
            },
            "head.users[0].certificates[0].serial: '' is not the serial number of a certificate: \
             that is 2 to 40 lower-case hexadecimal digits, without zeros before it"
                .to_owned(),
        ),
        (
            |all| {
                let recorded = vec![v1::Replica::default()];
                head(all).replicas = Some(v1::image_head::Replicas { last: 1, recorded });
            },
            "head.replicas.recorded[0].member: has the value 0, which this build does not \
             know"
                .to_owned(),
        ),
        (
            |all| {
                let token = v1::image_head::Token { machine: "m1".to_owned(), ..Default::default() };
                let tokens = vec![token];
                let enrolment = v1::image_head::Enrolment { tokens, ..Default::default() };
                head(all).enrolment = Some(enrolment);
            },
            "head.enrolment.tokens[0].issued: is missing".to_owned(),
        ),
        (|all| head(all).jobs += 1, "head.jobs: is 14, but there are 13".to_owned()),
        (|all| drop(all.pop()), "head.secrets: is 4, but there are 3".to_owned()),
        (|all| drop(all.remove(0)), "head: is missing".to_owned()),
        (Vec::clear, "head: is missing".to_owned()),
        (|all| all.swap(1, 2), format!("parts[2]: {order}")),
        (|all| all.swap(3, 4), format!("parts[4]: {order}")),
        (|all| all.push(all[0].clone()), format!("parts[27]: {order}")),
        (
            |all| all[1].part = None,
            "parts[1]: has no kind that this build knows".to_owned(),
        ),
        (
            |all| placement(all, 1).health = 1,
            "parts[4].job.tasks[1].placement.health: is set for a task that has not started"
                .to_owned(),
        ),
        (
            |all| placement(all, 2).stop = Some(v1::StopReason { why: None }),
            "parts[4].job.tasks[2].placement.stop: has no kind that this build knows".to_owned(),
        ),
        (
            |all| {
                let State::Dead(dead) = state(all, 9) else { panic!("not dead") };
                dead.death = None;
            },
            "parts[4].job.tasks[9].dead.death: is missing".to_owned(),
        ),
        (
            |all| {
                let State::Pending(pending) = state(all, 10) else { panic!("not pending") };
                let cause = v1::PendingCause { cause: None };
                pending.cause = Some(cause);
            },
            "parts[4].job.tasks[10].pending.cause: has no kind that this build knows".to_owned(),
        ),
        (
            |all| {
                let Some(Part::Machine(machine)) = &mut all[3].part else { panic!("no machine") };
                machine.drain.as_mut().expect("it is drained").by.clear();
            },
            "parts[3].machine.drain.by: a user name cannot be empty".to_owned(),
        ),
        (
            |all| {
                let Some(Part::Session(session)) = &mut all[17].part else { panic!("no session") };
                session.answers.insert(9, v1::Answer { answer: None });
            },
            "parts[17].session.answers[\"9\"]: has no kind that this build knows".to_owned(),
        ),
        (
            |all| {
                let Some(Part::Session(session)) = &mut all[17].part else { panic!("no session") };
                let submitted = v1::answer::Submitted { collection: 1, ..Default::default() };
                let answer = Some(v1::answer::Answer::Submitted(submitted));
                session.answers.insert(9, v1::Answer { answer });
            },
            "parts[17].session.answers[\"9\"].submitted.submission: has the value 0, which this \
             build does not know"
                .to_owned(),
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
    assert_eq!(says, format!("parts[0]: is cut off: only 2 of {} bytes are left", bytes[0]));
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    assert!(read_image(&huge).is_err(), "a length from outside takes no memory");
}

#[test]
fn an_error_knows_its_place_in_the_message() {
    let error: Malformed = Op::try_from(v1::Op { op: None }).expect_err("malformed");
    assert_eq!(error.path, spec::Path::top());
    assert_eq!(error.fault, api::Fault::UnknownKind);
}

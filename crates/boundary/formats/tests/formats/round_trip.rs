//! What is written is read back exactly.

use api::Malformed;
use api::json::{job_to_json, jobs_to_json};
use cell::{Rejection, Reply};
use formats::log::{decode_record, encode_record};
use formats::v1;
use model::{End, MachineReport, Span, Time};
use proptest::prelude::*;
use prost::Message;
use spec::{JobSpec, TaskSpec};

use crate::arbitrary::job::{any_job, valid_job};
use crate::arbitrary::op::{answer, op};
use crate::arbitrary::{all_usage, end, machine_report, order, report};
use crate::examples::full_job;

/// Through the message and its bytes.
fn through<M, T>(value: &T) -> Result<T, Malformed>
where
    M: Message + Default + for<'a> From<&'a T>,
    T: TryFrom<M, Error = Malformed>,
{
    let bytes = M::from(value).encode_to_vec();
    T::try_from(M::decode(bytes.as_slice()).expect("a message"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn valid_jobs_are_read_back_from_bytes_and_from_json(job in valid_job()) {
        prop_assert_eq!(job.problems(), vec![]);
        prop_assert_eq!(through::<v1::JobSpec, _>(&job), Ok(job.clone()));
        let read: v1::JobSpec = serde_json::from_str(&job_to_json(&job)).expect("JSON");
        prop_assert_eq!(JobSpec::try_from(read), Ok(job));
    }

    #[test]
    fn jobs_that_no_cell_admits_are_read_back_too(job in any_job()) {
        prop_assert_eq!(through::<v1::JobSpec, _>(&job), Ok(job.clone()));
        let json = serde_json::to_string(&v1::JobSpec::from(&job)).expect("JSON");
        let read: v1::JobSpec = serde_json::from_str(&json).expect("JSON");
        prop_assert_eq!(JobSpec::try_from(read), Ok(job.clone()));
        // A machine is sent everything of a task except its constraints.
        let told = TaskSpec { constraints: Vec::new(), ..job.task.clone() };
        prop_assert_eq!(through::<v1::TaskSpec, _>(&job.task), Ok(told));
    }

    #[test]
    fn records_are_read_back(at in any::<u64>(), op in op()) {
        let record = encode_record(Time(at), &op);
        prop_assert_eq!(decode_record(&record), Ok((Time(at), op.clone())));
        prop_assert_eq!(encode_record(Time(at), &op), record, "the same record has the same bytes");
    }

    #[test]
    fn orders_are_read_back(order in order()) {
        prop_assert_eq!(through::<v1::Order, _>(&order), Ok(order));
    }

    #[test]
    fn reports_are_read_back(report in report()) {
        prop_assert_eq!(through::<v1::Report, _>(&report), Ok(report));
    }

    #[test]
    fn answers_are_read_back(answer in answer()) {
        let read = through::<v1::Answer, Result<Reply, Rejection>>(&answer);
        prop_assert_eq!(read, Ok(answer));
    }

    #[test]
    fn usage_is_read_back(usage in all_usage()) {
        prop_assert_eq!(through::<v1::MeasuredUsage, _>(&usage), Ok(usage));
    }

    #[test]
    fn ends_and_machines_are_read_back(end in end(), machine in machine_report()) {
        prop_assert_eq!(through::<v1::End, End>(&end), Ok(end));
        prop_assert_eq!(through::<v1::MachineReport, MachineReport>(&machine), Ok(machine));
    }

    #[test]
    fn spans_are_read_back(micros in prop_oneof![any::<u64>(), Just(u64::MAX), Just(0)]) {
        prop_assert_eq!(api::span(&api::duration(Span(micros))), Ok(Span(micros)));
    }
}

#[test]
fn one_job_is_an_object_and_several_are_an_array() {
    let job = full_job();
    let count = |jobs: &[JobSpec]| {
        let json: serde_json::Value = serde_json::from_str(&jobs_to_json(jobs)).expect("JSON");
        json.as_array().map(Vec::len)
    };
    assert_eq!(count(&[]), Some(0));
    assert_eq!(count(std::slice::from_ref(&job)), None);
    assert_eq!(count(&[job.clone(), job]), Some(2));
}

#[test]
fn a_job_without_a_scheduling_class_has_the_usual_one() {
    let mut message = v1::JobSpec::from(&full_job());
    message.scheduling_class = None;
    let class = |message: &v1::JobSpec| {
        JobSpec::try_from(message.clone()).expect("a job").scheduling_class.number()
    };
    assert_eq!(class(&message), 2);
    message.appclass = v1::Appclass::Batch.into();
    assert_eq!(class(&message), 0);
}

#[test]
fn an_override_that_lists_nothing_is_not_one_that_says_nothing() {
    let json = job_to_json(&full_job());
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let empty = &value["overrides"]["6"];
    assert_eq!(*empty, serde_json::json!({ "ports": [], "constraints": [] }));
    let read: v1::JobSpec = serde_json::from_str(&json).expect("a job");
    assert_eq!(JobSpec::try_from(read), Ok(full_job()));
}

#[test]
fn answers_have_the_fields_that_are_0_and_descriptions_have_not() {
    fn json(message: impl serde::Serialize) -> String {
        serde_json::to_string(&message).expect("JSON")
    }
    let counts = v1::JobCounts { tasks: 1, ..v1::JobCounts::default() };
    let job = v1::JobStatus { spec: Some(v1::JobSpec::default()), ..v1::JobStatus::default() };
    for (written, expected) in [
        (
            json(counts),
            r#"{"tasks":1,"pending":0,"scheduled":0,"running":0,"healthy":0,"finished":0,"failed":0,"killed":0,"queued":0}"#,
        ),
        (
            json(job),
            r#"{"collection":"0","user":"","spec":{},"submitted":"0","state":"unknown","tasks":[],"waitsFor":[],"reason":"","allocSet":"","jobs":[],"version":0,"lastVersion":0,"versions":[],"withoutTask":[],"machinesWithoutTask":0,"waits":[]}"#,
        ),
        (
            json(v1::MachineReport::default()),
            r#"{"firstPort":0,"lastPort":0,"attributes":{},"taskNetwork":"","volumes":[]}"#,
        ),
        (json(v1::IndexRange::default()), r#"{"first":0,"last":0}"#),
        (json(v1::HealthCheck::default()), "{}"),
        (json(v1::RestartPolicy::default()), "{}"),
        (json(v1::TaskOverride::default()), "{}"),
    ] {
        assert_eq!(written, expected);
    }
}

#[test]
fn a_quantity_that_the_format_cannot_hold_becomes_the_highest_there_is() {
    let mut end = End::OutOfMemory { limit: model::Bytes(u64::MAX), peak: model::Bytes(1) };
    end = through::<v1::End, _>(&end).expect("an end");
    let highest = model::Bytes(i64::MAX.unsigned_abs());
    assert_eq!(end, End::OutOfMemory { limit: highest, peak: model::Bytes(1) });
}

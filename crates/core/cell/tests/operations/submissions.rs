//! What a submission answers: the version, the changes and the quota of the operation that admitted it,
//! whatever happens to the job before the answer is read.

use std::sync::Arc;

use cell::bounds::ANSWER_CHANGES_BYTES_MAX;
use cell::{ExpiringQuota, Mutation, Op, Outcome, Reply, RequestId, Submission};
use model::{Band, Bytes, MilliCores, Resources, SessionId, Time};
use script::Script;
use spec::JobSpec;

use crate::script::{submitted, user};

/// The reply to the last of some lines.
fn reply(script: &mut Script, lines: &[&str]) -> Reply {
    let mut last = None;
    for line in lines {
        let steps = script.command(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        last = steps.into_iter().next_back();
    }
    match last.expect("a line").applied.outcome {
        Outcome::Request(Ok(reply)) => reply,
        other => panic!("{other:?}"),
    }
}

/// What a submission did, its version, and the changes.
fn told(reply: &Reply) -> (Submission, u32, Vec<String>) {
    let Reply::Submitted { submission, version, changes, .. } = reply else { panic!("{reply:?}") };
    (*submission, version.0, changes.iter().map(ToString::to_string).collect())
}

#[test]
fn a_submission_answers_with_its_own_version_even_when_repeated() {
    let mut script = Script::default();
    let new = reply(
        &mut script,
        &["bootstrap cc root", "open ana", "request 1#1 as ana submit ana/web 1"],
    );
    assert_eq!(told(&new), (Submission::New, 1, vec![]));
    let second = reply(&mut script, &["request 1#2 as ana submit ana/web 1 cpu=101"]);
    assert_eq!(
        told(&second),
        (Submission::Updated, 2, vec!["cpu 0.1 cores → 0.101 cores".to_owned()])
    );
    let third = reply(&mut script, &["request 1#3 as ana submit ana/web 2 cpu=102"]);
    let changes = vec!["tasks 1 → 2".to_owned(), "cpu 0.101 cores → 0.102 cores".to_owned()];
    assert_eq!(told(&third), (Submission::Updated, 3, changes));
    let same = reply(&mut script, &["request 1#4 as ana submit ana/web 2 cpu=102"]);
    assert_eq!(told(&same), (Submission::Unchanged, 3, vec![]));
    // The job has another version now, and a client that did not get the answer repeats the request.
    let again = reply(&mut script, &["request 1#2 as ana submit ana/web 1 cpu=101"]);
    assert_eq!(again, second);
}

#[test]
fn a_session_keeps_few_bytes_of_the_changes_in_an_answer() {
    for (what, name_bytes, kept) in
        [("all fit", 12, 64), ("sixteen fit", 60, 16), ("none fits", ANSWER_CHANGES_BYTES_MAX, 0)]
    {
        let mut script = Script::default();
        reply(
            &mut script,
            &["bootstrap cc root", "open ana", "request 1#1 as ana submit ana/web 1"],
        );
        let mut spec = JobSpec::clone(&submitted("web", 1, &[]));
        let variable = |number| (format!("{number:V>name_bytes$}"), "value".to_owned());
        spec.task.env = (0..64).map(variable).collect();
        let op = Op::Request {
            id: RequestId { session: SessionId(1), sequence: 2 },
            by: user("ana"),
            mutation: Mutation::Submit(Arc::new(spec)),
        };
        let mut ask = || match script.apply(op.clone()).applied.outcome {
            Outcome::Request(Ok(reply)) => told(&reply),
            other => panic!("{what}: {other:?}"),
        };
        let (submission, version, changes) = ask();
        assert_eq!((submission, version, changes.len()), (Submission::Updated, 2, 64), "{what}");
        let repeated = (submission, version, changes[..kept].to_vec());
        assert_eq!(ask(), repeated, "{what}");
    }
}

#[test]
fn an_update_answers_with_its_own_changes() {
    let mut script = Script::default();
    let updated = reply(
        &mut script,
        &["bootstrap cc root", "submit ana/web 1", "submit ana/web 1 cpu=101", "resize ana/web 3"],
    );
    let Reply::Updated { version, unchanged, changes, .. } = updated else { panic!("{updated:?}") };
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    assert_eq!((version.0, unchanged, changes), (3, false, vec!["tasks 1 → 3".to_owned()]));
}

#[test]
fn a_submission_names_the_first_needed_grant_that_ends_within_a_week() {
    let week = 7 * 24 * 60 * 60;
    for (what, until, expires) in [("in a week", week, Some(week)), ("later", week + 1, None)] {
        let mut script = Script::default();
        let grant = format!("grant ana production cpu=600 ram=512 until={until}");
        let reply = reply(
            &mut script,
            &[
                "bootstrap cc root",
                "machine m1 cpu=1000 ram=1024",
                "meter on",
                // Enough without it.
                "grant ana production cpu=100 ram=64 until=50",
                &grant,
                "submit ana/web 1 cpu=200 ram=64",
            ],
        );
        let Reply::Submitted { expiring_quota, .. } = reply else { panic!("{reply:?}") };
        let above =
            Resources { cpu: MilliCores(200), ram: Bytes(64 << 20), ..Resources::default() };
        let expected = expires.map(|seconds| ExpiringQuota {
            band: Band::Production,
            at: Time(seconds * 1_000_000),
            above,
        });
        assert_eq!(expiring_quota, expected, "{what}");
    }
}

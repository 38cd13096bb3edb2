//! Canonical JSON of a job: it is refused, or gives a description whose JSON gives it again. A valid
//! one is also BCL that says the same.

use crate::assert_harmless;
use api::json::job_to_json;
use api::v1;
use bcl::{NoImports, Settings};
use spec::JobSpec;

pub(crate) fn run(bytes: &[u8]) {
    let Ok(message) = serde_json::from_slice::<v1::JobSpec>(bytes) else { return };
    let job = match JobSpec::try_from(message) {
        Ok(job) => job,
        Err(error) => return assert_harmless(&error.to_string()),
    };
    let json = job_to_json(&job);
    let again: v1::JobSpec = serde_json::from_str(&json).expect("what was written is read");
    assert_eq!(JobSpec::try_from(again).as_ref(), Ok(&job), "after {json}");

    let problems = [job.problems(), job.slips()].concat();
    for problem in &problems {
        assert_harmless(&problem.to_string());
    }
    if problems.is_empty() {
        match bcl::evaluate("job.json", json.as_bytes(), &mut NoImports, &Settings::default()) {
            Ok(evaluated) => assert_eq!(evaluated, [job], "{json}"),
            Err(errors) => panic!("{json} is valid, and is refused as BCL:\n{errors}"),
        }
    }
}

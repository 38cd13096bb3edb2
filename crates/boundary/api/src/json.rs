//! Job descriptions as canonical JSON: what `bourg eval` prints, and is itself valid BCL.
//!
//! It is protobuf's JSON: names in camel case, 64-bit numbers as strings, spans as `"1.5s"`, and no
//! fields with default values. Only the lists of an override are plain lists, which protobuf would
//! wrap in messages.

use serde::Serialize;
use spec::JobSpec;

use crate::v1;

/// A job, indented.
#[must_use]
pub fn job_to_json(job: &JobSpec) -> String {
    pretty(&v1::JobSpec::from(job))
}

/// Jobs, indented: a single one as an object, any other number as an array.
#[must_use]
pub fn jobs_to_json(jobs: &[JobSpec]) -> String {
    match jobs {
        [job] => job_to_json(job),
        _ => pretty(&jobs.iter().map(v1::JobSpec::from).collect::<Vec<_>>()),
    }
}

fn pretty(value: &impl Serialize) -> String {
    // Only an unknown enum value or a duration of two signs can fail, and no description contains
    // one.
    serde_json::to_string_pretty(value).expect("every description has its JSON")
}

//! BCL source, plain JSON among it: it is refused in a text that harms no terminal, or gives valid
//! jobs, whose canonical JSON gives the same jobs again.
//!
//! Time and memory during an evaluation are not bounded (see the crate `bcl`): whoever evaluates
//! ends it from outside. So this target runs in libFuzzer's children, and one that takes too long
//! or too much is passed over: `-fork=1 -ignore_timeouts=1 -ignore_ooms=1`.

use crate::assert_harmless;
use api::json::jobs_to_json;
use bcl::{NoImports, Settings};

/// Longer sources take longer and say nothing new.
const SOURCE_BYTES_MAX: usize = 16 << 10;

pub(crate) fn run(source: &[u8]) {
    if source.len() > SOURCE_BYTES_MAX {
        return;
    }
    let variables = [("user", "ana"), ("cell", "dev")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let settings = Settings { variables, ..Settings::default() };
    match bcl::evaluate("fuzz.bcl", source, &mut NoImports, &settings) {
        Ok(jobs) => {
            for job in &jobs {
                assert_eq!(job.problems(), [], "{job:?}");
                assert_eq!(job.slips(), [], "{job:?}");
            }
            let json = jobs_to_json(&jobs);
            let again = bcl::evaluate("again.bcl", json.as_bytes(), &mut NoImports, &settings);
            match again {
                Ok(again) => assert_eq!(again, jobs, "after {json}"),
                Err(errors) => panic!("{json} is refused:\n{errors}"),
            }
        }
        Err(errors) => assert_harmless(&errors.to_string()),
    }
}

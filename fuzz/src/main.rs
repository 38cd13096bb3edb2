//! Any fuzz target under libFuzzer; the environment variable `FUZZ_TARGET` names it. README.md says
//! how it runs.

#![no_main]

use std::sync::OnceLock;

use fuzz_targets::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| TARGET.get_or_init(chosen)(bytes));

/// The target that the environment names. Without one the process ends: no input is at fault.
fn chosen() -> Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    fuzz_targets::target(&name).unwrap_or_else(|| {
        let all: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("FUZZ_TARGET names no target, but '{name}'; there are: {}", all.join(", "));
        std::process::exit(2)
    })
}

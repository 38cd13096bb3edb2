//! Waiting for a condition: the only way in which tests wait.

use std::time::{Duration, Instant};

/// How long anything may take before it counts as hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// Polls until there is a value, and returns it.
///
/// # Panics
/// If there is none after [`PATIENCE`].
#[track_caller]
pub(crate) fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, look)
}

/// The same with another patience, for what computes all the time, and thus takes as much longer as
/// the machine is loaded.
#[track_caller]
pub(crate) fn within<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < patience, "not within {} s: {what}", patience.as_secs());
        std::thread::sleep(LOOK);
    }
}

/// Polls until the condition holds.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, || is_so().then_some(()));
}

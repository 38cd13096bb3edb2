//! What the shim and the init of a task say to the operator.

use std::fmt;
use std::io::{self, Write};

/// Says something to the operator, in the shim's log. Where that finds no room it is lost: nothing may
/// depend on it, least of all the task.
pub(crate) fn message(text: &fmt::Arguments<'_>) {
    let _no_room = io::stderr().write_all(format!("{text}\n").as_bytes());
}

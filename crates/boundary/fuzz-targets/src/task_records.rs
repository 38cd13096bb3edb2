//! The records in a task's directory: any content is refused in a text that harms no terminal, or
//! read, and what was read is read again after it was written.

use std::path::Path;

use crate::{Scratch, assert_harmless};
use linux::record::{EXIT_FILE, Exit, LAUNCH_FILE, Launch, RUNNING_FILE, RecordError, Running};

pub(crate) fn run(content: &[u8]) {
    let scratch = Scratch::new();
    let dir = scratch.path();
    for file in [LAUNCH_FILE, RUNNING_FILE, EXIT_FILE] {
        scratch.write(file, content);
    }
    if let Some(launch) = found(Launch::read(dir)) {
        if let Err(invalid) = launch.check() {
            assert_harmless(&invalid.to_string());
        }
        again(&launch, dir, Launch::write, Launch::read);
    }
    if let Some(running) = found(Running::read(dir)) {
        again(&running, dir, Running::write, Running::read);
    }
    if let Some(exit) = found(Exit::read(dir)) {
        again(&exit, dir, Exit::write, Exit::read);
    }
}

type Read<R> = Result<Option<R>, RecordError>;

fn found<R>(read: Read<R>) -> Option<R> {
    match read {
        Ok(record) => Some(record.expect("the file is there")),
        Err(error) => {
            assert_harmless(&error.to_string());
            None
        }
    }
}

fn again<R: PartialEq + std::fmt::Debug>(
    record: &R,
    dir: &Path,
    write: fn(&R, &Path) -> Result<(), RecordError>,
    read: fn(&Path) -> Read<R>,
) {
    write(record, dir).expect("there is room");
    assert_eq!(read(dir).expect("it was written").as_ref(), Some(record));
}

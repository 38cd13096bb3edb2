//! What concerns the end of tasks: savers, and the notice of those that a job preempts.

use model::Span;
use spec::{Path, Saver};

use crate::fields::{Diagnostics, Fields, Shape};
use crate::json::Json;
use crate::quantity::{self, CMD, word};

const SAVER: Shape = Shape {
    of: "a saver",
    expected: "a saver, such as { cmd: ['tar', 'cf', '/alloc/home.tar', '.'], timeLimit: '10m' }",
    fields: &["cmd", "timeLimit", "interval"],
    spellings: &[],
};

const PREEMPTION: Shape = Shape {
    of: "a preemption policy",
    expected: "a preemption policy, such as { noticeMax: '5s' }",
    fields: &["noticeMax"],
    spellings: &[],
};

/// What runs after the end of a task.
pub(crate) fn saver(value: &Json, path: Path, found: &mut Diagnostics) -> Option<Saver> {
    let fields = Fields::open(value, path, &SAVER, found)?;
    fields.require("cmd", "cmd: ['tar', 'cf', '/alloc/home.tar', '.']", found);
    let cmd = fields.read_list("cmd", CMD, found, word);
    let time_limit = fields.read("timeLimit", found, quantity::span);
    let interval = fields.read("interval", found, quantity::span);
    let usual = Saver::of(cmd?);
    Some(Saver {
        time_limit: time_limit.unwrap_or(usual.time_limit),
        interval: interval.unwrap_or(usual.interval),
        cmd: usual.cmd,
    })
}

/// The maximum notice of those that a job preempts.
pub(crate) fn preemption(value: &Json, path: Path, found: &mut Diagnostics) -> Option<Span> {
    let fields = Fields::open(value, path, &PREEMPTION, found)?;
    fields.read("noticeMax", found, quantity::span)
}

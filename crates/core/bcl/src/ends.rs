//! What concerns the end of tasks: savers, and the notice of those that a job preempts.

use model::{PackageName, Span};
use spec::{LogPolicy, OutputPath, OutputPolicy, Path, Saver};

use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape, Spelling};
use crate::json::Json;
use crate::quantity::{self, CMD, text, word};

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

const LOGS: Shape = Shape {
    of: "a policy for logs",
    expected: "a policy for logs, such as { keep: '7d', max: '256 MiB' }",
    fields: &["keep", "max"],
    spellings: &["maxBytes"],
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

/// How long the output of tasks is kept, and how much of it.
pub(crate) fn logs(value: &Json, path: Path, found: &mut Diagnostics) -> LogPolicy {
    let Some(fields) = Fields::open(value, path, &LOGS, found) else {
        return LogPolicy::default();
    };
    let keep = fields.read("keep", found, quantity::span);
    LogPolicy {
        keep,
        max: fields.read_either(
            &Spelling { name: "max", read: quantity::bytes },
            &Spelling { name: "maxBytes", read: quantity::whole_bytes },
            found,
        ),
    }
}

const OUTPUTS: &str = "a list of paths, such as ['result.txt', 'out']";

const OUTPUTS_AND_PACKAGE: Shape =
    Shape { of: "outputs", expected: OUTPUTS, fields: &["paths", "package"], spellings: &[] };
/// In canonical JSON, beside the paths.
pub(crate) const OUTPUTS_PACKAGE: &str = "outputsPackage";

/// What is kept of the files of tasks after their end, and how long.
pub(crate) fn outputs(fields: &Fields<'_>, found: &mut Diagnostics) -> OutputPolicy {
    let keep = fields.read("keepOutputs", found, quantity::span);
    let (paths, package) = match fields.get("outputs") {
        Some(value) if value.object().is_some() => {
            let at = fields.path.field("outputs");
            match Fields::open(value, at, &OUTPUTS_AND_PACKAGE, found) {
                Some(inner) => {
                    inner.require("paths", "paths: ['result.txt', 'out']", found);
                    let paths = inner.read_list("paths", OUTPUTS, found, output);
                    (paths, inner.read("package", found, output_package))
                }
                None => (None, None),
            }
        }
        _ => (
            fields.read_list("outputs", OUTPUTS, found, output),
            fields.read(OUTPUTS_PACKAGE, found, output_package),
        ),
    };
    OutputPolicy { paths: paths.unwrap_or_default().into_iter().collect(), keep, package }
}

fn output_package(value: &Json) -> Result<PackageName, ErrorKind> {
    Ok(text("the name of a package, such as 'words'", value)?.parse()?)
}

fn output(value: &Json) -> Result<OutputPath, ErrorKind> {
    Ok(text("the path of an output, such as 'result.txt'", value)?.parse()?)
}

/// The maximum notice of those that a job preempts.
pub(crate) fn preemption(value: &Json, path: Path, found: &mut Diagnostics) -> Option<Span> {
    let fields = Fields::open(value, path, &PREEMPTION, found)?;
    fields.read("noticeMax", found, quantity::span)
}

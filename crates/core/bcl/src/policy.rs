//! Disruption budgets and update policies.

use model::SchedulerName;
use spec::{BatchPolicy, DisruptionBudget, OnFailure, Path, UpdatePolicy};

use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape};
use crate::json::Json;
use crate::quantity::{self, text};
use crate::words;

const DISRUPTIONS: Shape = Shape {
    of: "a disruption budget",
    expected: "a disruption budget, such as { atOnce: 1, perHour: 20 }",
    fields: &["atOnce", "perHour"],
    spellings: &[],
};

const UPDATE: Shape = Shape {
    of: "an update policy",
    expected: "an update policy, such as { batch: 2, healthyFor: '30s' }",
    fields: &[
        "batch",
        "healthyFor",
        "healthyWithin",
        "wait",
        "disruptions",
        "onFailure",
        "closeAfter",
    ],
    spellings: &[],
};

pub(crate) fn disruptions(value: &Json, path: Path, found: &mut Diagnostics) -> DisruptionBudget {
    let Some(fields) = Fields::open(value, path, &DISRUPTIONS, found) else {
        return DisruptionBudget::default();
    };
    DisruptionBudget {
        at_once: fields.read("atOnce", found, quantity::whole_small),
        per_hour: fields.read("perHour", found, quantity::whole_small),
    }
}

pub(crate) fn update(value: &Json, path: Path, found: &mut Diagnostics) -> UpdatePolicy {
    let usual = UpdatePolicy::default();
    let Some(fields) = Fields::open(value, path, &UPDATE, found) else { return usual };
    let mut span = |name, usual| fields.read(name, found, quantity::span).unwrap_or(usual);
    let (healthy_for, healthy_within) =
        (span("healthyFor", usual.healthy_for), span("healthyWithin", usual.healthy_within));
    let (wait, close_after) = (span("wait", usual.wait), span("closeAfter", usual.close_after));
    UpdatePolicy {
        batch: fields.read("batch", found, quantity::whole_small),
        healthy_for,
        healthy_within,
        wait,
        disruptions: fields.read("disruptions", found, quantity::whole_small),
        on_failure: fields.read("onFailure", found, on_failure).unwrap_or_default(),
        close_after,
    }
}

/// How the tasks of a batch job wait and run together.
pub(crate) fn batch(fields: &Fields<'_>, found: &mut Diagnostics) -> BatchPolicy {
    BatchPolicy {
        gang: fields.read("gang", found, quantity::truth).unwrap_or_default(),
        at_once: fields.read("atOnce", found, quantity::whole_small),
        max_runtime: fields.read("maxRuntime", found, quantity::span),
        expected_runtime: fields.read("expectedRuntime", found, quantity::span),
        requeue: fields.read("requeue", found, quantity::truth).unwrap_or_default(),
    }
}

pub(crate) fn scheduler(value: &Json) -> Result<SchedulerName, ErrorKind> {
    Ok(text("the name of a scheduler, such as 'batch'", value)?.parse()?)
}

fn on_failure(value: &Json) -> Result<OnFailure, ErrorKind> {
    let words = &["undo", "pause"];
    let text = text("'undo' or 'pause'", value)?;
    let is = |way: &OnFailure| way.name() == text || words::constant(way.name()) == text;
    OnFailure::ALL.into_iter().find(is).ok_or_else(|| ErrorKind::UnknownWord {
        text: text.to_owned(),
        what: "what follows a failed update",
        words,
        nearest: words::nearest(text, words),
    })
}

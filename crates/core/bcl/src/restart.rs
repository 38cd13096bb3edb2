//! Restart policies.

use spec::{Path, RestartPolicy, RestartWhen};

use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape};
use crate::json::Json;
use crate::quantity::{self, text, truth, wrong_type};
use crate::words;

const RESTART: Shape = Shape {
    of: "a restart policy",
    expected: "'never', 'on-failure' or 'always', or a restart policy, such as { failures: 10, delay: \
               '1s', delayMax: '5m' }",
    fields: &["policy", "failures", "unlimited", "delay", "delayMax", "resetAfter"],
    spellings: &[],
};

/// A policy by its name, or an object, in which the ends that are followed by a restart are the usual
/// ones if it does not say. Without a number of failures an object is unlimited, as in canonical
/// JSON.
pub(crate) fn restart(
    value: &Json,
    path: Path,
    usual_ends: RestartWhen,
    found: &mut Diagnostics,
) -> RestartPolicy {
    let usual = RestartPolicy::default();
    if let Json::Text(_) = value {
        return match when(value) {
            Ok(when) => RestartPolicy::on(when),
            Err(kind) => {
                found.add(path, kind);
                usual
            }
        };
    }
    let Some(fields) = Fields::open(value, path, &RESTART, found) else { return usual };
    let unlimited = fields.read("unlimited", found, truth);
    let failures = fields.read("failures", found, |value| match value {
        Json::Text(text) if text == "unlimited" => Ok(None),
        Json::Text(text) if !text.starts_with(|c: char| c.is_ascii_digit()) => {
            Err(wrong_type("a number of failures, or 'unlimited'", value))
        }
        value => quantity::whole_small(value).map(Some),
    });
    let failures_max = match (unlimited, failures) {
        (Some(true), Some(Some(_))) => {
            let (one, other) = ("failures", "unlimited");
            found.add(fields.path.field(other), ErrorKind::Both { one, other });
            None
        }
        (Some(false), None) => usual.failures_max,
        (_, failures) => failures.flatten(),
    };
    let delay_max = fields.read("delayMax", found, quantity::span).unwrap_or(usual.delay_max);
    let reset_after = fields.read("resetAfter", found, quantity::span);
    RestartPolicy {
        when: fields.read("policy", found, when).unwrap_or(usual_ends),
        failures_max,
        delay: fields.read("delay", found, quantity::span).unwrap_or(usual.delay),
        delay_max,
        reset_after: reset_after.unwrap_or(RestartPolicy::usual_reset_after(delay_max)),
    }
}

fn when(value: &Json) -> Result<RestartWhen, ErrorKind> {
    let words = &["never", "on-failure", "always"];
    let text = text("'never', 'on-failure' or 'always'", value)?;
    let is = |when: &RestartWhen| when.name() == text || words::constant(when.name()) == text;
    RestartWhen::ALL.into_iter().find(is).ok_or_else(|| ErrorKind::UnknownWord {
        text: text.to_owned(),
        what: "a restart policy",
        words,
        nearest: words::nearest(text, words),
    })
}

//! Where the time of a task's start went: `cell.proto`.

use model::{StartLatency, StartPart};

use crate::duration::{self, duration};
use crate::error::{At, Malformed};
use crate::v1;

/// The message, or `None` if nothing is known.
#[must_use]
pub fn message(latency: StartLatency) -> Option<v1::StartLatency> {
    let part = |part| latency.part(part).map(duration);
    (!latency.is_unknown()).then(|| v1::StartLatency {
        queue: part(StartPart::Queue),
        decide: part(StartPart::Decide),
        fetch: part(StartPart::Fetch),
        start: part(StartPart::Start),
        healthy: part(StartPart::Healthy),
    })
}

/// What a message says, or nothing if it is absent.
///
/// # Errors
/// If a part of it is no duration.
pub fn read(latency: Option<&v1::StartLatency>) -> Result<StartLatency, Malformed> {
    let Some(latency) = latency else { return Ok(StartLatency::UNKNOWN) };
    let parts = StartPart::ALL.into_iter().filter_map(|part| {
        let took = match part {
            StartPart::Queue => latency.queue,
            StartPart::Decide => latency.decide,
            StartPart::Fetch => latency.fetch,
            StartPart::Start => latency.start,
            StartPart::Healthy => latency.healthy,
        };
        Some((part, took?))
    });
    let mut read = StartLatency::UNKNOWN;
    for (part, took) in parts {
        read = read.with(part, duration::span(&took).field(part.name()).field("latency")?);
    }
    Ok(read)
}

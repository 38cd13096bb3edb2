//! Where the time of a start went: the parts fit into the time that passed for the cell.

use model::{InstanceId, Span, StartLatency, StartPart};

use super::{Violation, Violations};
use crate::{Cell, Job, Phase, Placement};

impl Cell {
    pub(super) fn check_start_latency(
        &self,
        job: &Job,
        instance: InstanceId,
        placement: &Placement,
        found: &mut Violations,
    ) {
        let latency = placement.latency;
        let mut wrong = |why| found.add(Violation::StartLatency { instance, latency, why });
        let (queued, fetched) = (
            sum(latency, [StartPart::Queue, StartPart::Decide]),
            sum(latency, [StartPart::Fetch, StartPart::Start]),
        );
        if queued > placement.since.since(job.submitted) {
            wrong("it waited for longer than its job exists");
        }
        match placement.phase {
            Phase::Starting => {
                let later = [StartPart::Fetch, StartPart::Start, StartPart::Healthy];
                if later.into_iter().any(|part| latency.part(part).is_some()) {
                    wrong("its program does not run yet");
                }
            }
            Phase::Started { at, .. } => {
                if fetched > at.since(placement.since) {
                    wrong("its machine took longer than it has had it");
                }
                let healthy = latency.part(StartPart::Healthy);
                if healthy.is_some_and(|healthy| healthy > self.time.since(at)) {
                    wrong("it became healthy in the future");
                }
            }
        }
    }
}

fn sum(latency: StartLatency, parts: [StartPart; 2]) -> Span {
    let known = parts.into_iter().filter_map(|part| latency.part(part));
    known.fold(Span::ZERO, |sum, took| sum + took)
}

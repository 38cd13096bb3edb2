//! Disruption budgets and update policies.

use model::Span;

use super::{ProblemKind, Problems, limits};
use crate::path::Location;
use crate::{DisruptionBudget, UpdatePolicy};

impl Problems {
    pub(super) fn disruptions(&mut self, at: &Location<'_>, budget: DisruptionBudget) {
        if let Some(at_once) = budget.at_once {
            self.range(&at.field("atOnce"), at_once, 0, limits::TASKS_MAX);
        }
        if let Some(per_hour) = budget.per_hour {
            self.range(&at.field("perHour"), per_hour, 0, limits::DISRUPTIONS_PER_HOUR_MAX);
        }
    }

    pub(super) fn update(&mut self, at: &Location<'_>, policy: &UpdatePolicy) {
        if let Some(batch) = policy.batch {
            self.range(&at.field("batch"), batch, 1, limits::TASKS_MAX);
        }
        if let Some(disruptions) = policy.disruptions {
            self.range(&at.field("disruptions"), disruptions, 0, limits::TASKS_MAX);
        }
        let longest = Span::from_secs(limits::SPAN_SECONDS_MAX);
        self.span(&at.field("healthyFor"), policy.healthy_for, Span::ZERO, longest);
        self.span(&at.field("healthyWithin"), policy.healthy_within, Span::from_secs(1), longest);
        self.span(&at.field("wait"), policy.wait, Span::ZERO, longest);
        self.span(&at.field("closeAfter"), policy.close_after, Span::ZERO, longest);
        if policy.healthy_for > policy.healthy_within {
            let (other, most) = ("healthyWithin", policy.healthy_within);
            self.add(&at.field("healthyFor"), ProblemKind::LongerThan { other, most });
        }
    }
}

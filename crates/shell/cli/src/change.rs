//! Which tasks an update changes and how, as options of `bourg update` and `bourg plan`.

use std::time::Duration;

use api::v1;
use clap::Args;
use model::TaskSelection;
pub(crate) use present::event_words::tasks;
use process::arguments::duration;
use spec::{JobSpec, OnFailure, UpdatePolicy};

/// Which tasks, and how they are changed.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Only these tasks, such as 0-4,7. Tasks that are added have the new description in any case.
    #[arg(long, value_name = "TASKS")]
    tasks: Option<TaskSelection>,
    /// How many tasks are changed at once. Default: the description's, else what its disruption
    /// budget allows.
    #[arg(long, value_name = "TASKS", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// How long a changed task must be healthy before the next is changed, such as 30s.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    healthy_for: Option<Duration>,
    /// How long a changed task may take until then; after it the update has failed.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    healthy_within: Option<Duration>,
    /// How long to wait between a batch and the next.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    /// How many running tasks may be restarted or moved in all; further ones are skipped.
    #[arg(long, value_name = "TASKS")]
    disruptions: Option<u32>,
    /// What follows if a task does not become healthy: undo or pause.
    #[arg(long, value_name = "ACTION", value_parser = on_failure)]
    on_failure: Option<OnFailure>,
    /// How long after its success the update can be undone.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    close_after: Option<Duration>,
}

fn on_failure(text: &str) -> Result<OnFailure, String> {
    let found = OnFailure::ALL.into_iter().find(|way| way.name() == text);
    found.ok_or_else(|| format!("'{}' is neither undo nor pause", text.escape_debug()))
}

fn span(given: Option<Duration>, usual: model::Span) -> model::Span {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    given.map_or(usual, |time| model::Span(micros(time)))
}

impl ChangeArgs {
    /// The policy, if the command line changes that of the description.
    pub(crate) fn policy(&self, spec: &JobSpec) -> Option<v1::UpdatePolicy> {
        let usual = spec.update;
        let policy = UpdatePolicy {
            batch: self.batch.or(usual.batch),
            healthy_for: span(self.healthy_for, usual.healthy_for),
            healthy_within: span(self.healthy_within, usual.healthy_within),
            wait: span(self.wait, usual.wait),
            disruptions: self.disruptions.or(usual.disruptions),
            on_failure: self.on_failure.unwrap_or(usual.on_failure),
            close_after: span(self.close_after, usual.close_after),
        };
        (policy != usual).then(|| (&policy).into())
    }

    pub(crate) fn tasks(&self) -> Option<v1::TaskSelection> {
        self.tasks.as_ref().map(Into::into)
    }
}

/// `ram 64 MiB → 96 MiB`.
pub(crate) fn change_text(change: &v1::FieldChange) -> String {
    spec::FieldChange::from(change.clone()).to_string().escape_debug().to_string()
}

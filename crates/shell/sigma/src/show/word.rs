//! The words of states, with a mark and a colour: never told by colour alone.

use api::{v1, word};
use maud::{Markup, html};

/// How a state looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Waiting,
    Bad,
    Over,
}

/// A state in a word, with its mark.
pub(crate) fn state(text: &str, tone: Tone) -> Markup {
    let (class, mark) = match tone {
        Tone::Good => ("good", "●"),
        Tone::Waiting => ("waiting", "◐"),
        Tone::Bad => ("bad", "▲"),
        Tone::Over => ("over", "○"),
    };
    html! { span class={ "state " (class) } { span aria-hidden="true" { (mark) } " " (text) } }
}

pub(crate) fn job_state(job: &v1::JobStatus) -> Markup {
    let tone = match job.state() {
        v1::JobState::Running => Tone::Good,
        v1::JobState::Queued | v1::JobState::Pending => Tone::Waiting,
        v1::JobState::Failed => Tone::Bad,
        _ => Tone::Over,
    };
    state(&present::job_state(job), tone)
}

pub(crate) fn task_state(number: i32) -> Markup {
    let tone = match v1::TaskState::try_from(number) {
        Ok(v1::TaskState::Running) => Tone::Good,
        Ok(v1::TaskState::Failed) => Tone::Bad,
        Ok(v1::TaskState::Finished | v1::TaskState::Killed) => Tone::Over,
        _ => Tone::Waiting,
    };
    state(&word::<v1::TaskState>(number), tone)
}

pub(crate) fn health(number: i32) -> Markup {
    let tone = match v1::Health::try_from(number) {
        Ok(v1::Health::Healthy) => Tone::Good,
        Ok(v1::Health::Unhealthy | v1::Health::Unready) => Tone::Bad,
        _ => return html! { span class="muted" { (word::<v1::Health>(number).to_lowercase()) } },
    };
    state(&word::<v1::Health>(number).to_lowercase(), tone)
}

pub(crate) fn machine_state(number: i32) -> Markup {
    let tone = match v1::MachineState::try_from(number) {
        Ok(v1::MachineState::Up) => Tone::Good,
        Ok(v1::MachineState::Down | v1::MachineState::Unreachable | v1::MachineState::NotReady) => {
            Tone::Bad
        }
        Ok(v1::MachineState::Drained) => Tone::Over,
        _ => Tone::Waiting,
    };
    state(&word::<v1::MachineState>(number), tone)
}

pub(crate) fn update_state(number: i32) -> Markup {
    let tone = match v1::UpdateState::try_from(number) {
        Ok(v1::UpdateState::Succeeded | v1::UpdateState::Closed) => Tone::Good,
        Ok(v1::UpdateState::Undoing | v1::UpdateState::Undone) => Tone::Bad,
        _ => Tone::Waiting,
    };
    state(&word::<v1::UpdateState>(number), tone)
}

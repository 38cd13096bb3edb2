//! A terminal in a task, for users who may run commands there.

use api::v1;
use maud::{Markup, html};
use model::Capability;

use super::{Page, Part, job as job_page, task};
use crate::address::TaskName;
use crate::asker::PageClient;
use crate::problem::Problem;
use crate::show;

pub(super) async fn page(asker: &mut PageClient, subject: TaskName<'_>) -> Result<Page, Problem> {
    let TaskName { user, job, index } = subject;
    let (_, status) = asker.job(user, job).await?;
    let state = task::find(&status, job, index)?.state();
    let name = subject.to_string();
    let shown = if asker.at.is_some() {
        html! {
            p { "A terminal is in the task as it is now, not at a past moment: "
                a href=(asker.address.at(None)) { "open it now" } "." }
        }
    } else if task::is_alloc(&status) {
        let what = format!("{name} is an alloc, which runs nothing itself: the tasks in it do.");
        show::empty(&what, &format!("bourg status {user}/{job}"))
    } else if !asker.rights.may_run_in_tasks_of(user) {
        html! { p { (not_allowed(&asker.rights.user, &name, user)) } }
    } else {
        terminal(asker, subject, state)
    };
    let heading = heading(asker, subject);
    let command = format!("bourg exec -it {name}");
    let part = Part::new("terminal", shown);
    Ok(Page::live(format!("Terminal in {name}"), heading, command, vec![part]).still())
}

/// Why a user has no terminal, and who has one.
fn not_allowed(user: &str, task: &str, owner: &str) -> String {
    format!(
        "{user} may not run commands in {task}: {owner}, an administrator or a user with the \
         capability {} may.",
        Capability::ExecTasks
    )
}

fn heading(asker: &PageClient, subject: TaskName<'_>) -> Markup {
    let TaskName { user, job, index } = subject;
    let here = asker.to_task(user, job, index);
    let may_read = asker.rights.may_change_jobs_of(user);
    html! {
        h1 { "Terminal in " a href=(asker.to_job(user, job)) { (user) "/" (job) } "/" a href=(here) { (index) } }
        p class="links" {
            a href=(here) data-key="u" { "Task" }
            @if may_read { a href=(job_page::path(&here, "/logs")) data-key="l" { "Logs" } }
        }
    }
}

/// The form that opens a terminal, and its screen. A script shows both.
fn terminal(asker: &PageClient, subject: TaskName<'_>, state: v1::TaskState) -> Markup {
    let TaskName { user, job, index } = subject;
    let name = subject.to_string();
    html! {
        h2 class="hidden" { "Terminal" }
        noscript { p { "A terminal on this page needs scripts. The command above needs none." } }
        @if state != v1::TaskState::Running {
            p class="notice" { (name) " does not run now: it is "
                (show::task_state(state.into())) ". A terminal needs a running task." }
        }
        form id="terminal-form" class="filter" hidden {
            input type="hidden" name="csrf" value=(asker.csrf);
            input type="hidden" name="user" value=(user);
            input type="hidden" name="job" value=(job);
            input type="hidden" name="index" value=(index);
            label { "Command" input name="command" maxlength="4096" placeholder="a shell" autocomplete="off"
                spellcheck="false" size="40"; }
            button type="submit" { "Open a terminal" }
            button type="button" id="terminal-close" class="danger" disabled { "Close the terminal" }
            span id="terminal-says" role="status" {}
        }
        div id="terminal" hidden {
            p id="terminal-help" class="muted" {
                "Keys go to the task while the terminal has the focus. "
                kbd { "Ctrl" } "+" kbd { "Shift" } "+" kbd { "Esc" } " or "
                kbd { "Ctrl" } "+" kbd { "Shift" } "+" kbd { "Space" } " leaves it; copy and paste with "
                kbd { "Ctrl" } "+" kbd { "Shift" } "+" kbd { "C" } " and " kbd { "V" } "."
            }
            div class="terminal" {
                textarea class="keys" rows="1" cols="1" autocapitalize="off" autocomplete="off" autocorrect="off"
                    spellcheck="false" aria-label={ "Keys for the terminal in " (name) } aria-describedby="terminal-help" {}
                div class="screen" role="group" aria-label={ "Screen of the terminal in " (name) } {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_user_is_told_who_has_permission() {
        let expected = "eva may not run commands in ana/web/3: ana, an administrator or a user with \
                        the capability exec-tasks may.";
        assert_eq!(not_allowed("eva", "ana/web/3", "ana"), expected);
    }
}

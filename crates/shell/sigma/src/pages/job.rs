//! A job: its tasks as a grid, its update with the buttons for it, its budget and its history.

use api::v1::events_request::From;
use api::v1::usage_request::{Of, Tasks};
use api::{v1, word};
use maud::{Markup, html};

use super::{Page, Part, events, jobs, queue};
use crate::action::{Action, button};
use crate::address::{Place, Query};
use crate::asker::PageClient;
use crate::problem::Problem;
use crate::show;

/// How many events of a job are shown.
const EVENTS: u32 = 30;
/// How many tasks are in the table; the grid has all.
const ROWS: usize = 100;

pub(super) async fn page(asker: &mut PageClient, user: &str, job: &str) -> Result<Page, Problem> {
    let (_, status) = asker.job(user, job).await?;
    let spec = status.spec.clone().unwrap_or_default();
    let address = v1::JobAddress { user: user.to_owned(), job: job.to_owned() };
    let mut used = Vec::new();
    if asker.at.is_none() && jobs::is_alive(&status) {
        let tasks = Some(v1::TaskSelection { all: true, ranges: Vec::new() });
        let of = Of::Tasks(Tasks { job: Some(address.clone()), tasks, since: None });
        used = asker.usage(of).await?.tasks;
    }
    let mut why = None;
    if status.counts.unwrap_or_default().queued > 0 && status.waits_for.is_empty() {
        why = Some(asker.why(&address).await?);
    }
    let request = v1::EventsRequest {
        job: Some(address),
        tasks: Some(v1::TaskSelection { all: true, ranges: Vec::new() }),
        from: Some(From::Last(EVENTS)),
        ..v1::EventsRequest::default()
    };
    let history = asker.recent_events(request).await?;
    let parts = vec![
        Part::new("summary", summary(asker, &status, &spec, why.as_deref())),
        Part::new("update", update(asker, &status, job)).class("panel"),
        Part::new("tasks", tasks(asker, &status, job, &used)),
        Part::new(
            "history",
            html! {
                h2 { "History" }
                (events::newest(asker, history.as_deref(), true))
                p { a href=(asker.to(Place::Events(Query::default().with("job", &format!("{user}/{job}"))))) { "All events" } }
            },
        ),
    ];
    let command = super::at(asker, format!("bourg status {user}/{job} -o wide"));
    Ok(Page::live(format!("{user}/{job}"), heading(asker, &status, job), command, parts))
}

fn heading(asker: &PageClient, status: &v1::JobStatus, job: &str) -> Markup {
    let user = status.user.clone();
    let named = |place: fn(String, String) -> Place| asker.to(place(user.clone(), job.to_owned()));
    let may = asker.at.is_none() && asker.rights.may_change_jobs_of(&user);
    html! {
        h1 {
            a href=(asker.to(Place::Jobs(Query::default().with("user", &user)))) { (user) } "/" (job)
        }
        p class="links" {
            a href=(named(|user, job| Place::Description { user, job })) data-key="d" { "Description" }
            a href=(named(|user, job| Place::Why { user, job })) data-key="w" { "Why pending?" }
            a href=(asker.to(Place::NamesOf { user: user.clone() })) { "Names" }
            a href=(asker.to(Place::Jobs(Query::default()))) data-key="u" { "All jobs" }
        }
        @if may && jobs::is_alive(status) {
            div class="actions" { (button(asker, Action::KillJob, &[("user", &user), ("job", job)])) }
        }
    }
}

fn summary(
    asker: &PageClient,
    status: &v1::JobStatus,
    spec: &v1::JobSpec,
    why: Option<&v1::WhyResponse>,
) -> Markup {
    let counts = status.counts.unwrap_or_default();
    let limit = v1::Resources {
        cpu_milli: spec.cpu_milli,
        ram_bytes: spec.ram_bytes,
        disk_bytes: spec.disk_bytes,
        disk_rate_bytes: spec.disk_rate_bytes,
    };
    let mut all = vec![
        (
            "State",
            html! { (show::job_state(status)) @if !status.reason.is_empty() { " " span class="muted" { (status.reason) } } },
        ),
        (
            "Tasks",
            html! {
                (counts.healthy) " healthy, " (counts.running) " running, " (counts.pending) " pending of " (counts.tasks)
                @if counts.queued > 0 { ", " (counts.queued) " queued" }
                @if counts.finished > 0 { ", " (counts.finished) " finished" }
                @if counts.failed > 0 { ", " (counts.failed) " failed" }
                @if counts.killed > 0 { ", " (counts.killed) " killed" }
            },
        ),
        (
            "Priority",
            html! { (jobs::band(spec.priority)) "(" (spec.priority.unwrap_or_default()) ")" },
        ),
        ("Each task", html! { (show::cpu_and_ram(Some(&limit))) }),
        ("Version", html! { (status.version) }),
        ("Submitted", show::ago(status.submitted, asker.now)),
        ("Disruption budget", budget(spec)),
    ];
    if let Some((why, place)) = why.and_then(|why| Some((why, why.queue_place.as_ref()?))) {
        all.push(("Queued", queue::place(asker, place, why.time)));
    }
    if !status.alloc_set.is_empty() {
        all.push(("Runs in", named(asker, &status.alloc_set)));
    }
    if !status.waits_for.is_empty() {
        all.push((
            "Waits for",
            html! {
                @for one in &status.waits {
                    @if one.each_task { "the same task of " }
                    (named(asker, &one.job)) " " (present::awaited(&one.when, 1)) " "
                }
            },
        ));
    }
    if !status.jobs.is_empty() {
        all.push(("Jobs in it", html! { @for job in &status.jobs { (named(asker, job)) " " } }));
    }
    if !spec.labels.is_empty() {
        let mut labels: Vec<_> = spec.labels.iter().collect();
        labels.sort();
        all.push((
            "Labels",
            html! {
                @for (name, value) in labels {
                    @let query = Query::default().with("labels", &format!("{name}={value}"));
                    a class="label" href=(asker.to(Place::Jobs(query))) { (name) "=" (value) } " "
                }
            },
        ));
    }
    show::facts(all)
}

fn budget(spec: &v1::JobSpec) -> Markup {
    let budget = spec.disruptions.unwrap_or_default();
    html! {
        @match budget.at_once {
            Some(most) => { (most) " at once" }
            None => "the default of its appclass",
        }
        @if let Some(most) = budget.per_hour { ", " (most) " an hour" }
    }
}

/// A job as `user/job`, as a link.
fn named(asker: &PageClient, name: &str) -> Markup {
    match name.split_once('/') {
        Some((user, job)) => show::link(&asker.to_job(user, job), name),
        None => html! { (name) },
    }
}

/// The update of a job, its progress, and the buttons for it.
fn update(asker: &PageClient, status: &v1::JobStatus, job: &str) -> Markup {
    use v1::UpdateState::{Paused, Rolling, Succeeded, Undoing};

    let Some(update) = &status.update else {
        return html! {
            h2 { "Update" }
            p class="muted" {
                "It has not been updated yet"
                @if jobs::is_alive(status) { ": change its file, and run " (show::command("bourg update FILE")) } @else { "." }
            }
        };
    };
    let fields =
        [("user", status.user.as_str()), ("job", job), ("version", &update.to.to_string())];
    let actions: &[Action] = match update.state() {
        Rolling => &[Action::PauseUpdate, Action::UndoUpdate],
        Paused => &[Action::ResumeUpdate, Action::UndoUpdate],
        Succeeded => &[Action::UndoUpdate, Action::CloseUpdate],
        _ => &[],
    };
    let may = asker.at.is_none() && asker.rights.may_change_jobs_of(&status.user);
    let share = show::share(Some(update.done.into()), Some(update.tasks.into()));
    html! {
        h2 { "Update from version " (update.from) " to " (update.to) }
        p {
            (show::update_state(update.state)) " "
            span class="muted" { "since " (show::ago(update.since, asker.now))
                @if !update.state_by.is_empty() { " by " (update.state_by) }
                ", opened " (show::ago(update.opened, asker.now)) " by " (update.opened_by) }
        }
        p { (show::bar(share, "Tasks changed")) " " (update.done) " of " (update.tasks) " tasks, "
            (update.disruptions) " disrupted" }
        @if !update.failure_text.is_empty() { p class="bad" { "Failed: " (update.failure_text) } }
        @if !update.waits_for.is_empty() { p { "Waits: " (update.waits_for) } }
        @if matches!(update.state(), Rolling | Undoing) && !update.changing.is_empty() {
            ul { @for task in &update.changing {
                li { a href=(asker.to_task(&status.user, job, task.index)) { (job) "/" (task.index) }
                    " " (task.waits_for) }
            } }
        }
        @if !update.skipped.is_empty() {
            p class="muted" { (update.skipped.len()) " skipped: "
                @for task in update.skipped.iter().take(20) { (task.index) " (" (task.text) ") " } }
        }
        @if update.closes > 0 && update.state() == Succeeded {
            p class="muted" { "It can be undone until it closes, " (show::ago(update.closes, asker.now)) "." }
        }
        @if may && !actions.is_empty() {
            div class="actions" { @for action in actions { (button(asker, *action, &fields)) } }
        }
    }
}

/// All tasks as a grid, and the first of them as a table.
fn tasks(asker: &PageClient, status: &v1::JobStatus, job: &str, used: &[v1::TaskUsage]) -> Markup {
    let user = &status.user;
    html! {
        h2 { "Tasks" }
        ol class="grid" aria-label="Tasks by index" { @for task in &status.tasks {
            li { a href=(asker.to_task(user, job, task.index)) class={ "task " (tone(task)) }
                title={ (task.index) ": " (word::<v1::TaskState>(task.state)) " on " (task.machine) } { (task.index) } }
        } }
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Task" }
                th scope="col" { "State" }
                th scope="col" { "Health" }
                th scope="col" { "Machine" }
                th scope="col" { "Since" }
                th scope="col" class="num" { "Failures" }
                th scope="col" { "CPU of limit" }
                th scope="col" { "RAM of limit" }
                th scope="col" { "Why" }
            } }
            tbody { @for task in status.tasks.iter().take(ROWS) {
                @let now = used.iter().find(|used| used.index == task.index);
                @let limit = now.and_then(|now| now.limit.as_ref());
                @let used = now.and_then(|now| now.used.as_ref());
                @let href = asker.to_task(user, job, task.index);
                tr data-href=(href) data-l={ (path(&href, "/logs")) } data-s={ (path(&href, "/terminal")) } {
                    th scope="row" { a href=(href) { (job) "/" (task.index) } }
                    td { (show::task_state(task.state)) }
                    td { (show::health(task.health)) }
                    td { @if !task.machine.is_empty() { a href=(asker.to_machine(&task.machine)) { (task.machine) } } }
                    td class="nowrap" { (show::ago(task.since, asker.now)) }
                    td class="num" { (task.failures) }
                    td { (show::bar(show::share(used.and_then(|used| used.cpu_milli), limit.map(|limit| limit.cpu_milli)), "CPU used of the limit")) }
                    td { (show::bar(show::share(used.and_then(|used| used.memory_bytes), limit.map(|limit| limit.ram_bytes)), "RAM used of the limit")) }
                    td class="why" { @if !task.reason.is_empty() { (task.reason) }
                        @else if !task.last_end_text.is_empty() { span class="muted" { "last end: " (task.last_end_text) } } }
                }
            } }
        } }
        @if status.machines_without_task > 0 {
            p class="muted" { (status.machines_without_task) " machines without a task: "
                @for without in status.without_task.iter().take(3) { (without.machine) " (" (without.why) ") " } }
        }
        @if status.tasks.len() > ROWS {
            p class="muted" { "The table has the first " (ROWS) " of " (status.tasks.len()) " tasks; the grid has all." }
        }
    }
}

/// A page below another one, whose address may have a query.
pub(super) fn path(href: &str, below: &str) -> String {
    match href.split_once('?') {
        Some((path, query)) => format!("{path}{below}?{query}"),
        None => format!("{href}{below}"),
    }
}

fn tone(task: &v1::TaskStatus) -> &'static str {
    match (task.state(), task.health()) {
        (v1::TaskState::Running, v1::Health::Unhealthy | v1::Health::Unready) => "bad",
        (v1::TaskState::Running, _) => "good",
        (v1::TaskState::Failed, _) => "bad",
        (v1::TaskState::Finished | v1::TaskState::Killed, _) => "over",
        _ => "waiting",
    }
}

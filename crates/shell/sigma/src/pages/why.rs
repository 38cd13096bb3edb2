//! Why tasks of a job are pending: what each machine lacks, the smallest change that would help, and
//! what is ahead of them in the queue.

use std::collections::BTreeSet;

use api::v1;
use api::v1::events_request::From;
use maud::{Markup, html};
use model::Resources;

use super::{Page, Part, events, jobs, queue as batch_queue};
use crate::address::{Place, Query};
use crate::asker::PageClient;
use crate::problem::Problem;
use crate::show;

/// How many different requests of one job are explained.
const GROUPS: usize = 20;
/// How many ranges of tasks are written out.
const RANGES: usize = 12;
/// How many events that led here are shown.
const EVENTS: u32 = 15;

pub(super) async fn page(asker: &mut PageClient, user: &str, job: &str) -> Result<Page, Problem> {
    let address = v1::JobAddress { user: user.to_owned(), job: job.to_owned() };
    let answer = asker.why(&address).await?;
    let mut ahead = Ahead::default();
    let (mut history, mut scored) = (None, None);
    if !answer.groups.is_empty() {
        ahead = Ahead::of(&answer, &asker.jobs().await?.jobs);
        scored = asker.scores(&address).await?;
    }
    if is_waiting(&answer) {
        let request = v1::EventsRequest {
            job: Some(address),
            tasks: Some(v1::TaskSelection { all: true, ranges: Vec::new() }),
            from: Some(From::Last(EVENTS)),
            ..v1::EventsRequest::default()
        };
        history = asker.recent_events(request).await?;
    }
    let parts = vec![
        Part::new("why", why(asker, &answer)),
        Part::new("ahead", queue(&answer, &ahead)),
        Part::new("scores", scores(asker, &answer, scored.as_deref())),
        Part::new(
            "history",
            html! {
                @if is_waiting(&answer) {
                    h2 { "What led here" }
                    (events::newest(asker, history.as_deref(), true))
                }
            },
        ),
    ];
    let title = format!("Why is {user}/{job} pending?");
    let named = |place: fn(String, String) -> Place| asker.to(place(user.into(), job.into()));
    let all = Query::default().with("job", &format!("{user}/{job}"));
    let heading = html! {
        h1 { "Why is " a href=(asker.to_job(user, job)) { (user) "/" (job) } " pending?" }
        p class="links" {
            a href=(named(|user, job| Place::Job { user, job })) { "Job" }
            a href=(named(|user, job| Place::Description { user, job })) data-key="d" { "Description" }
            a href=(asker.to(Place::Events(all))) { "Events" }
            a href=(asker.to(Place::Pending)) { "All that is pending" }
        }
    };
    let command = super::at(asker, format!("bourg why {user}/{job} --scores"));
    Ok(Page::live(title, heading, command, parts))
}

/// Whether there is something to explain.
fn is_waiting(answer: &v1::WhyResponse) -> bool {
    answer.queued > 0 || !answer.groups.is_empty() || !answer.starting.is_empty()
}

fn why(asker: &PageClient, answer: &v1::WhyResponse) -> Markup {
    let (user, job) = (&answer.user, &answer.job);
    let shown = answer.groups.iter().take(GROUPS);
    let rest: u32 = answer.groups.iter().skip(GROUPS).map(tasks_of).sum();
    let more = answer.more.saturating_add(rest);
    html! {
        h2 { "What is missing" }
        @if answer.queued > 0 {
            div class="panel" {
                @if let Some(place) = &answer.queue_place {
                    p { strong { (counted(answer.queued, "task")) " queued" } ": " (batch_queue::place(asker, place, answer.time)) }
                    p { "Until " (present::queue_wait_in_full(place.waits_for.as_ref(), answer.time)) "." }
                    p {
                        (place.user) "'s share: " (present::queue_share(place.share, &place.dimension))
                        @for (number, ahead) in answer.users_ahead.iter().enumerate() {
                            @if number == 0 { "; ahead: " } @else { ", " }
                            (ahead.user) " " (present::queue_share(ahead.share, &ahead.dimension))
                        }
                    }
                } @else if answer.waits.is_empty() {
                    p { strong { (counted(answer.queued, "task")) " queued" } " in the batch queue." }
                } @else {
                    p { strong { (counted(answer.queued, "task")) " queued, until:" } }
                    ul {
                    @for one in &answer.waits {
                        li {
                            @if one.each_task { "the same task of " }
                            (job_link(asker, &one.job)) " " (present::awaited(&one.when, 1))
                        }
                    }
                }
                }
            }
        } @else if !is_waiting(answer) {
            div class="empty" {
                p { "No task of " (user) "/" (job) " is pending." }
                p { a href=(asker.to_job(user, job)) { "See how it runs" } }
            }
        }
        @for found in &answer.starting { (starting_again(answer, found)) }
        @for found in shown { (group(asker, answer, found)) }
        @for spelling in &answer.spellings { p class="notice" { (spelling) } }
        @if more > 0 {
            p class="muted" { (counted(more, "more task")) " pending, with different requests. Select some: "
                (show::command(&super::at(asker, format!("bourg why {user}/{job}/0-99")))) }
        }
    }
}

/// Tasks that are being started again.
fn starting_again(answer: &v1::WhyResponse, group: &v1::StartingGroup) -> Markup {
    let tasks: u32 = group.tasks.iter().map(|range| range.last - range.first + 1).sum();
    let why = present::not_started(group);
    let again = if group.tries > 0 { " again" } else { "" };
    html! {
        div class="panel" {
            p {
                strong { (tasks) " of " (counted(answer.tasks, "task")) " being started" (again) }
                @if tasks != answer.tasks { span class="muted" { ": " (ranges(&group.tasks)) } }
            }
            @if let Some(why) = why { p class="notice" { (why) } }
        }
    }
}

/// Tasks with the same request.
fn group(asker: &PageClient, answer: &v1::WhyResponse, group: &v1::PendingGroup) -> Markup {
    let pending = tasks_of(group);
    let places = match answer.alloc_set.as_str() {
        "" => counted(group.machines, "machine"),
        _ => counted(group.machines, "alloc"),
    };
    let mut facts = vec![
        ("Since", show::ago(group.since, asker.now)),
        ("Cause", html! { @if group.cause.is_empty() { "-" } @else { (group.cause) } }),
        ("Each requests", html! { (limit(group)) }),
        ("Priority", html! { (jobs::band(Some(answer.priority))) "(" (answer.priority) ")" }),
    ];
    if !answer.alloc_set.is_empty() {
        facts.push(("Runs in", job_link(asker, &answer.alloc_set)));
    }
    let lost = group.pending_cause.as_ref().and_then(|cause| {
        present::start_lost(cause, group.last_end.as_ref(), group.not_before, answer.time)
    });
    let is_lost = lost.is_some();
    if group.not_before > answer.time {
        facts.push(("Retried", show::ago(group.not_before, asker.now)));
    }
    if let Some(why) = lost {
        facts.push(("Its last start", html! { (why) }));
    } else if !group.last_end_text.is_empty() {
        facts.push(("Its last run", html! { (group.last_end_text) }));
    }
    if !group.avoids.is_empty() {
        facts.push((
            "Avoids",
            html! {
                @for name in &group.avoids { a href=(asker.to_machine(name)) { (name) } " " }
                span class="muted" { "it crashed there recently: the scheduler prefers others" }
            },
        ));
    }
    html! {
        div class="panel" {
            p {
                strong { (pending) " of " (counted(answer.tasks, "task")) " pending" }
                @if pending != answer.tasks { span class="muted" { ": " (ranges(&group.tasks)) } }
            }
            @if !group.smallest_change.is_empty() {
                p class="notice good" {
                    "The smallest change that starts one now: " strong { (group.smallest_change) }
                }
            }
            @if !group.smallest_change_for_all.is_empty()
                && (pending > 1 || group.smallest_change_for_all != group.smallest_change) {
                p class="notice good" {
                    "The smallest change that starts all " (pending) " now: "
                    strong { (group.smallest_change_for_all) }
                }
            }
            @if group.smallest_change.is_empty()
                && group.smallest_change_for_all.is_empty()
                && group.fits == 0
                && group.machines > 0 {
                p class="notice" {
                    "No change of the request alone starts one now: it needs another machine, or room on one. What machines lack is below."
                }
            }
            @if group.fits > 0 {
                p class="notice good" {
                    "There is room on " (group.fits) " of " (places)
                    @if is_lost { ": it is tried again there" } @else { ": the scheduler will place it there" }
                    @if group.not_before > answer.time { ", " (show::ago(group.not_before, asker.now)) }
                    "."
                }
            }
            (show::facts(facts))
            @if group.machines == 0 {
                @if answer.alloc_set.is_empty() {
                    (show::empty("The cell has no machines.", "bourg token machine"))
                } @else {
                    p class="bad" { "The alloc set has no allocs." }
                }
            } @else if !group.unschedulable_reasons.is_empty() {
                (reasons(asker, group, &places))
            }
        }
    }
}

/// How many machines fail which check.
fn reasons(asker: &PageClient, group: &v1::PendingGroup, places: &str) -> Markup {
    let all = Some(group.machines.into());
    html! {
        div class="scroll" { table {
            caption { "Of " (places) ", each counted under the first check that it fails" }
            thead { tr {
                th scope="col" { "Check" }
                th scope="col" class="num" { "Count" }
                th scope="col" { "Share" }
                th scope="col" { "Nearest miss" }
            } }
            tbody { @for reason in &group.unschedulable_reasons {
                tr {
                    th scope="row" { (reason.reason) }
                    td class="num" { (reason.machines) }
                    td { (show::bar(show::share(Some(reason.machines.into()), all), "Share of all")) }
                    td class="why" { @if !reason.nearest_machine.is_empty() {
                        a href=(asker.to_machine(&reason.nearest_machine)) { (reason.nearest_machine) } " "
                    } (reason.nearest) }
                }
            } }
        } }
    }
}

fn scores(
    asker: &PageClient,
    answer: &v1::WhyResponse,
    scored: Option<&v1::WhyResponse>,
) -> Markup {
    if answer.groups.is_empty() {
        return html! {};
    }
    let Some(answer) = scored else {
        return html! { h2 { "Best machines" } p class="muted" { "Scoring all machines …" } };
    };
    if answer.scores.is_empty() {
        return html! {
            h2 { "Best machines" }
            p class="muted" { "No machine has room for task " (answer.scored_task) ", so none has a score." }
        };
    }
    let terms = terms(&answer.scores);
    html! {
        h2 { "Best machines" }
        p class="muted" {
            "For task " (answer.scored_task) ": the scheduler takes the lowest score, the sum of all terms with their weights. "
            "Terms that are 0 are not shown."
        }
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Machine" }
                th scope="col" class="num" { "Score" }
                @for (name, weight) in &terms { th scope="col" class="num" { (name) " × " (weight) } }
            } }
            tbody { @for score in &answer.scores {
                tr data-href=(asker.to_machine(&score.machine)) {
                    th scope="row" { a href=(asker.to_machine(&score.machine)) { (score.machine) } }
                    td class="num" { strong { (score.score) } }
                    @for (name, _) in &terms {
                        td class="num" { (value(score, name)) }
                    }
                }
            } }
        } }
    }
}

/// The terms that are not 0 for all machines, with their weights, in the order of the answer.
fn terms(scores: &[v1::MachineScore]) -> Vec<(&str, u32)> {
    let all = scores.first().map_or(&[][..], |score| &score.terms);
    let counts =
        |term: &&v1::machine_score::Term| scores.iter().any(|score| value(score, &term.name) > 0);
    all.iter().filter(counts).map(|term| (term.name.as_str(), term.weight)).collect()
}

fn value(score: &v1::MachineScore, name: &str) -> u32 {
    score.terms.iter().find(|term| term.name == name).map_or(0, |term| term.value)
}

/// What the scheduler considers before tasks of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ahead {
    /// Pending tasks of higher priority, and their jobs.
    higher: (u32, u32),
    /// Those of the owner's older jobs of the same priority.
    older: (u32, u32),
    /// Other users with pending tasks of the same priority: the scheduler takes turns between them and the owner.
    users: u32,
}

impl Ahead {
    fn of(answer: &v1::WhyResponse, jobs: &[v1::JobStatus]) -> Self {
        let is_it = |job: &&v1::JobStatus| {
            job.user == answer.user && job.spec.as_ref().is_some_and(|spec| spec.name == answer.job)
        };
        let submitted =
            jobs.iter().filter(is_it).map(|job| job.submitted).max().unwrap_or(u64::MAX);
        let mut found = Self::default();
        let mut users = BTreeSet::new();
        for job in jobs {
            let pending = job.counts.unwrap_or_default().pending;
            let priority = job.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
            if pending == 0 || priority < answer.priority {
                continue;
            }
            let add = |sum: &mut (u32, u32)| *sum = (sum.0.saturating_add(pending), sum.1 + 1);
            if priority > answer.priority {
                add(&mut found.higher);
            } else if job.user != answer.user {
                users.insert(job.user.as_str());
            } else if job.submitted < submitted {
                add(&mut found.older);
            }
        }
        found.users = u32::try_from(users.len()).unwrap_or(u32::MAX);
        found
    }
}

fn queue(answer: &v1::WhyResponse, ahead: &Ahead) -> Markup {
    if answer.groups.is_empty() {
        return html! {};
    }
    let of = |(tasks, jobs): (u32, u32)| {
        format!("{} of {}", counted(tasks, "pending task"), counted(jobs, "job"))
    };
    html! {
        h2 { "Ahead of it in the queue" }
        @if *ahead == Ahead::default() {
            p { "Nothing: the scheduler considers it first." }
        } @else {
            ul {
                @if ahead.higher.0 > 0 { li { (of(ahead.higher)) " with a higher priority" } }
                @if ahead.older.0 > 0 {
                    li { (of(ahead.older)) " of " (answer.user) ", submitted earlier with the same priority" }
                }
                @if ahead.users > 0 {
                    li { (counted(ahead.users, "other user")) " with pending tasks of the same priority: users take turns" }
                }
            }
        }
        p class="muted" {
            "The queue goes from the highest priority down. Tasks for which no machine has room hold nobody up."
        }
    }
}

/// How many tasks are in a group.
pub(super) fn tasks_of(group: &v1::PendingGroup) -> u32 {
    let sum = |sum: u32, range: &v1::IndexRange| {
        sum.saturating_add((range.last.saturating_sub(range.first)).saturating_add(1))
    };
    group.tasks.iter().fold(0, sum)
}

/// What each task of a group asks for, in words.
pub(super) fn limit(group: &v1::PendingGroup) -> String {
    let limit = group.limit.and_then(|limit| Resources::try_from(limit).ok());
    let limit = limit.unwrap_or_default().in_words();
    match group.ports {
        0 => limit,
        ports => format!("{limit}, {}", counted(ports, "port")),
    }
}

/// `0-4, 7`; the first of them if there are many.
fn ranges(ranges: &[v1::IndexRange]) -> String {
    let range = |range: &v1::IndexRange| match range.first == range.last {
        true => range.first.to_string(),
        false => format!("{}-{}", range.first, range.last),
    };
    let mut text = ranges.iter().take(RANGES).map(range).collect::<Vec<_>>().join(", ");
    if ranges.len() > RANGES {
        text += " …";
    }
    text
}

/// `1 task`, `2 tasks`
pub(super) fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A job as `user/job`, as a link.
pub(super) fn job_link(asker: &PageClient, name: &str) -> Markup {
    match name.split_once('/') {
        Some((user, job)) => show::link(&asker.to_job(user, job), name),
        None => html! { (name) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u32, last: u32) -> v1::IndexRange {
        v1::IndexRange { first, last }
    }

    #[test]
    fn tasks_are_counted_and_written_as_ranges() {
        for (tasks, count, text) in [
            (vec![], 0, ""),
            (vec![range(7, 7)], 1, "7"),
            (vec![range(0, 4), range(7, 7)], 6, "0-4, 7"),
            (vec![range(0, u32::MAX)], u32::MAX, "0-4294967295"),
        ] {
            assert_eq!(ranges(&tasks), text);
            assert_eq!(tasks_of(&v1::PendingGroup { tasks, ..Default::default() }), count);
        }
        let many: Vec<_> = (0..40).map(|index| range(2 * index, 2 * index)).collect();
        assert_eq!(ranges(&many), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22 …");
    }

    #[test]
    fn a_request_is_told_in_words() {
        for (cpu_milli, ram_bytes, ports, expected) in [
            (0, 0, 0, "nothing"),
            (1_000, 0, 2, "1 core, 2 ports"),
            (500, 64 << 20, 1, "0.5 cores and 64 MiB, 1 port"),
        ] {
            let asked = v1::Resources { cpu_milli, ram_bytes, ..v1::Resources::default() };
            let group =
                v1::PendingGroup { limit: Some(asked), ports, ..v1::PendingGroup::default() };
            assert_eq!(limit(&group), expected);
        }
    }

    #[test]
    fn terms_of_which_no_machine_has_any_are_left_out() {
        let score = |values: [u32; 3]| {
            let term = |(name, value): (&str, u32)| v1::machine_score::Term {
                name: name.to_owned(),
                value,
                weight: 2,
            };
            let terms = ["crashed", "packing", "mixing"].into_iter().zip(values);
            v1::MachineScore { terms: terms.map(term).collect(), ..v1::MachineScore::default() }
        };
        let scores = [score([0, 5, 0]), score([0, 0, 1])];
        assert_eq!(terms(&scores), [("packing", 2), ("mixing", 2)]);
        assert_eq!((value(&scores[0], "packing"), value(&scores[0], "none")), (5, 0));
        assert!(terms(&[]).is_empty());
    }

    #[test]
    fn jobs_ahead_follow_the_order_of_the_queue() {
        let job = |user: &str, name: &str, priority: u32, pending: u32, submitted: u64| {
            let spec = v1::JobSpec {
                name: name.to_owned(),
                priority: Some(priority),
                ..v1::JobSpec::default()
            };
            v1::JobStatus {
                user: user.to_owned(),
                spec: Some(spec),
                counts: Some(v1::JobCounts { pending, ..v1::JobCounts::default() }),
                submitted,
                ..v1::JobStatus::default()
            }
        };
        let jobs = [
            job("ana", "web", 200, 3, 10),
            job("bob", "urgent", 300, 5, 20),
            job("ana", "more", 250, 2, 30),
            job("ana", "older", 200, 4, 5),
            job("ana", "newer", 200, 4, 15),
            job("bob", "same", 200, 1, 1),
            job("bob", "same2", 200, 1, 1),
            job("eve", "placed", 200, 0, 1),
            job("eve", "low", 100, 9, 1),
        ];
        let answer = |user: &str, job: &str, priority: u32| v1::WhyResponse {
            user: user.to_owned(),
            job: job.to_owned(),
            priority,
            ..v1::WhyResponse::default()
        };
        let ahead = Ahead::of(&answer("ana", "web", 200), &jobs);
        assert_eq!(ahead, Ahead { higher: (7, 2), older: (4, 1), users: 1 });
        assert_eq!(Ahead::of(&answer("bob", "urgent", 300), &jobs), Ahead::default());
    }
}

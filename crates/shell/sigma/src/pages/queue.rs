//! The batch queue: what waits in the order of turns, the shares of users, and how it decides.

use std::sync::Arc;

use api::v1;
use maud::{Markup, html};
use model::Span;

use super::why::counted;
use super::{Page, Part, jobs};
use crate::address::Place;
use crate::asker::PageClient;
use crate::problem::Problem;
use crate::show;

/// How many jobs of the queue are listed.
const PLACES: u32 = 200;
/// How many other jobs with pending tasks are listed: each is a look at all machines.
const PENDING: u32 = 20;
/// The same for the past, where another process answers one question after the other.
const PENDING_PAST: u32 = 5;

pub(super) async fn page(asker: &mut PageClient) -> Result<Page, Problem> {
    let queue = ask(asker).await?;
    let parts = vec![
        Part::new("queue", places(asker, &queue)),
        Part::new("users", users(asker, &queue)),
        Part::new("pending", pending(asker, &queue)),
        Part::new("settings", settings(&queue)),
    ];
    let heading = html! {
        h1 { "Queue" }
        p class="muted" { "Best-effort batch jobs that wait until it is their user's turn and there is room." }
        p class="links" { a href=(asker.to(Place::Pending)) { "All that is pending" } }
    };
    let command = super::at(asker, "bourg queue -o wide".to_owned());
    Ok(Page::live("Queue", heading, command, parts))
}

/// The queue. It is the same for everyone, so it is shared for a while.
async fn ask(asker: &mut PageClient) -> Result<Arc<v1::QueueResponse>, Problem> {
    let (mut own, at) = (asker.clone(), asker.at);
    let pending = if at.is_some() { PENDING_PAST } else { PENDING };
    let request = v1::QueueRequest { most: PLACES, pending, at, ..v1::QueueRequest::default() };
    let fetch = async move { own.ask(request, async |mut c, r| c.jobs.queue(r).await).await };
    match at {
        Some(_) => fetch.await.map(Arc::new),
        None => asker.shared.queue.get_soon(Box::pin(fetch)).await,
    }
}

fn places(asker: &PageClient, queue: &v1::QueueResponse) -> Markup {
    let more = queue.all_jobs.saturating_sub(u32::try_from(queue.jobs.len()).unwrap_or(u32::MAX));
    html! {
        h2 { "Waiting" }
        @if queue.jobs.is_empty() {
            p class="muted" { "Nothing waits in the queue." }
        } @else {
            div class="scroll" { table {
                thead { tr {
                    th scope="col" class="num" { "Place" }
                    th scope="col" { "Job" }
                    th scope="col" class="num" { "Waiting" }
                    th scope="col" class="num" { "Running" }
                    th scope="col" { "Since" }
                    th scope="col" { "Share" }
                    th scope="col" { "Waits for" }
                    th scope="col" { "Starts" }
                    th scope="col" { "By" }
                } }
                tbody { @for place in &queue.jobs {
                    @let (user, job) = (place.user.clone(), place.job.clone());
                    @let why = asker.to(Place::Why { user: user.clone(), job: job.clone() });
                    @let href = asker.to_job(&user, &job);
                    tr data-href=(href) data-w=(why) {
                        td class="num" { @if place.place == 0 { "-" } @else { (place.place) } }
                        th scope="row" { a href=(href) { (place.user) "/" (place.job) } }
                        td class="num" { (place.queued) }
                        td class="num" { (place.pending.saturating_add(place.running)) }
                        td class="nowrap" { (show::ago(place.since, asker.now)) }
                        td class="nowrap" { (present::queue_share(place.share, &place.dimension)) }
                        td { a href=(why) { (present::queue_wait(place.waits_for.as_ref())) } }
                        td class="nowrap" { (present::queue_start(place, queue.time)) }
                        td { (present::queue_start_basis(place)) }
                    }
                } }
            } }
            @if more > 0 { p class="muted" { (counted(more, "more job")) " further behind." } }
        }
    }
}

fn users(asker: &PageClient, queue: &v1::QueueResponse) -> Markup {
    html! { @if !queue.users.is_empty() {
        h2 { "Shares" }
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "User" }
                th scope="col" { "Share by weight" }
                th scope="col" { "Weights" }
                th scope="col" { "Used" }
                th scope="col" class="num" { "Waiting jobs" }
            } }
            tbody { @for share in &queue.users {
                @let href = asker.to(Place::User { name: share.user.clone() });
                tr data-href=(href) {
                    th scope="row" { a href=(href) { (share.user) } }
                    td class="nowrap" { (present::queue_share(share.share, &share.dimension)) }
                    td { (present::queue_weights(share)) }
                    td { (show::cpu_and_ram(share.used.as_ref())) }
                    td class="num" { (share.jobs) }
                }
            } }
        } }
    } }
}

fn pending(asker: &PageClient, queue: &v1::QueueResponse) -> Markup {
    html! { @if !queue.pending.is_empty() {
        h2 { "Pending, by priority" }
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Job" }
                th scope="col" { "Band" }
                th scope="col" class="num" { "Pending" }
                th scope="col" { "Since" }
                th scope="col" { "Machines" }
            } }
            tbody { @for job in &queue.pending {
                @let href = asker.to(Place::Why { user: job.user.clone(), job: job.job.clone() });
                tr data-href=(href) {
                    th scope="row" { a href=(href) { (job.user) "/" (job.job) } }
                    td class="nowrap" { (jobs::band(Some(job.priority))) }
                    td class="num" { (job.pending) }
                    td class="nowrap" { (show::ago(job.since, asker.now)) }
                    td { @if !job.reason.is_empty() {
                        (job.reason_machines) " of " (job.machines) " " (job.reason)
                    } }
                }
            } }
        } }
    } }
}

fn settings(queue: &v1::QueueResponse) -> Markup {
    let settings = queue.settings.clone().unwrap_or_default();
    let span = |of: Option<api::Duration>| {
        let span: Option<Span> = of.and_then(|of| api::span(&of).ok());
        span.map_or_else(|| "none".to_owned(), |span| span.to_string())
    };
    html! {
        h2 { "Settings" }
        (show::facts([
            ("Queue", html! { @if settings.on { "on" } @else { "off" } }),
            ("Poorest user", html! { (settings.poorest) }),
            ("Half-life", html! { (span(settings.half_life)) }),
            ("Assumed runtime", html! { (span(settings.assumed_runtime)) }),
        ]))
    }
}

/// The place of a job in the queue, for the pages of the job.
pub(super) fn place(asker: &PageClient, place: &v1::QueuePlace, time: u64) -> Markup {
    html! {
        a href=(asker.to(Place::Queue)) { (present::queue_place(place, time)) }
    }
}

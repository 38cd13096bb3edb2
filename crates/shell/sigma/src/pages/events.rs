//! The events of the cell, of a job, a task or a machine: who did what, and why.

use api::v1;
use api::v1::events_request::From;
use maud::{Markup, html};
use present::EventWords;

use super::{Page, Part, quoted};
use crate::address::Query;
use crate::asker::{PageClient, RecentEvents};
use crate::problem::Problem;
use crate::show;

/// How many events a page shows: by default, and at most.
const LAST: u32 = 100;
const LAST_MAX: u32 = 2_000;

pub(super) async fn page(asker: &mut PageClient, query: &Query) -> Result<Page, Problem> {
    let last = match query.get("last") {
        "" => LAST,
        text => text
            .parse()
            .ok()
            .filter(|last| (1..=LAST_MAX).contains(last))
            .ok_or_else(|| Problem::bad(format!("last is 1 to {LAST_MAX}, not '{text}'")))?,
    };
    let (machine, labels) = (query.get("machine").to_owned(), query.get("labels").to_owned());
    let mut command = format!("bourg events --last {last}");
    for (flag, value) in [("--machine", &machine), ("--labels", &labels)] {
        if !value.is_empty() {
            command += &format!(" {flag} {}", quoted(value));
        }
    }
    let (job, tasks) = match query.get("job") {
        "" => (None, None),
        text => {
            let address =
                text.parse::<model::Address>().map_err(|e| Problem::bad(e.to_string()))?;
            command += &format!(" {}", quoted(text));
            let user = address.user.as_ref().map(ToString::to_string).unwrap_or_default();
            let job = v1::JobAddress { user, job: address.job.to_string() };
            (Some(job), Some((&address.tasks).into()))
        }
    };
    let request = v1::EventsRequest {
        job,
        tasks,
        machine: machine.clone(),
        labels: labels.clone(),
        from: Some(From::Last(last)),
        ..v1::EventsRequest::default()
    };
    let events = asker.events(request).await?;
    let form = html! {
        h1 { "Events" }
        form class="filter" action="/events" {
            @if let Some(at) = &asker.address.at { input type="hidden" name="at" value=(at); }
            label { "Job or task" input name="job" value=(query.get("job")) placeholder="ana/web/3"; }
            label { "Machine" input name="machine" value=(machine) placeholder="m1"; }
            label { "Labels" input name="labels" value=(labels) placeholder="team=search"; }
            label { "Newest" input name="last" inputmode="numeric" value=(last) size="5"; }
            button type="submit" { "Show" }
        }
    };
    let part = Part::new("events", newest(asker, Some(&events), true));
    Ok(Page::live("Events", form, super::at(asker, command), vec![part]))
}

/// The newest events of something, the newest first, or that they are still searched.
pub(super) fn newest(
    asker: &PageClient,
    history: Option<&RecentEvents>,
    with_subject: bool,
) -> Markup {
    match history {
        Some(history) => table(asker, &history.events, with_subject),
        None => html! { p class="muted" { "Looking for them among all events of the cell …" } },
    }
}

/// Events, the newest first.
pub(super) fn table(asker: &PageClient, events: &[v1::EventRecord], with_subject: bool) -> Markup {
    if events.is_empty() {
        return show::empty("No events match.", "bourg events --all");
    }
    html! {
        div class="scroll" { table class="events" {
            thead { tr {
                th scope="col" { "When" }
                @if with_subject { th scope="col" { "What" } }
                th scope="col" { "Event" }
                th scope="col" { "Detail" }
                th scope="col" { "By" }
            } }
            tbody { @for event in events.iter().rev() {
                @let words = EventWords::of(event);
                tr {
                    td class="nowrap" { (show::ago(event.time, asker.now)) }
                    @if with_subject { td { (subject(asker, event, &words.subject)) } }
                    td class="nowrap" { span class={ "event event-" (words.name.to_lowercase()) } { (words.name) } }
                    td class="detail" { (words.detail) }
                    td class="nowrap" { (words.by) }
                }
            } }
        } }
    }
}

/// What an event happened to, as a link.
fn subject(asker: &PageClient, event: &v1::EventRecord, words: &str) -> Markup {
    let index = words.rsplit_once('/').and_then(|(_, index)| index.parse().ok());
    let href = match (event.user.as_str(), event.job.as_str(), event.machine.as_str()) {
        ("", _, "") | (_, "", "") => return html! { (words) },
        ("", _, machine) | (_, "", machine) => asker.to_machine(machine),
        (user, job, _) => match index {
            Some(index) if words.matches('/').count() == 2 => asker.to_task(user, job, index),
            _ => asker.to_job(user, job),
        },
    };
    show::link(&href, words)
}

//! All jobs: searched and filtered.

use std::collections::BTreeMap;

use api::{v1, word};
use maud::{Markup, html};
use model::{LabelQuery, LabelQueryError, Priority};

use super::{Page, Part, quoted};
use crate::address::{Place, Query};
use crate::asker::PageClient;
use crate::problem::Problem;
use crate::show;

/// The most jobs on one page.
const ROWS: usize = 200;
const BANDS: [&str; 5] = ["free", "best-effort-batch", "mid", "production", "monitoring"];
const STATES: [&str; 7] = ["alive", "queued", "pending", "running", "finished", "failed", "killed"];

/// A job in the list.
struct JobRow<'a> {
    job: &'a v1::JobStatus,
    name: &'a str,
    band: String,
    used: Option<&'a v1::JobUsage>,
}

pub(super) async fn page(asker: &mut PageClient, query: &Query) -> Result<Page, Problem> {
    let jobs = asker.jobs().await?;
    let used = match asker.at {
        None => Some(asker.jobs_used().await?),
        Some(_) => None,
    };
    let used: BTreeMap<(&str, &str), &v1::JobUsage> = used
        .iter()
        .flat_map(|used| used.jobs.iter())
        .map(|job| ((job.user.as_str(), job.job.as_str()), job))
        .collect();
    let labels = match query.get("labels") {
        "" => LabelQuery::default(),
        text => text.parse().map_err(|error: LabelQueryError| Problem::bad(error.to_string()))?,
    };
    let mut rows: Vec<JobRow<'_>> = Vec::new();
    for job in &jobs.jobs {
        let Some(spec) = &job.spec else { continue };
        let band = band(spec.priority);
        let is_wanted = matches(query, job, spec, &band)
            && labels.holds(|key| spec.labels.get(key).map(String::as_str));
        if is_wanted {
            let used = used.get(&(job.user.as_str(), spec.name.as_str())).copied();
            rows.push(JobRow { job, name: &spec.name, band, used });
        }
    }
    rows.sort_by(|one, other| {
        let order = |row: &JobRow<'_>| {
            let counts = row.job.counts.unwrap_or_default();
            let is_mine = row.job.user == asker.rights.user;
            (!is_alive(row.job), counts.pending == 0, !is_mine)
        };
        order(one).cmp(&order(other)).then_with(|| {
            (&one.job.user, one.name, other.job.submitted).cmp(&(
                &other.job.user,
                other.name,
                one.job.submitted,
            ))
        })
    });
    let all = rows.len();
    rows.truncate(ROWS);
    let list = html! {
        @if rows.is_empty() && !jobs.jobs.is_empty() {
            p class="muted" { "No job matches: search for less, or for jobs in all states." }
        } @else if rows.is_empty() {
            (show::empty("There are no jobs.", "bourg run examples/hello.bcl"))
        } @else {
            (table(asker, &rows))
            @if all > ROWS {
                p class="muted" { "The first " (ROWS) " of " (all) " jobs: search for fewer." }
            }
        }
    };
    let mut command = "bourg status".to_owned();
    if !matches!(query.get("state"), "" | "alive") {
        command += " --all";
    }
    if !query.get("labels").is_empty() {
        command += &format!(" -l {}", quoted(query.get("labels")));
    }
    command = super::at(asker, command);
    // The rest is in the lines of the table.
    for field in ["q", "user", "band", "state"] {
        let text = query.get(field);
        if !text.is_empty() && text != "alive" {
            command += &format!(" | grep -F {}", quoted(text));
        }
    }
    let heading = html! {
        h1 { "Jobs" }
        (filter(asker, query))
    };
    Ok(Page::live("Jobs", heading, command, vec![Part::new("jobs", list)]))
}

fn filter(asker: &PageClient, query: &Query) -> Markup {
    let choice = |name: &str, label: &str, first: &str, words: &[&str]| {
        html! {
            label { (label)
                select name=(name) {
                    @if !first.is_empty() { option value="" { (first) } }
                    @for word in words { option value=(word) selected[query.get(name) == *word] { (word) } }
                }
            }
        }
    };
    html! {
        form class="filter" action="/jobs" {
            @if let Some(at) = &asker.address.at { input type="hidden" name="at" value=(at); }
            label { "Name" input name="q" value=(query.get("q")) placeholder="part of a name"; }
            label { "User" input name="user" value=(query.get("user")); }
            label { "Labels" input name="labels" value=(query.get("labels")) placeholder="team=search,tier!=canary"; }
            (choice("band", "Band", "all", &BANDS))
            (choice("state", "State", "", &STATES))
            button type="submit" { "Filter" }
        }
    }
}

fn matches(query: &Query, job: &v1::JobStatus, spec: &v1::JobSpec, band: &str) -> bool {
    let part = query.get("q");
    let is_named = part.is_empty()
        || spec.name.contains(part)
        || job.user.contains(part)
        || format!("{}/{}", job.user, spec.name).contains(part);
    let state = match query.get("state") {
        "" | "alive" => is_alive(job),
        state => word::<v1::JobState>(job.state) == state,
    };
    let is_of = |field: &str, value: &str| query.get(field).is_empty() || query.get(field) == value;
    is_named && state && is_of("user", &job.user) && is_of("band", band)
}

pub(super) fn is_alive(job: &v1::JobStatus) -> bool {
    use v1::JobState::{Pending, Queued, Running};
    matches!(job.state(), Pending | Queued | Running)
}

/// The band of a priority, in a word.
pub(super) fn band(priority: Option<u32>) -> String {
    let priority = priority.and_then(|number| Priority::new(number.into()).ok());
    priority.map_or_else(String::new, |priority| priority.band().to_string())
}

fn table(asker: &PageClient, rows: &[JobRow<'_>]) -> Markup {
    html! {
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Job" }
                th scope="col" { "State" }
                th scope="col" { "Band" }
                th scope="col" { "Tasks" }
                th scope="col" class="num" { "Pending" }
                th scope="col" class="num" { "Failures" }
                th scope="col" { "CPU used of limit" }
                th scope="col" { "RAM used of limit" }
                th scope="col" { "Submitted" }
            } }
            tbody { @for row in rows {
                @let counts = row.job.counts.unwrap_or_default();
                @let total = row.used.and_then(|used| used.total.as_ref());
                @let limit = total.and_then(|total| total.limit.as_ref());
                @let used = total.and_then(|total| total.used.as_ref());
                @let place = |place: fn(String, String) -> Place| {
                    asker.to(place(row.job.user.clone(), row.name.to_owned()))
                };
                tr data-href=(place(|user, job| Place::Job { user, job }))
                    data-d=(place(|user, job| Place::Description { user, job }))
                    data-w=(place(|user, job| Place::Why { user, job })) {
                    th scope="row" { a href=(place(|user, job| Place::Job { user, job })) {
                        (row.job.user) "/" (row.name)
                    } }
                    td { (show::job_state(row.job)) }
                    td class="nowrap" { (row.band) }
                    td class="nowrap" { (counts.healthy.max(counts.finished)) " of " (counts.tasks) " "
                        span class="muted" { @if counts.finished > 0 { "finished" } @else { "healthy" } } }
                    td class=(if counts.pending > 0 { "num bad" } else { "num" }) {
                        @if counts.pending > 0 {
                            a href=(place(|user, job| Place::Why { user, job })) { (counts.pending) }
                        } @else { "0" }
                    }
                    td class="num" { @if let Some(used) = row.used { (used.failures) } @else { "-" } }
                    td { (show::bar(show::share(used.and_then(|used| used.cpu_milli), limit.map(|limit| limit.cpu_milli)), "CPU used of the limit")) }
                    td { (show::bar(show::share(used.and_then(|used| used.memory_bytes), limit.map(|limit| limit.ram_bytes)), "RAM used of the limit")) }
                    td class="nowrap" { (show::ago(row.job.submitted, asker.now)) }
                }
            } }
        } }
    }
}

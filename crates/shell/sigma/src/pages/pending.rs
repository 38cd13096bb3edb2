//! All pending tasks: by band, by job with the reason, and which checks machines fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::v1;
use axum::http::StatusCode;
use maud::{Markup, html};
use model::Time;

use super::why::{counted, tasks_of};
use super::{Page, Part, bands, jobs};
use crate::address::{Place, Query};
use crate::asker::{Fetch, PATIENCE_OF_A_PART, PageClient};
use crate::problem::Problem;
use crate::show;

/// How many jobs are explained, those with most pending tasks: each is a look at all machines.
const JOBS: usize = 20;
/// The same for the past, where another process answers one question after the other.
const JOBS_PAST: usize = 5;

pub(super) async fn page(asker: &mut PageClient) -> Result<Page, Problem> {
    let jobs = asker.jobs().await?;
    let waiting = waiting(&jobs.jobs);
    let most = if asker.at.is_some() { JOBS_PAST } else { JOBS };
    let first: Vec<v1::JobAddress> = waiting.iter().take(most).map(address).collect();
    let whys = whys(asker, first).await?;
    let parts = if waiting.is_empty() && queued(&jobs.jobs) == 0 {
        vec![Part::new("bands", show::empty("Nothing is pending.", "bourg status"))]
    } else {
        vec![
            Part::new("bands", band_table(asker, &jobs.jobs)),
            Part::new("jobs", table(asker, &waiting, &whys, most)),
            Part::new("checks", by_reason(&whys)),
        ]
    };
    let heading = html! {
        h1 { "Pending" }
        p class="muted" { "Tasks that wait for a machine, and why." }
        p class="links" { a href=(asker.to(Place::Queue)) { "Queue" } }
    };
    // There is no command for all of them: the first.
    let command = match waiting.first() {
        Some(job) => format!("bourg why {}", super::quoted(&format!("{}/{}", job.user, name(job)))),
        None => "bourg status".to_owned(),
    };
    let command = super::at(asker, command);
    Ok(Page::live("Pending", heading, command, parts))
}

/// Jobs with pending tasks: those with most of them first.
fn waiting(jobs: &[v1::JobStatus]) -> Vec<&v1::JobStatus> {
    let pending = |job: &v1::JobStatus| job.counts.unwrap_or_default().pending;
    let mut waiting: Vec<_> = jobs.iter().filter(|job| pending(job) > 0).collect();
    waiting.sort_by_key(|job| (std::cmp::Reverse(pending(job)), &job.user, job.collection));
    waiting
}

/// The tasks that wait for other jobs.
fn queued(jobs: &[v1::JobStatus]) -> u32 {
    let queued = jobs.iter().map(|job| job.counts.unwrap_or_default().queued);
    queued.fold(0, u32::saturating_add)
}

fn address(job: &&v1::JobStatus) -> v1::JobAddress {
    v1::JobAddress { user: job.user.clone(), job: name(job).to_owned() }
}

fn name(job: &v1::JobStatus) -> &str {
    job.spec.as_ref().map_or("", |spec| &spec.name)
}

/// Why jobs are pending.
type Whys = Arc<Vec<v1::WhyResponse>>;

/// Why some jobs are pending. They are the same for everyone, so they are shared for a while.
async fn whys(asker: &mut PageClient, jobs: Vec<v1::JobAddress>) -> Result<Whys, Problem> {
    if jobs.is_empty() {
        return Ok(Arc::default());
    }
    let fetch = fetch(asker, jobs);
    match asker.at {
        Some(_) => fetch.await.map(Arc::new),
        None => asker.shared.whys.get_soon(fetch).await,
    }
}

/// Why the jobs with most pending tasks are pending now, if that is known in a moment. Not for the past.
pub(super) async fn whys_soon(asker: &mut PageClient) -> Result<Option<Whys>, Problem> {
    let jobs = asker.jobs().await?;
    let first: Vec<v1::JobAddress> = waiting(&jobs.jobs).iter().take(JOBS).map(address).collect();
    if first.is_empty() {
        return Ok(Some(Arc::default()));
    }
    let fetch = fetch(asker, first);
    asker.shared.whys.get_within(PATIENCE_OF_A_PART, fetch).await
}

fn fetch(asker: &PageClient, jobs: Vec<v1::JobAddress>) -> Fetch<Vec<v1::WhyResponse>> {
    let mut own = asker.clone();
    Box::pin(async move {
        let mut answers = Vec::with_capacity(jobs.len());
        for job in jobs {
            let at = own.at;
            let request = v1::WhyRequest { job: Some(job), at, ..v1::WhyRequest::default() };
            match own.ask(request, async |mut c, r| c.jobs.why(r).await).await {
                Ok(answer) => answers.push(answer),
                // The list of jobs may be a little older.
                Err(problem) if problem.status == StatusCode::NOT_FOUND => {}
                Err(problem) => return Err(problem),
            }
        }
        Ok(answers)
    })
}

/// Pending tasks of a band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OfBand {
    pending: u32,
    queued: u32,
    jobs: u32,
}

fn by_band(jobs: &[v1::JobStatus]) -> BTreeMap<String, OfBand> {
    let mut bands: BTreeMap<String, OfBand> = BTreeMap::new();
    for job in jobs {
        let counts = job.counts.unwrap_or_default();
        if counts.pending == 0 && counts.queued == 0 {
            continue;
        }
        let band = jobs::band(job.spec.as_ref().and_then(|spec| spec.priority));
        let found = bands.entry(band).or_default();
        found.pending = found.pending.saturating_add(counts.pending);
        found.queued = found.queued.saturating_add(counts.queued);
        found.jobs += 1;
    }
    bands
}

fn band_table(asker: &PageClient, jobs: &[v1::JobStatus]) -> Markup {
    let found = by_band(jobs);
    let all = found.values().map(|band| band.pending).fold(0, u32::saturating_add);
    html! {
        h2 { "By band" }
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Band" }
                th scope="col" class="num" { "Pending" }
                th scope="col" { "Share" }
                th scope="col" class="num" { "Queued" }
                th scope="col" class="num" { "Jobs" }
            } }
            tbody { @for band in bands::BANDS.map(|(band, _)| bands::name(band)) {
                @let found = found.get(&band).copied().unwrap_or_default();
                @let query = Query::default().with("band", &band);
                tr {
                    th scope="row" { a href=(asker.to(Place::Jobs(query))) { (band) } }
                    td class=(if found.pending > 0 { "num bad" } else { "num" }) { (found.pending) }
                    td { (show::bar(show::share(Some(found.pending.into()), Some(all.into())), "Share of pending tasks")) }
                    td class="num" { (found.queued) }
                    td class="num" { (found.jobs) }
                }
            } }
        } }
    }
}

fn table(
    asker: &PageClient,
    waiting: &[&v1::JobStatus],
    whys: &[v1::WhyResponse],
    most: usize,
) -> Markup {
    if waiting.is_empty() {
        return html! {
            h2 { "By job" }
            p class="muted" { "No task waits for a machine: those above wait for other jobs to finish." }
        };
    }
    let rest = waiting.iter().skip(most);
    let more = rest.map(|job| job.counts.unwrap_or_default().pending).fold(0, u32::saturating_add);
    let others = u32::try_from(waiting.len().saturating_sub(most)).unwrap_or(u32::MAX);
    html! {
        h2 { "By job" }
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Job" }
                th scope="col" { "Band" }
                th scope="col" class="num" { "Pending" }
                th scope="col" class="num" { "Of" }
                th scope="col" { "Since" }
                th scope="col" { "Cause" }
                th scope="col" { "What is missing" }
                th scope="col" { "What would help" }
            } }
            tbody { @for job in waiting.iter().take(most) {
                @let counts = job.counts.unwrap_or_default();
                @let (user, name) = (&job.user, name(job));
                @let why = whys.iter().find(|why| why.user == *user && why.job == name);
                @let first = why.and_then(|why| why.groups.first());
                @let href = asker.to(Place::Why { user: user.clone(), job: name.to_owned() });
                tr data-href=(href) data-w=(href) {
                    th scope="row" { a href=(href) { (user) "/" (name) } }
                    td class="nowrap" { (jobs::band(job.spec.as_ref().and_then(|spec| spec.priority))) }
                    td class="num" { (counts.pending) }
                    td class="num" { (counts.tasks) }
                    td class="nowrap" { (show::ago(why.map(since).unwrap_or_default(), asker.now)) }
                    td { @if let Some(first) = first { (first.cause) } }
                    td class="why" { @if let Some(why) = why { (in_one_line(why)) } @else { span class="muted" { "asked in a moment" } } }
                    td { @if let Some(first) = first { (first.smallest_change) } }
                }
            } }
        } }
        @if others > 0 {
            p class="muted" {
                (counted(others, "more job")) " with " (counted(more, "pending task")) ": "
                a href=(asker.to(Place::Jobs(Query::default()))) { "all jobs" }
                ", those with pending tasks first."
            }
        }
    }
}

/// Since when the first task of a job has been pending; 0 if none is.
fn since(why: &v1::WhyResponse) -> u64 {
    why.groups.iter().map(|group| group.since).min().unwrap_or_default()
}

/// An answer in one line: of the request with most tasks, what most machines lack.
fn in_one_line(why: &v1::WhyResponse) -> String {
    if why.queued > 0 && why.waits.is_empty() {
        return format!("{} in the batch queue", why.queued);
    }
    if why.queued > 0 {
        return format!("{} queued {}", why.queued, present::until(&why.waits));
    }
    let Some(group) = why.groups.iter().rev().max_by_key(|group| tasks_of(group)) else {
        return "placed meanwhile".to_owned();
    };
    let places = if why.alloc_set.is_empty() { "machine" } else { "alloc" };
    let all = counted(group.machines, places);
    let mut text = if group.not_before > why.time {
        let wait = Time(group.not_before).since(Time(why.time));
        format!("waits after a failure, retried in {}", show::span(wait.0))
    } else if group.machines == 0 {
        format!("there are no {places}s")
    } else if group.fits > 0 {
        format!("room on {} of {all}: it is placed next", group.fits)
    } else {
        match group.unschedulable_reasons.first() {
            Some(reason) => {
                let nearest = match reason.nearest.as_str() {
                    "" => String::new(),
                    nearest => format!(" ({nearest})"),
                };
                format!("{} of {all} {}{nearest}", reason.machines, reason.reason)
            }
            None => String::new(),
        }
    };
    if why.groups.len() > 1 {
        text += &format!("; {} different requests", why.groups.len());
    }
    text
}

/// The machines that fail a check, over all jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Check<'a> {
    /// For which jobs, and how many of their pending tasks, there are such machines.
    jobs: BTreeSet<(&'a str, &'a str)>,
    tasks: u32,
    /// How often a machine failed it.
    failed: u64,
}

/// Which checks machines fail, the most frequent first.
fn by_check(whys: &[v1::WhyResponse]) -> Vec<(String, Check<'_>)> {
    let mut checks: BTreeMap<String, Check<'_>> = BTreeMap::new();
    for why in whys {
        for group in &why.groups {
            for reason in &group.unschedulable_reasons {
                let check = checks.entry(plural(&reason.reason)).or_default();
                check.jobs.insert((&why.user, &why.job));
                check.tasks = check.tasks.saturating_add(tasks_of(group));
                check.failed += u64::from(reason.machines);
            }
        }
    }
    let mut checks: Vec<_> = checks.into_iter().collect();
    checks.sort_by_key(|(_, check)| std::cmp::Reverse(check.failed));
    checks
}

/// A failed check of several machines: `lacks RAM` of one is `lack RAM` of two.
fn plural(text: &str) -> String {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let verb = match verb {
        "is" => "are",
        "was" => "were",
        "does" => "do",
        "has" => "have",
        "lacks" => "lack",
        "offers" => "offer",
        verb => verb,
    };
    format!("{verb} {rest}").trim_end().to_owned()
}

fn by_reason(whys: &[v1::WhyResponse]) -> Markup {
    html! { @if whys.iter().any(|why| !why.groups.is_empty()) { h2 { "By reason" } (checks(whys)) } }
}

/// Which checks machines fail, over the jobs that are explained.
pub(super) fn checks(whys: &[v1::WhyResponse]) -> Markup {
    let checks = by_check(whys);
    if checks.is_empty() {
        return html! {};
    }
    let all: u64 = checks.iter().map(|(_, check)| check.failed).sum();
    html! {
        p class="muted" { "What machines lack, over the jobs with most pending tasks: a machine counts once for each job, under the first check that it fails." }
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Machines that" }
                th scope="col" { "Share" }
                th scope="col" class="num" { "Count" }
                th scope="col" class="num" { "Jobs" }
                th scope="col" class="num" { "Pending tasks" }
            } }
            tbody { @for (text, check) in &checks {
                tr {
                    th scope="row" { (text) }
                    td { (show::bar(show::share(i64::try_from(check.failed).ok(), i64::try_from(all).ok()), "Share of failed checks")) }
                    td class="num" { (check.failed) }
                    td class="num" { (check.jobs.len()) }
                    td class="num" { (check.tasks) }
                }
            } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(machines: u32, reason: &str, nearest: &str) -> v1::UnschedulableReason {
        v1::UnschedulableReason {
            machines,
            reason: reason.to_owned(),
            nearest: nearest.to_owned(),
            ..v1::UnschedulableReason::default()
        }
    }

    fn group(tasks: u32, reasons: &[v1::UnschedulableReason]) -> v1::PendingGroup {
        v1::PendingGroup {
            tasks: vec![v1::IndexRange { first: 1, last: tasks }],
            machines: 14,
            unschedulable_reasons: reasons.to_vec(),
            ..v1::PendingGroup::default()
        }
    }

    fn why(job: &str, groups: &[v1::PendingGroup]) -> v1::WhyResponse {
        v1::WhyResponse {
            job: job.to_owned(),
            time: 1_000_000,
            groups: groups.to_vec(),
            ..v1::WhyResponse::default()
        }
    }

    #[test]
    fn an_answer_is_one_line() {
        let full = group(2, &[reason(12, "lack RAM", "m1 has 1 GiB"), reason(2, "are not up", "")]);
        let large = group(5, &[reason(14, "are too small (CPU)", "")]);
        let fits = v1::PendingGroup { fits: 3, ..full.clone() };
        let later = v1::PendingGroup { not_before: 31_000_000, ..full.clone() };
        let none = v1::PendingGroup { machines: 0, ..group(1, &[]) };
        let queued = v1::WhyResponse {
            queued: 4,
            waits: vec![v1::Awaited {
                job: "ana/extract".to_owned(),
                when: "finished".to_owned(),
                each_task: false,
            }],
            ..why("load", &[])
        };
        for (answer, expected) in [
            (why("web", &[]), "placed meanwhile"),
            (why("web", std::slice::from_ref(&full)), "12 of 14 machines lack RAM (m1 has 1 GiB)"),
            (
                why("web", &[full, large]),
                "14 of 14 machines are too small (CPU); 2 different requests",
            ),
            (why("web", &[fits]), "room on 3 of 14 machines: it is placed next"),
            (why("web", &[later]), "waits after a failure, retried in 30 s"),
            (why("web", &[none]), "there are no machines"),
            (queued, "4 queued until ana/extract has finished"),
        ] {
            assert_eq!(in_one_line(&answer), expected);
        }
    }

    #[test]
    fn one_machine_and_many_fail_the_same_check() {
        for (text, expected) in [
            ("lacks RAM", "lack RAM"),
            ("lack RAM", "lack RAM"),
            ("is not up", "are not up"),
            ("does not match rack=r1", "do not match rack=r1"),
            ("odd", "odd"),
        ] {
            assert_eq!(plural(text), expected);
        }
    }

    #[test]
    fn checks_are_counted_over_jobs() {
        let answers = [
            why("web", &[group(2, &[reason(13, "lack RAM", ""), reason(1, "is not up", "")])]),
            why(
                "db",
                &[group(1, &[reason(1, "lacks RAM", "")]), group(3, &[reason(14, "lack RAM", "")])],
            ),
        ];
        let found = by_check(&answers);
        let found = found
            .iter()
            .map(|(text, check)| (text.as_str(), (check.jobs.len(), check.tasks, check.failed)));
        let expected = [("lack RAM", (2, 6, 28)), ("are not up", (1, 2, 1))];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert!(by_check(&[]).is_empty());
    }

    #[test]
    fn pending_tasks_are_counted_by_band_and_the_largest_jobs_come_first() {
        let job = |name: &str, priority: u32, pending: u32, queued: u32| {
            let spec = v1::JobSpec {
                name: name.to_owned(),
                priority: Some(priority),
                ..v1::JobSpec::default()
            };
            v1::JobStatus {
                spec: Some(spec),
                counts: Some(v1::JobCounts { pending, queued, ..v1::JobCounts::default() }),
                ..v1::JobStatus::default()
            }
        };
        let jobs =
            [job("a", 200, 1, 0), job("b", 210, 7, 0), job("c", 25, 0, 5), job("d", 25, 0, 0)];
        let names: Vec<_> = waiting(&jobs).into_iter().map(name).collect();
        assert_eq!(names, ["b", "a"]);
        assert_eq!(queued(&jobs), 5);
        let bands = by_band(&jobs);
        assert_eq!(bands["production"], OfBand { pending: 8, queued: 0, jobs: 2 });
        assert_eq!(bands["free"], OfBand { pending: 0, queued: 5, jobs: 1 });
    }
}

//! The cell: what needs attention, its machines as a map, what is used of them now and lately, what
//! waits, and the replicas of its master.
//!
//! What is drawn of the present is the same for all viewers of the same address, so it is drawn once a
//! second for all of them.

mod alerts;
mod history;
mod map;
mod master;
#[cfg(test)]
mod tests;
mod totals;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{v1, word};
use maud::{Markup, html};
use model::Time;

use super::{Page, Part, jobs, pending};
use crate::address::{Address, Place, Query};
use crate::asker::{Drawn, PageClient};
use crate::fleet::{By, Fleet, Of};
use crate::problem::Problem;
use crate::show;

pub(crate) use map::rack;

/// How many hours the page can look back.
const HOURS: [u64; 3] = [1, 6, 24];
/// By default.
const HOURS_USUAL: u64 = 6;
/// How many jobs with pending tasks are listed.
const WAITING_MAX: usize = 10;

/// What of the cell is shown, by the query of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    of: Of,
    by: By,
    hours: u64,
}

impl View {
    fn read(query: &Query, is_past: bool) -> Result<Self, Problem> {
        let of = match query.get("of") {
            "" => Of::Cpu,
            text => Of::ALL
                .into_iter()
                .find(|of| of.word() == text)
                .ok_or_else(|| Problem::bad(format!("of is cpu, ram or disk, not '{text}'")))?,
        };
        let by = match query.get("by") {
            "" => By::Usage,
            text => By::ALL.into_iter().find(|by| by.word() == text).ok_or_else(|| {
                Problem::bad(format!("by is limit, reservation or usage, not '{text}'"))
            })?,
        };
        let hours = match query.get("hours") {
            "" => HOURS_USUAL,
            text => HOURS
                .into_iter()
                .find(|hours| hours.to_string() == text)
                .ok_or_else(|| Problem::bad(format!("hours is 1, 6 or 24, not '{text}'")))?,
        };
        // Only limits are kept.
        Ok(Self { of, by: if is_past { By::Limit } else { by }, hours })
    }

    /// The page with another view.
    fn place(self) -> Place {
        let hours = self.hours.to_string();
        let query = Query::default().with("of", self.of.word()).with("by", self.by.word());
        Place::Cell(query.with("hours", if self.hours == HOURS_USUAL { "" } else { &hours }))
    }
}

/// A job with pending tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    user: String,
    job: String,
    band: String,
    pending: u32,
}

/// All that the page is drawn from.
struct Facts {
    address: Address,
    view: View,
    now: Time,
    status: Arc<v1::CellStatusResponse>,
    fleet: Arc<Fleet>,
    /// By jobs that have any, the most first; none if it is unknown.
    waiting: Option<Vec<Waiting>>,
    /// Why the first of them wait; none if it is not known yet, and on a page of the past, where it would take
    /// long.
    whys: Option<Arc<Vec<v1::WhyResponse>>>,
    history: Option<Arc<v1::UsageResponse>>,
    /// These have no past.
    replicas: Option<Arc<v1::ReplicasResponse>>,
    quota: Option<Arc<v1::QuotaResponse>>,
    users: Option<Arc<v1::UsersResponse>>,
}

impl Facts {
    fn is_past(&self) -> bool {
        self.address.at.is_some()
    }

    /// A link at the same moment.
    fn to(&self, place: Place) -> String {
        self.address.to(place)
    }

    fn to_machine(&self, name: &str) -> String {
        self.to(Place::Machine { name: name.to_owned() })
    }

    async fn ask(asker: &mut PageClient, view: View) -> Result<Self, Problem> {
        let status = asker.status().await?;
        let fleet = asker.fleet().await?;
        let is_past = asker.at.is_some();
        let waiting = match is_past {
            true => known(asker.jobs().await)?.map(|jobs| waiting_then(&jobs.jobs)),
            false => known(asker.jobs_used().await)?.map(|used| waiting_now(&used.jobs)),
        };
        let history = known(asker.history(view.hours).await)?;
        let (mut replicas, mut quota, mut users, mut whys) = (None, None, None, None);
        if !is_past {
            whys = known(pending::whys_soon(asker).await)?.flatten();
            replicas = known(asker.replicas().await)?;
            quota = known(asker.quota().await)?;
            users = known(asker.users().await)?;
        }
        let now = if is_past { Time(status.time) } else { asker.now };
        let address = asker.address.clone();
        Ok(Self {
            address,
            view,
            now,
            status,
            fleet,
            waiting,
            whys,
            history,
            replicas,
            quota,
            users,
        })
    }
}

/// What is only a part of the page: without an answer the page says so there.
fn known<T>(answer: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(problem) if problem.is_sign_out() => Err(problem),
        Err(_) => Ok(None),
    }
}

pub(super) async fn page(asker: &mut PageClient, query: &Query) -> Result<Page, Problem> {
    let view = View::read(query, asker.at.is_some())?;
    let drawn = match asker.at {
        Some(_) => Arc::new(draw(&Box::pin(Facts::ask(asker, view)).await?)),
        None => {
            // All viewers of this address see the same links.
            let place = view.place();
            let mut own = asker.clone();
            own.address = Address { place: place.clone(), at: None };
            let drawing =
                Box::pin(async move { Facts::ask(&mut own, view).await.map(|f| draw(&f)) });
            asker.shared.drawn.of(place.to_string()).get_soon(drawing).await?
        }
    };
    let part =
        |(id, class, html): &Drawn| Part { id: id.clone(), class: *class, html: html.clone() };
    let heading = html! { h1 { "Cell " (asker.cell()) } };
    let command = super::at(asker, "bourg cell status".to_owned());
    Ok(Page::live("Cell", heading, command, drawn.iter().map(part).collect()))
}

/// All parts of the page.
fn draw(facts: &Facts) -> Vec<Drawn> {
    let part = |id: &str, class, html: Markup| (id.to_owned(), class, html.into_string());
    let mut parts = vec![
        part("alerts", None, alerts::shown(facts)),
        part("facts", None, summary(facts)),
        part("totals", Some("panel"), totals::shown(facts)),
        part("machines", None, map::heading(facts)),
    ];
    parts.extend(map::racks(facts));
    parts.extend([
        part("history", None, history::charts(facts)),
        part("pending", None, waits(facts)),
        part("evictions", None, history::evictions(facts)),
        part("master", None, master::shown(facts)),
    ]);
    parts
}

/// The cell in numbers.
fn summary(facts: &Facts) -> Markup {
    let status = &facts.status;
    let up = facts.fleet.machines().filter(|one| one.state() == v1::MachineState::Up).count();
    let all = |state: &str| facts.to(Place::Machines(Query::default().with("state", state)));
    let running = facts.fleet.used().and_then(|used| used.cell.as_ref()?.tasks);
    let setting = status.reclamation.as_ref();
    let reclaimed = setting.and_then(|reclamation| reclamation.reclaimed);
    let mut shown = vec![
        (
            "Machines",
            html! {
                a href=(all("")) { (up) " up of " (facts.fleet.len()) }
                @for (count, state) in [
                    (status.machines_unreachable, "unreachable"),
                    (status.machines_down, "down"),
                ] {
                    @if count > 0 { ", " a class="bad" href=(all(state)) { (count) " " (state) } }
                }
            },
        ),
        (
            "Tasks",
            html! {
                @if let Some(running) = running { (running.running) " running, " }
                @if let Some(waiting) = &facts.waiting {
                    a href=(facts.to(Place::Pending)) { (pending_sum(waiting)) " pending" }
                    ", "
                }
                span class="muted" { (status.tasks) " with dead ones" }
            },
        ),
        (
            "Jobs",
            html! { a href=(facts.to(Place::Jobs(Query::default()))) { (status.jobs) } span class="muted" { " with dead ones" } },
        ),
        (
            "Reclaimed",
            html! {
                @match &reclaimed {
                    Some(all) => {
                        (Of::Cpu.show(Some(all.cpu_milli))) ", " (Of::Ram.show(Some(all.ram_bytes)))
                    }
                    None => (show::cpu(None)),
                }
                @if let Some(reclamation) = setting {
                    " " span class="muted" { "(" (reclamation.setting) ")" }
                }
            },
        ),
    ];
    if !facts.is_past() {
        let schedulers = if status.schedulers == 1 { "follows" } else { "follow" };
        shown.push(("Schedulers", html! { (status.schedulers) " " (schedulers) " this replica" }));
    }
    shown.push((
        "Log",
        html! {
            "index " (status.index)
            @if facts.is_past() { span class="muted" { " at " (show::exact(status.time)) } }
        },
    ));
    show::facts(shown)
}

fn pending_sum(waiting: &[Waiting]) -> u64 {
    waiting.iter().map(|job| u64::from(job.pending)).sum()
}

/// The jobs that have pending tasks now.
fn waiting_now(jobs: &[v1::JobUsage]) -> Vec<Waiting> {
    let waiting = jobs.iter().filter(|job| job.pending > 0).map(|job| Waiting {
        user: job.user.clone(),
        job: job.job.clone(),
        band: word::<v1::Band>(job.band).into_owned(),
        pending: job.pending,
    });
    by_pending(waiting.collect())
}

/// The jobs that had pending tasks.
fn waiting_then(jobs: &[v1::JobStatus]) -> Vec<Waiting> {
    let waiting = jobs.iter().filter_map(|job| {
        let spec = job.spec.as_ref()?;
        let pending = job.counts.filter(|_| jobs::is_alive(job))?.pending;
        (pending > 0).then(|| Waiting {
            user: job.user.clone(),
            job: spec.name.clone(),
            band: jobs::band(spec.priority),
            pending,
        })
    });
    by_pending(waiting.collect())
}

fn by_pending(mut waiting: Vec<Waiting>) -> Vec<Waiting> {
    waiting.sort_by(|one, other| {
        let name = |job: &Waiting| (job.user.clone(), job.job.clone());
        other.pending.cmp(&one.pending).then_with(|| name(one).cmp(&name(other)))
    });
    waiting
}

/// What waits: by band, the jobs of which most does, and for what.
fn waits(facts: &Facts) -> Markup {
    let Some(waiting) = &facts.waiting else {
        return html! { h2 { "Pending tasks" } p class="bad" { "Unknown: no replica has answered." } };
    };
    let mut bands: BTreeMap<&str, u64> = BTreeMap::new();
    for job in waiting {
        *bands.entry(&job.band).or_default() += u64::from(job.pending);
    }
    html! {
        h2 { "Pending tasks" }
        @if waiting.is_empty() {
            p class="muted" { "Nothing waits for a machine. " a href=(facts.to(Place::Queue)) { "Queue" } }
        } @else {
            p class="links" {
                @for (band, count) in &bands { span { strong { (count) } " " (band) } }
                a href=(facts.to(Place::Pending)) { "All, and why" }
                a href=(facts.to(Place::Queue)) { "Queue" }
            }
            div class="scroll" { table {
                thead { tr {
                    th scope="col" { "Job" }
                    th scope="col" { "Band" }
                    th scope="col" class="num" { "Pending" }
                    th scope="col" { "Why" }
                } }
                tbody { @for job in waiting.iter().take(WAITING_MAX) {
                    @let (user, name) = (job.user.clone(), job.job.clone());
                    @let why = facts.to(Place::Why { user: user.clone(), job: name.clone() });
                    @let href = facts.to(Place::Job { user, job: name });
                    tr data-href=(href) data-w=(why) {
                        th scope="row" { a href=(href) { (job.user) "/" (job.job) } }
                        td class="nowrap" { (job.band) }
                        td class="num" { (job.pending) }
                        td { a href=(why) { "Why pending?" } }
                    }
                } }
            } }
            @if waiting.len() > WAITING_MAX {
                p class="muted" { "The " (WAITING_MAX) " of " (waiting.len()) " jobs with most pending tasks." }
            }
            @if let Some(whys) = &facts.whys { (pending::checks(whys)) }
        }
    }
}

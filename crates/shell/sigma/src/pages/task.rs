//! A task: its state, where it listens, what it uses and has used, each of its incarnations and how it
//! ended, and why.

use std::collections::BTreeMap;

use api::v1;
use api::v1::event_record::Kind as What;
use api::v1::event_record::subject;
use api::v1::events_request::From;
use api::v1::usage_request::{Of, Tasks};
use chart::{Chart, Point, Series, SeriesKind, Unit, chart};
use maud::{Markup, html};
use model::FinalUsage;
use present::EventWords;

use super::{Page, Part, events, job as job_page};
use crate::action::{Action, button};
use crate::address::{Place, Query, TaskName};
use crate::asker::{PageClient, RecentEvents};
use crate::problem::Problem;
use crate::show;

/// How many events of a task are read, for its incarnations, and how many of them are shown.
const EVENTS: u32 = 200;
const EVENTS_SHOWN: usize = 30;
/// How far back the charts go, and how much time they have at least.
const CHART_MICROS: u64 = 6 * 3_600_000_000;
const CHART_MICROS_MIN: u64 = 15 * 60_000_000;

pub(super) async fn page(asker: &mut PageClient, subject: TaskName<'_>) -> Result<Page, Problem> {
    let TaskName { user, job, index } = subject;
    let (_, status) = asker.job(user, job).await?;
    let task = find(&status, job, index)?.clone();
    let address = v1::JobAddress { user: user.to_owned(), job: job.to_owned() };
    let tasks = Some(one(index));
    let used = match asker.at {
        Some(_) => None,
        None => {
            let since = Some(asker.now.0.saturating_sub(CHART_MICROS));
            let of = Of::Tasks(Tasks { job: Some(address.clone()), tasks: tasks.clone(), since });
            let answer = asker.usage(of).await?;
            answer.tasks.into_iter().find(|used| used.index == index)
        }
    };
    let request = v1::EventsRequest {
        job: Some(address),
        tasks,
        from: Some(From::Last(EVENTS)),
        ..v1::EventsRequest::default()
    };
    let history = asker.recent_events(request).await?;
    let mut parts = vec![Part::new("summary", summary(asker, subject, &status, &task))];
    if is_alloc(&status) {
        parts.push(Part::new("inside", inside(asker, &task)));
    }
    parts.push(Part::new("usage", usage(asker, used.as_ref())));
    parts.push(Part::new("incarnations", incarnations(asker, history.as_deref(), &task)));
    parts.push(Part::new("history", recent(asker, subject, history.as_deref())));
    let command = super::at(asker, format!("bourg status {user}/{job}/{index} -o wide"));
    let heading = heading(asker, subject, &status, &task);
    Ok(Page::live(format!("{user}/{job}/{index}"), heading, command, parts))
}

/// The selection of one task.
pub(super) fn one(index: u32) -> v1::TaskSelection {
    let tasks = model::TaskIndex(index);
    (&model::TaskSelection::Some(vec![(tasks, tasks)])).into()
}

/// A task of a job.
pub(super) fn find<'a>(
    status: &'a v1::JobStatus,
    job: &str,
    index: u32,
) -> Result<&'a v1::TaskStatus, Problem> {
    let last = status.tasks.len().saturating_sub(1);
    status.tasks.iter().find(|task| task.index == index).ok_or_else(|| {
        let name = format!("{}/{job}", status.user);
        Problem::not_found(format!("{name} has no task {index}: the last one is {last}"))
    })
}

pub(super) fn is_alloc(status: &v1::JobStatus) -> bool {
    status.spec.as_ref().is_some_and(|spec| spec.allocs.is_some())
}

/// Whether its machine keeps files of it after its end.
fn has_outputs(status: &v1::JobStatus) -> bool {
    status.spec.as_ref().is_some_and(|spec| !spec.outputs.is_empty())
}

/// Whether it is still to run.
fn is_alive(task: &v1::TaskStatus) -> bool {
    use v1::TaskState::{Failed, Finished, Killed};
    !matches!(task.state(), Failed | Finished | Killed)
}

fn heading(
    asker: &PageClient,
    subject: TaskName<'_>,
    status: &v1::JobStatus,
    task: &v1::TaskStatus,
) -> Markup {
    let TaskName { user, job, index } = subject;
    let up = asker.to_job(user, job);
    let here = asker.to_task(user, job, index);
    let may_read = asker.rights.may_change_jobs_of(user) && !is_alloc(status);
    let may_run = asker.rights.may_run_in_tasks_of(user) && !is_alloc(status);
    let may_kill = asker.at.is_none() && asker.rights.may_change_jobs_of(user) && is_alive(task);
    html! {
        h1 { a href=(asker.to(Place::Jobs(Query::default().with("user", user)))) { (user) } "/"
            a href=(up) { (job) } "/" (index) }
        p class="links" {
            a href=(up) data-key="u" { "Job" }
            @if may_read { a href=(job_page::path(&here, "/logs")) data-key="l" { "Logs" } }
            @if may_read && asker.at.is_none() && has_outputs(status) && !is_alive(task) {
                a href=(job_page::path(&here, "/outputs")) download { "Outputs" }
            }
            @if may_run && asker.at.is_none() {
                a href=(job_page::path(&here, "/terminal")) data-key="s" { "Terminal" }
            }
            a href=(job_page::path(&up, "/why")) data-key="w" { "Why pending?" }
            a href=(job_page::path(&up, "/description")) data-key="d" { "Description" }
        }
        @if may_kill {
            div class="actions" {
                (button(asker, Action::KillTask, &[("user", user), ("job", job), ("task", &index.to_string())]))
            }
        }
    }
}

fn summary(
    asker: &PageClient,
    subject: TaskName<'_>,
    status: &v1::JobStatus,
    task: &v1::TaskStatus,
) -> Markup {
    let mut all = vec![(
        "State",
        html! {
            (show::task_state(task.state)) " " span class="muted" { "since " (show::ago(task.since, asker.now)) }
            @if !task.reason.is_empty() { br; (task.reason) }
        },
    )];
    if !is_alloc(status) {
        all.push((
            "Health",
            html! {
                (show::health(task.health))
                @if !task.check.is_empty() { br; span class="muted" { (task.check) } }
            },
        ));
    }
    let is_there = task.state() == v1::TaskState::Running;
    all.push((
        if is_there || task.machine.is_empty() { "Machine" } else { "Was last on" },
        match task.machine.as_str() {
            "" => html! { span class="muted" { "none" } },
            machine => show::link(&asker.to_machine(machine), machine),
        },
    ));
    if !task.alloc.is_empty() {
        all.push(("Alloc", named(asker, &task.alloc)));
    }
    if !task.host.is_empty() {
        all.push(("Listens at", listens(task)));
    }
    if !is_alloc(status) {
        all.push(("Names", names(asker, subject, task)));
    }
    all.push((
        "Version",
        html! {
            (task.version)
            @if task.version != status.version {
                " " span class="muted" { "the job has " (status.version) }
            }
        },
    ));
    all.push((
        "Restarts",
        html! {
            (task.restarts) ", " (task.failures) @if task.failures == 1 { " failure" } @else { " failures" }
            @if task.not_before > asker.now.0 { br; "the next one " (show::ago(task.not_before, asker.now)) }
        },
    ));
    let latency = api::start_latency::read(task.start_latency.as_ref()).unwrap_or_default();
    if !latency.is_unknown() {
        all.push(("Start", html! { (latency.total()) br; span class="muted" { (latency) } }));
    }
    if is_there && task.must_end > 0 {
        all.push(("maxRuntime", html! { "ends it " (show::ago(task.must_end, asker.now)) }));
    }
    if !task.last_end_text.is_empty() {
        let usage = task.last_usage.and_then(|usage| FinalUsage::try_from(usage).ok());
        let usage = usage.map(|usage| usage.to_string()).unwrap_or_default();
        all.push((
            "Last end",
            html! {
                (task.last_end_text)
                @if !usage.is_empty() { br; span class="muted" { "It used " (usage) "." } }
            },
        ));
    }
    if !task.labels.is_empty() {
        let labels: BTreeMap<_, _> = task.labels.iter().collect();
        all.push((
            "Labels",
            html! { @for (name, value) in labels { span class="label" { (name) "=" (value) } " " } },
        ));
    }
    html! {
        h2 { "Now" }
        (show::facts(all))
    }
}

/// Its addresses, by the names of its ports.
fn listens(task: &v1::TaskStatus) -> Markup {
    let host = &task.host;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    html! {
        @if task.ports.is_empty() { (host) " " span class="muted" { "without a port" } }
        @for (number, port) in task.ports.iter().enumerate() {
            @if number > 0 { br; }
            code { (host) ":" (port.port) } " " span class="muted" { (port.name) }
        }
        @if !task.network_address.is_empty() {
            br; span class="muted" { "with a network of its own" }
        }
    }
}

/// Its names in BNS and in DNS.
fn names(asker: &PageClient, subject: TaskName<'_>, task: &v1::TaskStatus) -> Markup {
    let TaskName { user, job, index } = subject;
    let of_user = asker.to(Place::NamesOf { user: user.to_owned() });
    html! {
        a href=(of_user) { (user) "/" (job) "/" (index) } " " span class="muted" { "in BNS" }
        br; code { (index) "." (job) "." (user) } " " span class="muted" { "in DNS" }
        @for port in &task.ports {
            br; code { "_" (port.name) "._tcp." (index) "." (job) "." (user) } " " span class="muted" { "SRV" }
        }
    }
}

/// A task as `user/job/index`, as a link.
fn named(asker: &PageClient, name: &str) -> Markup {
    let parts: Vec<_> = name.split('/').collect();
    match (parts.as_slice(), parts.last().and_then(|index| index.parse().ok())) {
        ([user, job, _], Some(index)) => show::link(&asker.to_task(user, job, index), name),
        _ => html! { (name) },
    }
}

/// The tasks in an alloc.
fn inside(asker: &PageClient, task: &v1::TaskStatus) -> Markup {
    let (limit, taken) = (task.limit.unwrap_or_default(), task.taken.unwrap_or_default());
    html! {
        h2 { "In this alloc" }
        @if task.inside.is_empty() {
            (show::empty("No task runs in it.", "bourg run FILE.bcl"))
        } @else {
            p { (show::cpu_and_ram(Some(&taken))) " of " (show::cpu_and_ram(Some(&limit))) " are taken." }
            p { (show::bar(show::share(Some(taken.cpu_milli), Some(limit.cpu_milli)), "CPU taken")) " CPU "
                (show::bar(show::share(Some(taken.ram_bytes), Some(limit.ram_bytes)), "RAM taken")) " RAM" }
            ul { @for name in &task.inside { li { (named(asker, name)) } } }
        }
    }
}

/// What it uses, and has used lately.
fn usage(asker: &PageClient, used: Option<&v1::TaskUsage>) -> Markup {
    if asker.at.is_some() {
        return html! {
            h2 { "Usage" }
            p class="muted" { "Usage is known for the last hours only, not for a past moment. "
                a href=(asker.address.at(None)) { "Show it as of now" } }
        };
    }
    let Some(used) = used else {
        return html! {
            h2 { "Usage" }
            p class="muted" { "It has not run lately: nothing was measured." }
        };
    };
    let now = used.used.unwrap_or_default();
    let (limit, reservation) = (used.limit, used.reservation);
    let runs = used.state() == v1::TaskState::Running;
    let reservation = reservation.filter(|_| runs);
    let from = begin(used, asker.now.0);
    let cpu = Resource {
        title: "CPU, in cores of the cell",
        of: |measured| measured.cpu_milli,
        scale: 1_000.0,
        unit: Unit::Decimal,
        format: &|value| show::cpu(Some(whole(value * 1_000.0))),
        limit: limit.map(|limit| limit.cpu_milli),
        reservation: reservation.map(|reservation| reservation.cpu_milli),
    };
    let ram = Resource {
        title: "RAM",
        of: |measured| measured.memory_bytes,
        scale: 1.0,
        unit: Unit::Binary,
        format: &|value| show::bytes(Some(whole(value))),
        limit: limit.map(|limit| limit.ram_bytes),
        reservation: reservation.map(|reservation| reservation.ram_bytes),
    };
    let facts = [
        ("CPU", html! { (show::cpu(now.cpu_milli)) " of " (show::cpu(cpu.limit)) " cores" }),
        ("RAM", html! { (show::bytes(now.memory_bytes)) " of " (show::bytes(ram.limit)) }),
        ("RAM at most", html! { (show::bytes(now.memory_peak_bytes)) }),
        ("Files", html! { (show::bytes(now.disk_bytes)) }),
        ("Reads and writes", html! { (show::rate(now.disk_rate_bytes)) }),
        ("Throttled", html! { (show::percent(now.throttled_permille)) " of the time" }),
        (
            "Waits for CPU, RAM, disks",
            html! {
                (show::percent(now.cpu_pressure_permille)) ", " (show::percent(now.memory_pressure_permille)) ", "
                (show::percent(now.io_pressure_permille)) " of the time"
            },
        ),
    ];
    html! {
        h2 { "Usage" }
        @if used.at == 0 && runs { p class="muted" { "It was not measured lately." } }
        div class="charts" {
            (cpu.chart(used, from, asker.now.0))
            (ram.chart(used, from, asker.now.0))
        }
        p class="muted" { "Average and maximum are of windows of 5 minutes, with the newest sample at the end; \
            limit and reservation are those of now." }
        @if used.at > 0 { (show::facts(facts)) }
    }
}

/// Where the charts begin: with the first window of the last hours.
fn begin(used: &v1::TaskUsage, now: u64) -> u64 {
    let starts = used.windows.iter().filter_map(|window| Some(window.window.as_ref()?.start));
    let first = starts.min().unwrap_or(now);
    first.clamp(now.saturating_sub(CHART_MICROS), now.saturating_sub(CHART_MICROS_MIN))
}

/// A resource of a chart.
struct Resource<'a> {
    title: &'a str,
    of: fn(&v1::Measured) -> Option<i64>,
    /// So much of what was measured is 1 in the chart.
    scale: f64,
    unit: Unit,
    format: &'a dyn Fn(f64) -> String,
    limit: Option<i64>,
    reservation: Option<i64>,
}

impl Resource<'_> {
    fn chart(&self, used: &v1::TaskUsage, from: u64, to: u64) -> Markup {
        let level = |amount: Option<i64>| -> Vec<Point> {
            amount.map(|amount| (from, Some(self.value(amount)))).into_iter().collect()
        };
        let (limit, reservation) = (level(self.limit), level(self.reservation));
        let average = self.points(used, |window| window.average.as_ref());
        let maximum = self.points(used, |window| window.maximum.as_ref());
        let series = |name, kind, class, points| Series { name, kind, class, points };
        let mut all = vec![
            series("average", SeriesKind::Area, "series-usage", average.as_slice()),
            series("maximum", SeriesKind::Line, "series-other", maximum.as_slice()),
        ];
        if !reservation.is_empty() {
            all.push(series("reservation", SeriesKind::Step, "series-reservation", &reservation));
        }
        if !limit.is_empty() {
            all.push(series("limit", SeriesKind::Limit, "series-limit", &limit));
        }
        // A line at the very top would be hard to see.
        let highest = self.limit.max(self.reservation).unwrap_or_default();
        chart(&Chart {
            title: self.title,
            from,
            to,
            top: self.value(highest) * 1.1,
            unit: self.unit,
            format: self.format,
            stacked: false,
            series: &all,
        })
    }

    /// The values of all windows, with a gap where one is missing, and that of the newest sample.
    fn points(
        &self,
        used: &v1::TaskUsage,
        part: fn(&v1::UsageWindow) -> Option<&v1::Measured>,
    ) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        let mut end = None;
        for window in used.windows.iter().filter_map(|window| window.window.as_ref()) {
            let length = length(window);
            if end.is_some_and(|end| window.start > end) {
                points.push((window.start, None));
            }
            let value = part(window).and_then(self.of).map(|value| self.value(value));
            points.push((window.start + length / 2, value));
            // Windows of 5 minutes may begin a little late.
            end = Some(window.start + length + length / 2);
        }
        if used.at > 0 {
            let now = used.used.as_ref().and_then(self.of).map(|value| self.value(value));
            points.push((used.at, now));
        }
        points
    }

    #[expect(clippy::cast_precision_loss, reason = "it is drawn")]
    fn value(&self, amount: i64) -> f64 {
        amount as f64 / self.scale
    }
}

/// The length of a window, in microseconds.
fn length(window: &v1::UsageWindow) -> u64 {
    let length = window.length.as_ref().and_then(|length| api::span(length).ok());
    length.unwrap_or_default().0
}

#[expect(clippy::cast_possible_truncation, reason = "it is shown with few digits")]
fn whole(value: f64) -> i64 {
    value.round() as i64
}

/// An incarnation, as far as events tell of it. 0 is a time that is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Incarnation {
    machine: String,
    placed: u64,
    started: u64,
    ended: u64,
    /// The event that ended it, and why.
    end: &'static str,
    why: String,
    used: String,
}

/// The incarnations, by generation.
fn incarnations_of(events: &[v1::EventRecord]) -> BTreeMap<u32, Incarnation> {
    let mut incarnations: BTreeMap<u32, Incarnation> = BTreeMap::new();
    for event in events {
        let what = event.subject.as_ref().and_then(|subject| subject.what.as_ref());
        let (Some(subject::What::Task(instance)), Some(kind)) = (what, &event.kind) else {
            continue;
        };
        // The end of one that was never placed has no machine.
        let is_told = matches!(
            kind,
            What::Schedule(_)
                | What::Start(_)
                | What::Evict(_)
                | What::Fail(_)
                | What::Finish(_)
                | What::Kill(_)
                | What::Lost(_)
        );
        if !is_told || event.machine.is_empty() {
            continue;
        }
        let incarnation = incarnations.entry(instance.generation).or_default();
        incarnation.machine.clone_from(&event.machine);
        match kind {
            What::Schedule(_) => incarnation.placed = event.time,
            What::Start(_) => incarnation.started = event.time,
            _ => {
                let words = EventWords::of(event);
                let usage = event.usage.and_then(|usage| FinalUsage::try_from(usage).ok());
                incarnation.ended = event.time;
                incarnation.end = words.name;
                incarnation.used = usage.map(|usage| usage.to_string()).unwrap_or_default();
                incarnation.why = why(&words.detail, &event.machine, &incarnation.used);
            }
        }
    }
    incarnations
}

/// The detail of an event without the machine and without what was used.
fn why(detail: &str, machine: &str, used: &str) -> String {
    let rest = detail.strip_prefix(&format!("on {machine}")).unwrap_or(detail);
    let rest = rest.trim_start_matches(", ");
    let rest = match used {
        "" => rest,
        used => match rest.rfind(&format!("used {used}")) {
            Some(at) => &rest[..at],
            None => rest,
        },
    };
    rest.trim_end_matches(", ").to_owned()
}

fn incarnations(
    asker: &PageClient,
    history: Option<&RecentEvents>,
    task: &v1::TaskStatus,
) -> Markup {
    let Some(RecentEvents { events, .. }) = history else {
        return html! { h2 { "Incarnations" } (events::newest(asker, None, false)) };
    };
    let incarnations = incarnations_of(events);
    let is_cut = events.len() >= usize::try_from(EVENTS).unwrap_or(usize::MAX);
    let is_now = |generation: u32| generation == task.generation && !task.machine.is_empty();
    html! {
        h2 { "Incarnations" }
        @if incarnations.is_empty() {
            p class="muted" { "It has not been on a machine yet, or that is too long ago." }
        } @else {
            div class="scroll" { table {
                thead { tr {
                    th scope="col" class="num" { "Number" }
                    th scope="col" { "Machine" }
                    th scope="col" { "Placed" }
                    th scope="col" { "Started" }
                    th scope="col" { "Ran" }
                    th scope="col" { "End" }
                    th scope="col" { "Why" }
                    th scope="col" { "Used in all" }
                } }
                tbody { @for (generation, incarnation) in incarnations.iter().rev() {
                    tr {
                        th scope="row" class="num" { (generation) }
                        td { @if !incarnation.machine.is_empty() { (show::link(&asker.to_machine(&incarnation.machine), &incarnation.machine)) } }
                        td class="nowrap" { (show::ago(incarnation.placed, asker.now)) }
                        td class="nowrap" { (show::ago(incarnation.started, asker.now)) }
                        td class="nowrap" { (ran(incarnation, is_now(*generation), asker.now.0)) }
                        td class="nowrap" {
                            @if incarnation.ended > 0 { span class={ "event event-" (incarnation.end.to_lowercase()) } { (incarnation.end) } }
                            @else if is_now(*generation) { "-" }
                            @else { span class="muted" { "not known" } }
                        }
                        td class="why" { (incarnation.why) }
                        td class="why" { @if incarnation.used.is_empty() { "-" } @else { (incarnation.used) } }
                    }
                } }
            } }
            @if is_cut { p class="muted" { "From the newest " (EVENTS) " events: there may be older ones." } }
        }
    }
}

/// For how long it ran.
fn ran(incarnation: &Incarnation, is_now: bool, now: u64) -> String {
    let until = if incarnation.ended > 0 { incarnation.ended } else { now };
    match incarnation.started {
        0 => "-".to_owned(),
        _ if incarnation.ended == 0 && !is_now => "-".to_owned(),
        started => show::span(until.saturating_sub(started)),
    }
}

/// The newest events.
fn recent(asker: &PageClient, subject: TaskName<'_>, history: Option<&RecentEvents>) -> Markup {
    let TaskName { user, job, index } = subject;
    let newest =
        history.map(|history| &history.events[history.events.len().saturating_sub(EVENTS_SHOWN)..]);
    let all = Query::default().with("job", &format!("{user}/{job}/{index}"));
    html! {
        h2 { "History" }
        @match newest {
            Some(newest) => (events::table(asker, newest, false)),
            None => (events::newest(asker, None, false)),
        }
        p { a href=(asker.to(Place::Events(all))) { "All events" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: u64, generation: u32, machine: &str, kind: What) -> v1::EventRecord {
        let instance = v1::InstanceId { collection: 7, index: 3, generation };
        let what = Some(subject::What::Task(instance));
        let who = Some(v1::event_record::actor::Who::Master(v1::Nothing {}));
        v1::EventRecord {
            index: time,
            time,
            actor: Some(v1::event_record::Actor { who }),
            subject: Some(v1::event_record::Subject { what }),
            user: "ana".to_owned(),
            job: "web".to_owned(),
            machine: machine.to_owned(),
            kind: Some(kind),
            ..v1::EventRecord::default()
        }
    }

    #[test]
    fn incarnations_are_put_together_from_events() {
        let exited = v1::End { how: Some(v1::end::How::Exited(3)) };
        let usage = v1::FinalUsage { memory_peak_bytes: Some(1 << 20), ..Default::default() };
        let placed = v1::event_record::Schedule { machine: 1, alloc: None };
        let start = v1::event_record::Start { machine: 1, latency: None };
        let fail = What::Fail(v1::event_record::Fail { end: Some(exited) });
        let events = [
            event(10, 1, "m1", What::Schedule(placed)),
            event(11, 1, "m1", What::Start(start)),
            v1::EventRecord { usage: Some(usage), ..event(20, 1, "m1", fail) },
            event(21, 2, "m2", What::Schedule(placed)),
            // Killed while it was pending.
            event(30, 3, "", What::Finish(v1::Nothing {})),
        ];
        let incarnations = incarnations_of(&events);
        let first = Incarnation {
            machine: "m1".to_owned(),
            placed: 10,
            started: 11,
            ended: 20,
            end: "FAIL",
            why: "exit code 3".to_owned(),
            used: "1 MiB of memory at most".to_owned(),
        };
        let second = Incarnation { machine: "m2".to_owned(), placed: 21, ..Incarnation::default() };
        assert_eq!(incarnations, BTreeMap::from([(1, first), (2, second)]));
    }

    #[test]
    fn the_reason_is_what_the_other_columns_do_not_say() {
        for (detail, used, expected) in [
            ("on m1, exit code 3, used 1 s of CPU time", "1 s of CPU time", "exit code 3"),
            ("on m1, used 1 s of CPU time, notice in full", "1 s of CPU time", ""),
            ("on m1", "", ""),
            ("killed by ana", "", "killed by ana"),
            ("on m1, preempted by 7-0-1", "2 s", "preempted by 7-0-1"),
        ] {
            assert_eq!(why(detail, "m1", used), expected, "{detail}");
        }
    }

    #[test]
    fn a_missing_window_is_a_gap_and_the_newest_sample_comes_last() {
        let measured = |cpu| v1::Measured { cpu_milli: Some(cpu), ..Default::default() };
        let window = |start: u64, cpu| v1::task_usage::Window {
            generation: 1,
            window: Some(v1::UsageWindow {
                start: start * 1_000_000,
                length: Some(api::Duration { seconds: 300, nanos: 0 }),
                average: Some(measured(cpu)),
                ..Default::default()
            }),
        };
        let used = v1::TaskUsage {
            windows: vec![window(0, 500), window(300, 600), window(900, 700)],
            at: 1_300_000_000,
            used: Some(measured(2_000)),
            ..Default::default()
        };
        let cpu = Resource {
            title: "CPU",
            of: |measured| measured.cpu_milli,
            scale: 1_000.0,
            unit: Unit::Decimal,
            format: &|value| value.to_string(),
            limit: None,
            reservation: None,
        };
        let seconds = |at: u64| at * 1_000_000;
        let expected = vec![
            (seconds(150), Some(0.5)),
            (seconds(450), Some(0.6)),
            (seconds(900), None),
            (seconds(1_050), Some(0.7)),
            (seconds(1_300), Some(2.0)),
        ];
        assert_eq!(cpu.points(&used, |window| window.average.as_ref()), expected);
        let fresh = v1::TaskUsage::default();
        assert_eq!(begin(&fresh, seconds(1_400)), seconds(500), "at least a quarter of an hour");
        assert_eq!(begin(&used, seconds(1_400)), 0, "with the first window");
        assert_eq!(begin(&used, seconds(30_000)), seconds(8_400), "at most six hours");
    }
}

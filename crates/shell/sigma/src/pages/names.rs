//! The names of the cell: users, their jobs and services, and where the tasks behind them are.

use std::collections::{BTreeMap, BTreeSet};

use api::v1;
use axum::http::StatusCode;
use maud::{Markup, html};

use super::{Page, Part, jobs, quoted};
use crate::address::Place;
use crate::asker::PageClient;
use crate::problem::Problem;
use crate::show;
use crate::show::Tone;

/// The most users, or services, in a table.
const ROWS: usize = 200;
/// How many jobs and services of a user are shown, and how many tasks they may have together: records
/// are fetched whole.
const NAMES: usize = 60;
const TASKS: u64 = 2_000;
/// How many tasks of each are shown.
const TASKS_OF_ONE: usize = 10;
/// How many services are asked for the jobs behind them: one request each.
const ASKED: usize = 10;

/// What has names below a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Below {
    jobs: u32,
    services: u32,
    tasks: u32,
    healthy: u32,
}

/// A job or a service, and how many tasks its record has at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named<'a> {
    name: &'a str,
    tasks: u32,
}

pub(super) async fn page(asker: &mut PageClient) -> Result<Page, Problem> {
    let jobs = asker.jobs().await?;
    let services = asker.services().await?;
    let users = below(&jobs.jobs, &services.services);
    let cell = asker.cell();
    let parts = vec![
        Part::new("users", user_table(asker, &users, &cell)),
        Part::new("services", service_table(asker, &services.services)),
    ];
    let heading = html! {
        h1 { "Names" }
        p class="muted" {
            "Every live job and every service has a name, with the addresses of its tasks. Tasks find each other by DNS; the masters are "
            (show::command(&format!("master.{cell}.borg")))
        }
    };
    Ok(Page::live("Names", heading, super::at(asker, "bourg bns list".to_owned()), parts))
}

pub(super) async fn of(asker: &mut PageClient, user: &str) -> Result<Page, Problem> {
    let jobs = asker.jobs().await?;
    let services = asker.services().await?;
    let own: Vec<&v1::ServiceStatus> =
        services.services.iter().filter(|status| service(status).user == user).collect();
    let has_names = |job: &&v1::JobStatus| job.user == user && is_named(job);
    let mut named: Vec<Named<'_>> = own
        .iter()
        .map(|status| Named { name: &service(status).name, tasks: status.tasks })
        .collect();
    let of_jobs = jobs.jobs.iter().filter(has_names).map(|job| Named {
        name: job.spec.as_ref().map_or("", |spec| &spec.name),
        tasks: job.counts.unwrap_or_default().tasks,
    });
    named.extend(of_jobs);
    let chosen = choose(&mut named);
    let mut records = Vec::new();
    // A query without names is one for all names of the cell.
    if !chosen.is_empty() {
        let address = |name: &str| v1::JobAddress { user: user.to_owned(), job: name.to_owned() };
        let names = chosen.iter().map(|name| address(name)).collect();
        let query = Some(v1::NameQuery { jobs: names, labels: String::new() });
        let request = v1::GetNamesRequest { query, at: asker.at };
        records = asker.ask(request, async |mut c, r| c.names.get(r).await).await?.records;
    }
    records.sort_by(|one, other| one.job.cmp(&other.job));
    let mut behind = BTreeMap::new();
    for record in records.iter().filter(|record| record.service.is_some()).take(ASKED) {
        let name = v1::ServiceName { user: user.to_owned(), name: record.job.clone() };
        let request = v1::ServicesRequest { service: Some(name), at: asker.at };
        match asker.ask(request, async |mut c, r| c.services.list(r).await).await {
            Ok(answer) => {
                let jobs = answer.services.into_iter().next().map(|status| status.jobs);
                behind.insert(record.job.clone(), jobs.unwrap_or_default());
            }
            // It is deleted meanwhile.
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {}
            Err(problem) => return Err(problem),
        }
    }
    let zone = format!("{user}.{}.borg", asker.cell());
    let left: Vec<Named<'_>> =
        named.iter().copied().filter(|named| !chosen.contains(named.name)).collect();
    let of_services = records.iter().filter(|record| record.service.is_some());
    let of_services: Vec<Markup> = of_services
        .map(|record| record_of(asker, record, behind.get(&record.job), &zone))
        .collect();
    let of_jobs = records.iter().filter(|record| record.service.is_none());
    let of_jobs: Vec<Markup> =
        of_jobs.map(|record| record_of(asker, record, None, &zone)).collect();
    let parts = vec![
        Part::new(
            "services",
            html! {
                @if !of_services.is_empty() { h2 { "Services" } }
                @for record in &of_services { (record) }
            },
        ),
        Part::new(
            "jobs",
            html! {
                h2 { "Jobs" }
                @if of_jobs.is_empty() && left.is_empty() {
                    (show::empty(&format!("No job of {user} is alive."), "bourg run examples/hello.bcl"))
                }
                @for record in &of_jobs { (record) }
                (others(asker, user, &left))
            },
        ),
    ];
    let heading = html! {
        h1 { "Names of " a href=(asker.to(Place::User { name: user.to_owned() })) { (user) } }
        p class="links" { a href=(asker.to(Place::Names)) data-key="u" { "All names" } }
    };
    let command = "bourg bns list".to_owned();
    Ok(Page::live(format!("Names of {user}"), heading, super::at(asker, command), parts))
}

/// Whether a job has a name: it is alive, and has tasks rather than allocs.
fn is_named(job: &v1::JobStatus) -> bool {
    jobs::is_alive(job) && job.spec.as_ref().is_some_and(|spec| spec.allocs.is_none())
}

fn service(status: &v1::ServiceStatus) -> &v1::Service {
    static NONE: std::sync::LazyLock<v1::Service> = std::sync::LazyLock::new(Default::default);
    status.service.as_ref().unwrap_or(&NONE)
}

/// Users with what has names below them.
fn below<'a>(
    jobs: &'a [v1::JobStatus],
    services: &'a [v1::ServiceStatus],
) -> BTreeMap<&'a str, Below> {
    let mut users: BTreeMap<&str, Below> = BTreeMap::new();
    for job in jobs.iter().filter(|job| is_named(job)) {
        let counts = job.counts.unwrap_or_default();
        let below = users.entry(&job.user).or_default();
        below.jobs += 1;
        below.tasks = below.tasks.saturating_add(counts.tasks);
        below.healthy = below.healthy.saturating_add(counts.healthy);
    }
    for status in services {
        users.entry(&service(status).user).or_default().services += 1;
    }
    users
}

/// Which names are shown with their tasks: in order, as long as there are not too many tasks.
fn choose<'a>(named: &mut [Named<'a>]) -> BTreeSet<&'a str> {
    named.sort_by_key(|named| named.name);
    let mut tasks = 0;
    let mut chosen = BTreeSet::new();
    for named in named.iter() {
        let with = tasks + u64::from(named.tasks);
        if chosen.len() < NAMES && with <= TASKS {
            tasks = with;
            chosen.insert(named.name);
        }
    }
    chosen
}

fn user_table(asker: &PageClient, users: &BTreeMap<&str, Below>, cell: &str) -> Markup {
    if users.is_empty() {
        return html! {
            h2 { "Users" }
            (show::empty("Nothing has a name yet.", "bourg run examples/hello.bcl"))
        };
    }
    html! {
        h2 { "Users" }
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "User" }
                th scope="col" { "DNS" }
                th scope="col" class="num" { "Jobs" }
                th scope="col" class="num" { "Services" }
                th scope="col" class="num" { "Tasks" }
                th scope="col" class="num" { "Healthy" }
            } }
            tbody { @for (user, below) in users.iter().take(ROWS) {
                @let href = asker.to(Place::NamesOf { user: (*user).to_owned() });
                tr data-href=(href) {
                    th scope="row" { a href=(href) { (user) } }
                    td class="nowrap" { code { (user) "." (cell) ".borg" } }
                    td class="num" { (below.jobs) }
                    td class="num" { (below.services) }
                    td class="num" { (below.tasks) }
                    td class="num" { (below.healthy) }
                }
            } }
        } }
        @if users.len() > ROWS {
            p class="muted" { "The first " (ROWS) " of " (users.len()) " users." }
        }
    }
}

fn service_table(asker: &PageClient, services: &[v1::ServiceStatus]) -> Markup {
    html! {
        h2 { "Services" }
        @if services.is_empty() {
            (show::empty("There is no service: one name and one port for the tasks of several jobs.", "bourg service set front --port http -l app=web"))
        } @else {
            div class="scroll" { table {
                thead { tr {
                    th scope="col" { "Service" }
                    th scope="col" { "Port" }
                    th scope="col" { "Jobs with labels" }
                    th scope="col" { "Of users" }
                    th scope="col" { "Serving" }
                } }
                tbody { @for status in services.iter().take(ROWS) {
                    @let service = service(status);
                    @let href = asker.to(Place::NamesOf { user: service.user.clone() });
                    tr data-href=(href) {
                        th scope="row" { a href=(href) { (service.user) "/" (service.name) } }
                        td { (service.port) }
                        td { code { (service.labels) } }
                        td { (whose(service)) }
                        td class="nowrap" { (serving(status.serving, status.tasks, status.tasks)) }
                    }
                } }
            } }
            @if services.len() > ROWS {
                p class="muted" { "The first " (ROWS) " of " (services.len()) " services." }
            }
            p { (show::command(&super::at(asker, "bourg service list".to_owned()))) }
        }
    }
}

/// The users whose jobs may be behind a service.
fn whose(service: &v1::Service) -> String {
    let users = std::iter::once(service.user.as_str());
    users.chain(service.users.iter().map(String::as_str)).collect::<Vec<_>>().join(", ")
}

/// How many tasks get new connections. That none does is bad if some have a machine.
fn serving(serving: u32, tasks: u32, placed: u32) -> Markup {
    let tone = match serving {
        0 if placed > 0 => Tone::Bad,
        0 => Tone::Over,
        _ if serving < tasks => Tone::Waiting,
        _ => Tone::Good,
    };
    show::state(&format!("{serving} of {tasks}"), tone)
}

/// A job or a service with its names and its tasks.
fn record_of(
    asker: &PageClient,
    record: &v1::NameRecord,
    behind: Option<&Vec<v1::ServiceJob>>,
    zone: &str,
) -> Markup {
    let name = format!("{}/{}", record.user, record.job);
    let serves = record.tasks.iter().filter(|task| task.serves).count();
    let serves = u32::try_from(serves).unwrap_or(u32::MAX);
    let placed = u32::try_from(record.tasks.len()).unwrap_or(u32::MAX);
    let mut facts = vec![("DNS", show::command(&format!("{}.{zone}", record.job)))];
    let ports = ports(record);
    if !ports.is_empty() {
        facts.push((
            "SRV",
            html! { @for port in &ports {
                (show::command(&format!("_{port}._tcp.{}.{zone}", record.job))) " "
            } },
        ));
    }
    match &record.service {
        Some(service) => {
            facts.push((
                "Behind it",
                html! { "jobs of " (whose(service)) " with " code { (service.labels) } },
            ));
            facts.push(("Serving", serving(serves, placed, placed)));
        }
        None => {
            facts.push(("Serving", serving(serves, record.size, placed)));
            facts.push(("Placed", html! { (placed) " of " (record.size) }));
        }
    }
    html! {
        div class="panel" {
            h3 {
                @if record.service.is_some() { (name) } @else { a href=(asker.to_job(&record.user, &record.job)) { (name) } }
            }
            (show::facts(facts))
            @if let Some(jobs) = behind { (jobs_behind(asker, jobs)) }
            (task_table(asker, record, zone))
        }
    }
}

/// The names of a record's ports.
fn ports(record: &v1::NameRecord) -> BTreeSet<&str> {
    let tasks = record.tasks.iter().flat_map(|task| &task.ports);
    let ports = tasks.map(|port| port.name.as_str());
    ports.chain(record.service.iter().map(|service| service.port.as_str())).collect()
}

fn jobs_behind(asker: &PageClient, jobs: &[v1::ServiceJob]) -> Markup {
    html! {
        @if jobs.is_empty() {
            p class="bad" { "No live job has these labels." }
        } @else {
            ul { @for job in jobs.iter().take(TASKS_OF_ONE) {
                li {
                    a href=(asker.to_job(&job.user, &job.job)) { (job.user) "/" (job.job) } " "
                    @if job.behind { (show::state("behind it", Tone::Good)) }
                    @else { (show::state("not behind it", Tone::Over)) ": " (job.why) }
                }
            } }
            @if jobs.len() > TASKS_OF_ONE {
                p class="muted" { "The first " (TASKS_OF_ONE) " of " (jobs.len()) " jobs with these labels." }
            }
        }
    }
}

fn task_table(asker: &PageClient, record: &v1::NameRecord, zone: &str) -> Markup {
    if record.tasks.is_empty() {
        return html! { p class="muted" { "No task has a machine." } };
    }
    html! {
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Task" }
                th scope="col" { "Address" }
                th scope="col" { "DNS" }
                th scope="col" { "State" }
                th scope="col" { "Health" }
                th scope="col" { "Gets connections" }
                th scope="col" { "Machine" }
            } }
            tbody { @for task in record.tasks.iter().take(TASKS_OF_ONE) {
                @let (user, job) = job_of(record, task);
                @let href = asker.to_task(user, job, task.index);
                tr data-href=(href) {
                    th scope="row" { a href=(href) { (job) "/" (task.index) } }
                    td class="nowrap" { @for (port, address) in endpoints(task) {
                        @if !port.is_empty() { span class="muted" { (port) " " } }
                        (show::command(&address)) " "
                    } }
                    td class="nowrap" { code { (dns_of(record, task, zone)) } }
                    td { (show::task_state(task.state)) }
                    td { @if task.reachable { (show::health(task.health)) } @else { (show::state("unreachable", Tone::Bad)) } }
                    td { @if task.serves { "yes" } @else { span class="muted" { "no" } } }
                    td { a href=(asker.to_machine(&task.machine)) { (task.machine) } }
                }
            } }
        } }
        @if record.tasks.len() > TASKS_OF_ONE {
            p class="muted" {
                "The first " (TASKS_OF_ONE) " of " (record.tasks.len()) " tasks: "
                (show::command(&format!("bourg bns get {}/{}", record.user, quoted(&record.job))))
            }
        }
    }
}

/// The job of a task in a record: behind a service, it is the task's own.
fn job_of<'a>(record: &'a v1::NameRecord, task: &'a v1::NameTask) -> (&'a str, &'a str) {
    match task.job.as_str() {
        "" => (&record.user, &record.job),
        job => (&task.user, job),
    }
}

/// The DNS name of a task: that of its job, with its index.
fn dns_of(record: &v1::NameRecord, task: &v1::NameTask, zone: &str) -> String {
    let (user, job) = job_of(record, task);
    let cell = zone.split_once('.').map_or("", |(_, cell)| cell);
    format!("{}.{job}.{user}.{cell}", task.index)
}

/// Each port with its `host:port`; without ports the host alone.
fn endpoints(task: &v1::NameTask) -> Vec<(&str, String)> {
    let host = if task.host.contains(':') { format!("[{}]", task.host) } else { task.host.clone() };
    if task.ports.is_empty() {
        return vec![("", host)];
    }
    let port = |port: &v1::NamedPort| format!("{host}:{}", port.port);
    task.ports.iter().map(|named| (named.name.as_str(), port(named))).collect()
}

/// Names that are too many, or have too many tasks, to be shown with them.
fn others(asker: &PageClient, user: &str, left: &[Named<'_>]) -> Markup {
    html! {
        @if !left.is_empty() {
            h3 { "More names" }
            p class="muted" { "Shown without their tasks: there are too many." }
            div class="scroll" { table {
                thead { tr {
                    th scope="col" { "Name" }
                    th scope="col" class="num" { "Tasks" }
                    th scope="col" { "Addresses" }
                } }
                tbody { @for named in left.iter().take(ROWS) {
                    tr {
                        th scope="row" { a href=(asker.to_job(user, named.name)) { (user) "/" (named.name) } }
                        td class="num" { (named.tasks) }
                        td { (show::command(&format!("bourg bns get {user}/{}", quoted(named.name)))) }
                    }
                } }
            } }
            @if left.len() > ROWS { p class="muted" { "The first " (ROWS) " of " (left.len()) "." } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(host: &str, ports: &[(&str, u32)]) -> v1::NameTask {
        let port =
            |(name, port): &(&str, u32)| v1::NamedPort { name: (*name).to_owned(), port: *port };
        v1::NameTask {
            index: 3,
            host: host.to_owned(),
            ports: ports.iter().map(port).collect(),
            ..v1::NameTask::default()
        }
    }

    #[test]
    fn a_task_listens_at_each_of_its_ports() {
        for (host, ports, expected) in [
            ("10.0.0.1", &[][..], vec![("", "10.0.0.1")]),
            (
                "10.0.0.1",
                &[("http", 31000), ("rpc", 31001)],
                vec![("http", "10.0.0.1:31000"), ("rpc", "10.0.0.1:31001")],
            ),
            ("fd00::1", &[("http", 80)], vec![("http", "[fd00::1]:80")]),
        ] {
            let task = task(host, ports);
            let found = endpoints(&task);
            let found: Vec<_> = found.iter().map(|(port, at)| (*port, at.as_str())).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_task_behind_a_service_keeps_the_name_of_its_job() {
        let zone = "ana.prod.borg";
        let record = v1::NameRecord {
            user: "ana".to_owned(),
            job: "front".to_owned(),
            ..v1::NameRecord::default()
        };
        let own = task("10.0.0.1", &[]);
        assert_eq!(dns_of(&record, &own, zone), "3.front.ana.prod.borg");
        let other = v1::NameTask { user: "bob".to_owned(), job: "web".to_owned(), ..own };
        assert_eq!(dns_of(&record, &other, zone), "3.web.bob.prod.borg");
    }

    #[test]
    fn names_are_chosen_until_there_are_too_many_tasks() {
        let named = |name, tasks| Named { name, tasks };
        let mut all = [named("c", 10), named("a", 1_995), named("huge", 90_000), named("b", 5)];
        assert_eq!(choose(&mut all), BTreeSet::from(["a", "b"]));
        let names: Vec<String> = (0..NAMES + 5).map(|number| format!("n{number:03}")).collect();
        let mut all: Vec<_> = names.iter().map(|name| named(name, 0)).collect();
        assert_eq!(choose(&mut all).len(), NAMES);
    }

    #[test]
    fn the_names_of_a_user_exclude_alloc_sets_and_dead_jobs() {
        let job = |user: &str, state: v1::JobState, allocs: bool| v1::JobStatus {
            user: user.to_owned(),
            state: state.into(),
            counts: Some(v1::JobCounts { tasks: 4, healthy: 3, ..v1::JobCounts::default() }),
            spec: Some(v1::JobSpec {
                allocs: allocs.then(v1::job_spec::Allocs::default),
                ..v1::JobSpec::default()
            }),
            ..v1::JobStatus::default()
        };
        let jobs = [
            job("ana", v1::JobState::Running, false),
            job("ana", v1::JobState::Running, true),
            job("ana", v1::JobState::Killed, false),
            job("ana", v1::JobState::Pending, false),
            job("eve", v1::JobState::Finished, false),
        ];
        let front = v1::Service { user: "bob".to_owned(), ..v1::Service::default() };
        let services = [v1::ServiceStatus { service: Some(front), ..Default::default() }];
        let ana = Below { jobs: 2, services: 0, tasks: 8, healthy: 6 };
        let bob = Below { services: 1, ..Below::default() };
        assert_eq!(below(&jobs, &services), BTreeMap::from([("ana", ana), ("bob", bob)]));
    }

    #[test]
    fn a_record_has_the_ports_of_its_tasks_and_of_its_service() {
        let record = v1::NameRecord {
            tasks: vec![task("h", &[("http", 1), ("rpc", 2)]), task("h", &[("http", 3)])],
            service: Some(v1::Service { port: "web".to_owned(), ..v1::Service::default() }),
            ..v1::NameRecord::default()
        };
        assert_eq!(ports(&record), BTreeSet::from(["http", "rpc", "web"]));
    }
}

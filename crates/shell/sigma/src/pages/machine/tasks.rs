//! The tasks of a machine: what they use of it by band, and each of them, tasks in an alloc below it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::v1;
use api::v1::usage_request::{self, Of as UsageOf, Tasks};
use maud::{Markup, html};
use tokio::task::JoinSet;

use crate::asker::{MachineUsed, PageClient};
use crate::fleet::{By, Of};
use crate::pages::bands::{self, Amount, BANDS};
use crate::pages::jobs;
use crate::problem::Problem;
use crate::show;

/// Of how many jobs the usage is asked; of the tasks of others it is not shown.
const JOBS_MAX: usize = 40;

/// A task by its owner, job and index.
type Name<'a> = (&'a str, &'a str, u32);

/// A task by a name such as `ana/web/3`.
fn parsed(name: &str) -> Option<Name<'_>> {
    let (job, index) = name.rsplit_once('/')?;
    let (user, job) = job.split_once('/')?;
    Some((user, job, index.parse().ok()?))
}

/// Such a name as a link; other names as they are.
pub(super) fn named(asker: &PageClient, name: &str) -> Markup {
    match parsed(name) {
        Some((user, job, index)) => show::link(&asker.to_task(user, job, index), name),
        None => html! { (name) },
    }
}

/// What is placed on a machine, as the page shows it.
#[derive(Debug, PartialEq)]
struct PlacedRow<'a> {
    name: String,
    placed: Option<&'a v1::PlacedTask>,
    /// Whether it is in the alloc above it.
    is_inside: bool,
}

/// What is placed on a machine: by user, job and index, and the tasks in an alloc below it. Which these
/// are, the tasks say, the alloc, or both.
fn rows(machine: &v1::MachineStatus) -> Vec<PlacedRow<'_>> {
    let mut all: BTreeMap<Name<'_>, &v1::PlacedTask> = BTreeMap::new();
    let mut inside: BTreeMap<Name<'_>, BTreeSet<Name<'_>>> = BTreeMap::new();
    for placed in &machine.placed {
        let Some(task) = &placed.task else { continue };
        let name = (placed.user.as_str(), placed.job.as_str(), task.index);
        all.insert(name, placed);
        if let Some(alloc) = parsed(&task.alloc) {
            inside.entry(alloc).or_default().insert(name);
        }
        for inner in task.inside.iter().filter_map(|inner| parsed(inner)) {
            inside.entry(name).or_default().insert(inner);
        }
    }
    // An alloc that is not listed must not hide its tasks.
    inside.retain(|alloc, _| all.contains_key(alloc));
    let below: BTreeSet<Name<'_>> = inside.values().flatten().copied().collect();
    let row = |(user, job, index): Name<'_>, is_inside| PlacedRow {
        name: format!("{user}/{job}/{index}"),
        placed: all.get(&(user, job, index)).copied(),
        is_inside,
    };
    let mut rows = Vec::new();
    for name in all.keys().filter(|name| !below.contains(*name)) {
        rows.push(row(*name, false));
        rows.extend(inside.get(name).into_iter().flatten().map(|inner| row(*inner, true)));
    }
    rows
}

/// What a machine and its tasks use; none if no replica says it.
pub(super) async fn used(
    asker: &mut PageClient,
    machine: &v1::MachineStatus,
) -> Result<Option<Arc<MachineUsed>>, Problem> {
    let mut jobs: BTreeMap<(String, String), Vec<v1::IndexRange>> = BTreeMap::new();
    for row in rows(machine) {
        let Some((user, job, index)) = parsed(&row.name) else { continue };
        let job = (user.to_owned(), job.to_owned());
        if jobs.contains_key(&job) || jobs.len() < JOBS_MAX {
            jobs.entry(job).or_default().push(v1::IndexRange { first: index, last: index });
        }
    }
    let cached = asker.shared.machine_used.of(machine.name.clone());
    let asked = Box::pin(all(asker.clone(), machine.name.clone(), jobs));
    match cached.get_soon(asked).await {
        Ok(used) => Ok(Some(used)),
        Err(problem) if problem.is_sign_out() => Err(problem),
        Err(_) => Ok(None),
    }
}

async fn all(
    mut asker: PageClient,
    machine: String,
    jobs: BTreeMap<(String, String), Vec<v1::IndexRange>>,
) -> Result<MachineUsed, Problem> {
    let mut answers = JoinSet::new();
    for ((user, job), ranges) in jobs {
        let mut asker = asker.clone();
        answers.spawn(async move {
            let address = v1::JobAddress { user: user.clone(), job: job.clone() };
            let tasks = Some(v1::TaskSelection { all: false, ranges });
            let of = UsageOf::Tasks(Tasks { job: Some(address), tasks, since: None });
            (user, job, asker.usage(of).await)
        });
    }
    let of = UsageOf::Machines(usage_request::Machines { names: vec![machine.clone()] });
    let whole = asker.usage(of).await?.machines.into_iter().next();
    let mut tasks = Vec::new();
    while let Some(answer) = answers.join_next().await {
        // A job may have ended since its task was listed.
        if let Ok((user, job, Ok(answer))) = answer {
            let here = answer.tasks.into_iter().filter(|task| task.machine == machine);
            tasks.extend(here.map(|task| (user.clone(), job.clone(), task)));
        }
    }
    Ok(MachineUsed { machine: whole, tasks })
}

/// The usage of a task by its name.
fn of_task<'a>(used: Option<&'a MachineUsed>, name: &str) -> Option<&'a v1::TaskUsage> {
    let (user, job, index) = parsed(name)?;
    let mut tasks = used?.tasks.iter();
    tasks.find(|(u, j, task)| u == user && j == job && task.index == index).map(|(_, _, task)| task)
}

/// What the tasks of a machine have of it, each with the colour of its band.
fn amounts(
    rows: &[PlacedRow<'_>],
    used: Option<&MachineUsed>,
    of: Of,
    by: By,
) -> Vec<(String, Amount)> {
    let mut amounts = Vec::new();
    let mut band_above = String::new();
    for (number, row) in rows.iter().enumerate() {
        let task = of_task(used, &row.name);
        let band = match row.placed {
            Some(placed) => jobs::band(Some(placed.priority)),
            None => band_above.clone(),
        };
        if !row.is_inside {
            band_above.clone_from(&band);
        }
        let amount = match by {
            // An alloc has them for the tasks in it.
            By::Limit if row.is_inside => None,
            By::Limit => {
                row.placed.and_then(|placed| placed.limit.as_ref()).map(|all| of.amount(all))
            }
            By::Reservation if row.is_inside => None,
            By::Reservation => {
                task.and_then(|task| task.reservation.as_ref()).map(|all| of.amount(all))
            }
            // The tasks in an alloc use something; the alloc does not.
            By::Usage
                if rows.get(number + 1).is_some_and(|next| next.is_inside) && !row.is_inside =>
            {
                None
            }
            By::Usage => task.and_then(|task| task.used.as_ref()).and_then(|all| of.measured(all)),
        };
        if let Some(amount) = amount.filter(|amount| *amount > 0) {
            let class = bands::class(&band);
            amounts.push((band, Amount { name: row.name.clone(), class, amount }));
        }
    }
    // By band, the most important first, and the largest first.
    let place = |class: &str| BANDS.iter().position(|(_, known)| *known == class);
    amounts.sort_by(|(_, one), (_, other)| {
        let order = |part: &Amount| place(part.class).unwrap_or(BANDS.len());
        order(one).cmp(&order(other)).then_with(|| other.amount.cmp(&one.amount))
    });
    amounts
}

/// The capacity against the tasks.
pub(super) fn resources(
    asker: &PageClient,
    machine: &v1::MachineStatus,
    used: Option<&MachineUsed>,
) -> Markup {
    let rows = rows(machine);
    let system = used.and_then(|used| used.machine.as_ref()?.system.as_ref());
    let shown = |of: Of, by: By| {
        if used.is_none() && by != By::Limit {
            return None;
        }
        let mut parts: Vec<Amount> =
            amounts(&rows, used, of, by).into_iter().map(|(_, part)| part).collect();
        if by == By::Usage {
            let (name, class) = bands::SYSTEM;
            let system = system.and_then(|system| of.measured(system));
            parts.extend(system.map(|amount| Amount { name: name.to_owned(), class, amount }));
        }
        Some(parts)
    };
    html! {
        h2 { "Resources" }
        @if asker.at.is_some() {
            p class="notice" { "Of a past moment, reservations and usage are not kept." }
        } @else if used.is_none() {
            p class="notice bad" { "What is used is not known: no replica has answered." }
        }
        (bands::table(|of| machine.capacity.as_ref().map(|all| of.amount(all)), shown))
        (bands::legend(used.is_some()))
    }
}

/// All tasks and allocs.
pub(super) fn table(
    asker: &PageClient,
    machine: &v1::MachineStatus,
    used: Option<&MachineUsed>,
) -> Markup {
    let rows = rows(machine);
    html! {
        h2 { "Tasks" }
        @if rows.is_empty() {
            (show::empty("No task is placed on it.", "bourg status --all"))
        } @else {
            div class="scroll" { table {
                thead { tr {
                    th scope="col" { "Task" }
                    th scope="col" { "State" }
                    th scope="col" { "Health" }
                    th scope="col" { "Band" }
                    th scope="col" { "Limit" }
                    th scope="col" { "CPU of limit" }
                    th scope="col" { "RAM of limit" }
                    th scope="col" { "Ports" }
                    th scope="col" { "Since" }
                    th scope="col" { "Why" }
                } }
                tbody { @for row in &rows { (task_row(asker, row, used)) } }
            } }
        }
    }
}

fn task_row(asker: &PageClient, row: &PlacedRow<'_>, used: Option<&MachineUsed>) -> Markup {
    let href = parsed(&row.name).map(|(user, job, index)| asker.to_task(user, job, index));
    let below = |part: &str| href.as_ref().map(|href| crate::pages::job::path(href, part));
    let now = of_task(used, &row.name);
    let task = row.placed.and_then(|placed| placed.task.as_ref());
    let limit = row.placed.and_then(|placed| placed.limit.as_ref());
    let measured = now.and_then(|now| now.used.as_ref());
    let share = |of: Of| {
        show::share(measured.and_then(|all| of.measured(all)), limit.map(|all| of.amount(all)))
    };
    let is_alloc = task.is_some_and(|task| task.limit.is_some());
    html! {
        tr class=[row.is_inside.then_some("inside")] data-href=[href.as_ref()]
            data-l=[below("/logs")] data-s=[below("/terminal")] {
            th scope="row" {
                (named(asker, &row.name))
                @if is_alloc { " " span class="label" { "alloc" } }
                @if row.is_inside { " " span class="muted nowrap" { "in the alloc" } }
            }
            @if let (Some(placed), Some(task)) = (row.placed, task) {
                td { (show::task_state(task.state)) }
                td { (show::health(task.health)) }
                td class="nowrap" { (jobs::band(Some(placed.priority))) " " span class="muted" { (placed.priority) } }
                td class="nowrap" { (show::cpu_and_ram(limit)) }
                @if is_alloc {
                    @let taken = task.taken.as_ref();
                    @let share = |of: Of| show::share(taken.map(|all| of.amount(all)), limit.map(|all| of.amount(all)));
                    td { (show::bar(share(Of::Cpu), "CPU taken by tasks")) " " span class="muted" { "taken" } }
                    td { (show::bar(share(Of::Ram), "RAM taken by tasks")) " " span class="muted" { "taken" } }
                } @else {
                    td { (show::bar(share(Of::Cpu), "CPU used of the limit")) }
                    td { (show::bar(share(Of::Ram), "RAM used of the limit")) }
                }
                td { (ports(task)) }
                td class="nowrap" { (show::ago(task.since, asker.now)) }
                td class="why" { (task.reason) }
            } @else {
                @for _ in 0..3 { td {} }
                td { (show::cpu_and_ram(now.and_then(|now| now.limit.as_ref()))) }
                @for of in [Of::Cpu, Of::Ram] {
                    @let limit = now.and_then(|now| now.limit.as_ref()).map(|all| of.amount(all));
                    td { (show::bar(show::share(measured.and_then(|all| of.measured(all)), limit), "used of the limit")) }
                }
                @for _ in 0..3 { td {} }
            }
        }
    }
}

/// For example `http 20017`.
fn ports(task: &v1::TaskStatus) -> String {
    let one = |port: &v1::NamedPort| format!("{} {}", port.name, port.port);
    task.ports.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(name: &str, priority: u32, cpu_milli: i64, task: v1::TaskStatus) -> v1::PlacedTask {
        let (user, job, index) = parsed(name).expect(name);
        v1::PlacedTask {
            user: user.to_owned(),
            job: job.to_owned(),
            priority,
            limit: Some(v1::Resources { cpu_milli, ..v1::Resources::default() }),
            task: Some(v1::TaskStatus { index, ..task }),
        }
    }

    fn machine() -> v1::MachineStatus {
        let alloc = v1::TaskStatus {
            inside: vec!["ana/saver/0".to_owned()],
            limit: Some(v1::Resources::default()),
            ..v1::TaskStatus::default()
        };
        let inside = v1::TaskStatus { alloc: "ana/room/1".to_owned(), ..v1::TaskStatus::default() };
        let lost = v1::TaskStatus { alloc: "ana/gone/1".to_owned(), ..v1::TaskStatus::default() };
        let plain = v1::TaskStatus::default;
        v1::MachineStatus {
            placed: vec![
                placed("ben/crawl/10", 100, 500, plain()),
                placed("ben/crawl/9", 100, 700, plain()),
                placed("ana/web/10", 200, 300, inside),
                placed("ana/room/1", 200, 1_000, alloc),
                placed("ana/lost/0", 25, 250, lost),
            ],
            ..v1::MachineStatus::default()
        }
    }

    #[test]
    fn tasks_in_an_alloc_are_below_it() {
        let machine = machine();
        let rows: Vec<(String, bool, bool)> = rows(&machine)
            .into_iter()
            .map(|row| (row.name, row.placed.is_some(), row.is_inside))
            .collect();
        let expected = [
            ("ana/lost/0", true, false),
            ("ana/room/1", true, false),
            ("ana/saver/0", false, true),
            ("ana/web/10", true, true),
            ("ben/crawl/9", true, false),
            ("ben/crawl/10", true, false),
        ];
        assert_eq!(rows, expected.map(|(name, is, inside)| (name.to_owned(), is, inside)));
    }

    #[test]
    fn an_alloc_has_limits_and_its_tasks_use_them() {
        let machine = machine();
        let rows = rows(&machine);
        let task = |name: &str, reserved, used| {
            let (user, job, index) = parsed(name).expect(name);
            let reservation = v1::Resources { cpu_milli: reserved, ..v1::Resources::default() };
            let used = v1::Measured { cpu_milli: used, ..v1::Measured::default() };
            let task = v1::TaskUsage {
                index,
                reservation: Some(reservation),
                used: Some(used),
                ..v1::TaskUsage::default()
            };
            (user.to_owned(), job.to_owned(), task)
        };
        let used = MachineUsed {
            machine: None,
            tasks: vec![
                task("ana/room/1", 800, None),
                task("ana/web/10", 300, Some(200)),
                task("ana/saver/0", 100, Some(50)),
                task("ben/crawl/9", 400, Some(350)),
                task("ben/crawl/10", 500, None),
            ],
        };
        for (by, expected) in [
            (
                By::Limit,
                "ana/room/1 1000 production, ben/crawl/9 700 best-effort-batch, \
                ben/crawl/10 500 best-effort-batch, ana/lost/0 250 free",
            ),
            (
                By::Reservation,
                "ana/room/1 800 production, ben/crawl/10 500 best-effort-batch, \
                ben/crawl/9 400 best-effort-batch",
            ),
            (
                By::Usage,
                "ana/web/10 200 production, ana/saver/0 50 production, \
                ben/crawl/9 350 best-effort-batch",
            ),
        ] {
            let parts = amounts(&rows, Some(&used), Of::Cpu, by);
            let parts: Vec<String> = parts
                .iter()
                .map(|(band, part)| format!("{} {} {band}", part.name, part.amount))
                .collect();
            assert_eq!(parts.join(", "), expected, "{by:?}");
        }
    }

    #[test]
    fn names_of_tasks_have_three_parts() {
        for (text, expected) in [
            ("ana/web/3", Some(("ana", "web", 3))),
            ("ana/web", None),
            ("7-0-1", None),
            ("ana/web/x", None),
            ("", None),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }
}

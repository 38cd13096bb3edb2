//! All machines: searched and filtered.

use std::cmp::Reverse;

use api::{v1, word};
use chart::{Bar, Marker, Size};
use maud::{Markup, html};
use model::{LabelQuery, LabelQueryError};

use super::{Page, Part, quoted};
use crate::address::{Place, Query};
use crate::asker::PageClient;
use crate::fleet::{By, Fleet, FleetMachine, Of};
use crate::problem::Problem;
use crate::show;

/// The most machines on one page.
const ROWS: usize = 200;
/// The states by which machines are chosen: the states of the cell, and what else is said of a machine.
const STATES: [&str; 10] = [
    "joining",
    "up",
    "draining",
    "drained",
    "not-ready",
    "unreachable",
    "down",
    "not up",
    "suspect",
    "revoked",
];
/// By what machines are sorted, beside their names: the most first.
const SORTS: [&str; 5] = ["tasks", "CPU used", "RAM used", "CPU limits", "RAM limits"];

pub(super) async fn page(asker: &mut PageClient, query: &Query) -> Result<Page, Problem> {
    let fleet = asker.fleet().await?;
    let labels = match query.get("labels") {
        "" => LabelQuery::default(),
        text => text.parse().map_err(|error: LabelQueryError| Problem::bad(error.to_string()))?,
    };
    let mut rows = chosen(&fleet, query, &labels);
    let all = rows.len();
    rows.truncate(ROWS);
    let list = html! {
        @if asker.at.is_some() {
            p class="notice" { "Of a past moment, reservations and usage are not kept: the bars are limits." }
        } @else if fleet.used().is_none() {
            p class="notice bad" { "What the machines use is not known: no replica has answered." }
        }
        @if fleet.len() == 0 {
            (show::empty("The cell has no machines.", "bourg machine token m1"))
        } @else if rows.is_empty() {
            (show::empty("No machines match.", "bourg machines"))
        } @else {
            (table(asker, &rows))
            p class="muted" {
                @if all > ROWS { "The first " (ROWS) " of " (all) " machines: search for fewer." }
                @else { (all) @if all == 1 { " machine" } @else { " machines" } " of " (fleet.len()) }
            }
        }
    };
    let mut command = "bourg machines -o wide".to_owned();
    if !query.get("labels").is_empty() {
        command += &format!(" -l {}", quoted(query.get("labels")));
    }
    let heading = html! {
        h1 { "Machines" }
        (filter(asker, query))
    };
    Ok(Page::live(
        "Machines",
        heading,
        super::at(asker, command),
        vec![Part::new("machines", list)],
    ))
}

fn filter(asker: &PageClient, query: &Query) -> Markup {
    let choice = |name: &str, label: &str, first: &str, words: &[&str]| {
        html! {
            label { (label)
                select name=(name) {
                    option value="" { (first) }
                    @for word in words { option value=(word) selected[query.get(name) == *word] { (word) } }
                }
            }
        }
    };
    html! {
        form class="filter" action="/machines" {
            @if let Some(at) = &asker.address.at { input type="hidden" name="at" value=(at); }
            label { "Name" input name="q" value=(query.get("q")) placeholder="part of a name"; }
            label { "Attributes" input name="labels" value=(query.get("labels")) placeholder="rack=r7,!gpu"; }
            (choice("state", "State", "all", &STATES))
            (choice("sort", "Sort by", "name", &SORTS))
            button type="submit" { "Filter" }
        }
    }
}

/// The machines that match, in the order that is wanted.
fn chosen<'a>(fleet: &'a Fleet, query: &Query, labels: &LabelQuery) -> Vec<FleetMachine<'a>> {
    let attribute = |machine: &FleetMachine<'a>, key: &str| {
        machine.status.attributes.get(key).map(String::as_str)
    };
    let mut rows: Vec<FleetMachine<'a>> = fleet
        .machines()
        .filter(|machine| machine.status.name.contains(query.get("q")))
        .filter(|machine| is(machine, query.get("state")))
        .filter(|machine| labels.holds(|key| attribute(machine, key)))
        .collect();
    let by_share = |rows: &mut Vec<FleetMachine<'a>>, of, by| {
        let share =
            |machine: &FleetMachine<'a>| show::share(machine.amount(of, by), machine.capacity(of));
        rows.sort_by_key(|machine| Reverse(share(machine)));
    };
    match query.get("sort") {
        "tasks" => rows.sort_by_key(|machine| Reverse(machine.tasks())),
        "CPU used" => by_share(&mut rows, Of::Cpu, By::Usage),
        "RAM used" => by_share(&mut rows, Of::Ram, By::Usage),
        "CPU limits" => by_share(&mut rows, Of::Cpu, By::Limit),
        "RAM limits" => by_share(&mut rows, Of::Ram, By::Limit),
        _ => {}
    }
    rows
}

fn is(machine: &FleetMachine<'_>, state: &str) -> bool {
    let now = machine.state();
    match state {
        "" => true,
        "not up" => now != v1::MachineState::Up,
        "draining" => machine.is_draining() && now != v1::MachineState::Drained,
        "suspect" => machine.status.suspect,
        "revoked" => machine.status.shut_out,
        state => word::<v1::MachineState>(now.into()) == state,
    }
}

fn table(asker: &PageClient, rows: &[FleetMachine<'_>]) -> Markup {
    html! {
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Machine" }
                th scope="col" { "State" }
                th scope="col" class="num" { "Tasks" }
                th scope="col" { "CPU" }
                th scope="col" { "RAM" }
                th scope="col" { "Rack" }
                th scope="col" { "Platform" }
            } }
            tbody { @for machine in rows {
                @let name = &machine.status.name;
                @let href = asker.to_machine(name);
                tr data-href=(href) {
                    th scope="row" { a href=(href) { (name) } }
                    td { (state(machine.status, machine.state(), machine.is_draining()))
                        span class="muted" { (reason(asker, machine)) } }
                    td class="num" { (machine.tasks()) }
                    td { (bar(machine, Of::Cpu)) }
                    td { (bar(machine, Of::Ram)) }
                    td class="nowrap" { (attribute(asker, machine, "rack")) }
                    td { (attribute(asker, machine, "platform")) }
                }
            } }
        } }
        @if rows.iter().any(|machine| machine.used.is_some()) {
            (chart::stack_legend(
                &[("series-usage", "used")],
                &[("series-reservation", "reserved"), ("series-limit", "limits")],
            ))
        }
    }
}

/// An attribute, as a link to all machines that have the same.
fn attribute(asker: &PageClient, machine: &FleetMachine<'_>, name: &str) -> Markup {
    let Some(value) = machine.status.attributes.get(name) else { return html! {} };
    let query = Query::default().with("labels", &format!("{name}={value}"));
    show::link(&asker.to(Place::Machines(query)), value)
}

/// The state of a machine, and what else is to be known before a task is placed there.
pub(super) fn state(
    status: &v1::MachineStatus,
    state: v1::MachineState,
    is_draining: bool,
) -> Markup {
    use v1::MachineState::{Drained, Draining};

    let says_so = matches!(state, Draining | Drained);
    html! {
        (show::machine_state(state.into()))
        @if is_draining && !says_so { ", draining" }
        @if status.suspect { ", " span class="bad" { "suspect" } }
        @if status.shut_out { ", " span class="bad" { "revoked" } }
    }
}

/// Why it is in its state, or since when.
fn reason(asker: &PageClient, machine: &FleetMachine<'_>) -> Markup {
    let status = machine.status;
    // What is used is newer than the list, and the list says since when.
    let silent = status.silent_since > 0 && machine.state() == status.state();
    html! {
        @if silent { " since " (show::ago(status.silent_since, asker.now)) }
        @else if machine.is_draining() && !status.drain_reason.is_empty() { ": " (status.drain_reason) }
    }
}

/// What is used of a resource, with marks where reservations and limits are.
fn bar(machine: &FleetMachine<'_>, of: Of) -> Markup {
    let Some(capacity) = machine.capacity(of) else { return html! { (show::cpu(None)) } };
    let [limit, reserved, used] = By::ALL.map(|by| machine.amount(of, by));
    let label = |name: &str, amount| format!("{name} {}", of.show(amount));
    let labels = [label("limits", limit), label("reserved", reserved), label("used", used)];
    let value = |amount: Option<i64>| amount.map(|amount| amount as f64);
    let mut markers = Vec::new();
    let mut parts = Vec::new();
    match value(used) {
        Some(value) => {
            parts.push(chart::BarPart { class: "series-usage", value, label: &labels[2] });
        }
        None => {
            let value = value(limit).unwrap_or_default();
            parts.push(chart::BarPart { class: "series-limit", value, label: &labels[0] });
        }
    }
    if let Some(value) = value(reserved) {
        markers.push(Marker { class: "series-reservation", value, label: &labels[1] });
    }
    if let Some(value) = value(limit).filter(|_| used.is_some()) {
        markers.push(Marker { class: "series-limit", value, label: &labels[0] });
    }
    let text = of.show(Some(capacity));
    let bar = chart::stack(&Bar {
        name: of.name(),
        capacity: capacity as f64,
        of: &text,
        parts: &parts,
        markers: &markers,
        size: Size::Compact,
    });
    html! {
        div class="amount" {
            (bar)
            span class="num muted" { (of.show(used.or(limit))) " of " (text) }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn fleet() -> Fleet {
        use v1::MachineState::{Down, Drained, Draining, Up};

        let resources = |cpu_milli| Some(v1::Resources { cpu_milli, ..v1::Resources::default() });
        let machine =
            |name: &str, state: v1::MachineState, taken, tasks, rack: &str| v1::MachineStatus {
                name: name.to_owned(),
                state: state.into(),
                draining_since: u64::from(matches!(state, Draining | Drained)),
                capacity: resources(4_000),
                taken: resources(taken),
                tasks,
                attributes: [("rack".to_owned(), rack.to_owned())].into(),
                suspect: name == "m2",
                ..v1::MachineStatus::default()
            };
        let machines = vec![
            machine("m10", Up, 3_000, 1, "r1"),
            machine("m2", Up, 1_000, 3, "r2"),
            machine("m3", Down, 0, 0, "r1"),
            machine("n4", Draining, 2_000, 2, "r2"),
            machine("n5", Drained, 0, 0, "r2"),
        ];
        let machines = v1::MachinesResponse { machines, ..v1::MachinesResponse::default() };
        Fleet::new(Arc::new(machines), None, None)
    }

    #[test]
    fn machines_are_found_by_name_state_and_attributes() {
        let fleet = fleet();
        for (query, labels, expected) in [
            ("", "", "m2 m3 m10 n4 n5"),
            ("q=m", "", "m2 m3 m10"),
            ("q=<script>", "", ""),
            ("", "rack=r1", "m3 m10"),
            ("", "rack!=r1", "m2 n4 n5"),
            ("state=up", "", "m2 m10"),
            ("state=up", "rack=r2", "m2"),
            ("state=down", "", "m3"),
            ("state=draining", "", "n4"),
            ("state=drained", "", "n5"),
            ("state=not+up", "", "m3 n4 n5"),
            ("state=suspect", "", "m2"),
            ("state=revoked", "", ""),
            ("state=what", "", ""),
            ("sort=tasks", "", "m2 n4 m10 m3 n5"),
            ("sort=CPU+limits", "", "m10 n4 m2 m3 n5"),
            ("sort=CPU+used", "", "m2 m3 m10 n4 n5"),
        ] {
            let labels = match labels {
                "" => LabelQuery::default(),
                text => text.parse().expect(text),
            };
            let found = chosen(&fleet, &Query::parse(query), &labels);
            let names: Vec<&str> = found.iter().map(|one| one.status.name.as_str()).collect();
            assert_eq!(names.join(" "), expected, "{query} {labels}");
        }
    }

    #[test]
    fn a_bar_without_usage_is_of_limits() {
        let fleet = fleet();
        let machine = fleet.machines().next().expect("m2");
        let shown = bar(&machine, Of::Cpu).into_string();
        assert!(shown.contains("series-limit") && !shown.contains("series-usage"), "{shown}");
        assert!(shown.contains("1 core of 4 cores"), "{shown}");
    }
}

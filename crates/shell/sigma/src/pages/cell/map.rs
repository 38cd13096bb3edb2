//! The machines by rack, each as a square: a part of the page for each rack, so that only the racks that
//! have changed are sent again.

use api::{v1, word};
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use chart::{Rack, Square};
use maud::{Markup, html};

use super::{Facts, View};
use crate::address::{Address, Place, Query};
use crate::app::App;
use crate::asker::Drawn;
use crate::fleet::{By, Fleet, FleetMachine, Group, Of};
use crate::problem::Problem;
use crate::session::Session;
use crate::show;

/// Up to so many machines there is room for larger squares.
const ROOMY: usize = 200;

/// What is above the racks: what they show, and how to choose something else.
pub(super) fn heading(facts: &Facts) -> Markup {
    let view = facts.view;
    let choice = |to: View, name: &str| {
        let is_it = to == view;
        html! { a href=(facts.to(to.place())) aria-current=[is_it.then_some("true")] { (name) } }
    };
    html! {
        h2 {
            "Machines"
            @if let Some(attribute) = facts.fleet.grouped_by() { " by " (attribute) }
        }
        @if facts.fleet.len() == 0 {
            (show::empty("The cell has no machines.", "bourg machine token m1"))
        } @else {
            nav class="choices" aria-label="What the map shows" data-racks=(digest(&facts.fleet)) {
                span { @for of in Of::ALL { (choice(View { of, ..view }, of.name())) } }
                @if !facts.is_past() {
                    span { @for by in By::ALL { (choice(View { by, ..view }, by.word())) } }
                }
            }
            @if facts.is_past() {
                p class="notice" { "Of a past moment, the usage and the reservations of machines are not kept: \
                    this shows limits." }
            }
            (chart::map_legend(&measure(view)))
        }
    }
}

/// What tells a browser that there are other racks than those on its page.
fn digest(fleet: &Fleet) -> String {
    let mut hash = blake3::Hasher::new();
    for group in fleet.groups() {
        hash.update(name(fleet, group).as_bytes()).update(b"\0");
    }
    hash.finalize().to_hex()[..8].to_owned()
}

/// Such as `CPU used`.
fn measure(view: View) -> String {
    format!("{} {}", view.of.name(), view.by.is())
}

/// A part for each rack.
pub(super) fn racks(facts: &Facts) -> Vec<Drawn> {
    let fleet = &facts.fleet;
    let measure = measure(facts.view);
    let class = if fleet.len() > ROOMY { "map place" } else { "map place roomy" };
    let drawn = fleet.groups().iter().map(|group| {
        let name = name(fleet, group);
        let id = format!("rack-{}", crate::address::encoded(&name));
        let squares: Vec<Square> =
            fleet.members(group).map(|machine| square(&machine, facts.view)).collect();
        let href = facts.to(Place::Machines(members(fleet, group)));
        let svg = format!("svg-{id}");
        let rack = Rack { id: &svg, name: &name, href: &href, machines: &squares };
        let html = chart::racks(&[rack], &measure).into_iter().map(|(_, html)| html.into_string());
        (id, Some(class), html.collect::<String>())
    });
    drawn.collect()
}

/// The name of a group.
fn name(fleet: &Fleet, group: &Group) -> String {
    match (&group.value, fleet.grouped_by()) {
        (Some(value), _) => value.clone(),
        (None, Some(attribute)) => format!("no {attribute}"),
        (None, None) => "all".to_owned(),
    }
}

/// The query for the machines of a group.
fn members(fleet: &Fleet, group: &Group) -> Query {
    let labels = match (&group.value, fleet.grouped_by()) {
        (Some(value), Some(attribute)) => format!("{attribute}={value}"),
        (None, Some(attribute)) => format!("!{attribute}"),
        (_, None) => String::new(),
    };
    Query::default().with("labels", &labels)
}

/// How a machine is drawn.
fn square(machine: &FleetMachine<'_>, view: View) -> Square {
    match machine.state() {
        v1::MachineState::Down => Square::Down,
        v1::MachineState::Unreachable | v1::MachineState::NotReady => Square::Unreachable,
        v1::MachineState::Draining | v1::MachineState::Drained => Square::Drained,
        v1::MachineState::Up => {
            let capacity = machine.capacity(view.of).filter(|capacity| *capacity > 0);
            let share = machine.amount(view.of, view.by).zip(capacity);
            share.map_or(Square::Unknown, |(part, of)| Square::Up(part as f64 / of as f64))
        }
        _ => Square::Unknown,
    }
}

/// What the pointer shows of the machines of a rack: for each its name, its page, and lines of text.
pub(crate) async fn rack(
    State(app): State<App>,
    Extension(session): Extension<Session>,
    request: Request,
) -> Response {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let at = Some(query.get("at").to_owned()).filter(|at| !at.is_empty());
    let address = Address { place: Place::Cell(Query::default()), at };
    let found = async {
        let mut asker = app.asker(&session, address.clone()).await?;
        let fleet = asker.fleet().await?;
        let group = fleet.groups().iter().find(|group| name(&fleet, group) == query.get("rack"));
        let group = group.ok_or_else(|| Problem::not_found("there is no such rack"))?;
        let of = fleet.members(group).map(|machine| {
            let name = machine.status.name.clone();
            let href = address.to(Place::Machine { name: name.clone() });
            serde_json::json!([name, href, lines(&machine)])
        });
        Ok(serde_json::json!({ "machines": of.collect::<Vec<_>>() }))
    };
    match found.await {
        Ok(machines) => {
            let json = [(axum::http::header::CONTENT_TYPE, "application/json")];
            (json, machines.to_string()).into_response()
        }
        Err(problem) => app.problem(&session, &problem),
    }
}

/// A machine in a few lines.
fn lines(machine: &FleetMachine<'_>) -> Vec<String> {
    let mut state = word::<v1::MachineState>(machine.state().into()).into_owned();
    if machine.status.suspect {
        state += ", suspect";
    }
    let tasks = present::event_words::tasks(machine.tasks());
    let mut lines = vec![format!("{state}, {tasks}")];
    for of in Of::ALL {
        let Some(capacity) = machine.capacity(of).filter(|capacity| *capacity > 0) else {
            continue;
        };
        let [limit, reserved, used] = By::ALL.map(|by| machine.amount(of, by));
        let mut line = format!("{}: limits {}", of.name(), of.show(limit));
        for (name, amount) in [("reserved", reserved), ("used", used)] {
            if amount.is_some() {
                line += &format!(", {name} {}", of.show(amount));
            }
        }
        lines.push(format!("{line}, of {}", of.show(Some(capacity))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(cpu_milli: i64) -> Option<v1::Resources> {
        Some(v1::Resources { cpu_milli, ..v1::Resources::default() })
    }

    #[test]
    fn a_square_shows_the_state_before_the_share() {
        use v1::MachineState::{Down, Drained, Draining, Joining, Unreachable, Up};

        let view = |by| View { of: Of::Cpu, by, hours: 1 };
        for (state, taken, by, expected) in [
            (Up, resources(2_000), By::Limit, Square::Up(0.5)),
            (Up, resources(0), By::Limit, Square::Up(0.0)),
            (Up, resources(8_000), By::Limit, Square::Up(2.0)),
            (Up, None, By::Limit, Square::Unknown),
            (Up, resources(2_000), By::Usage, Square::Unknown),
            (Joining, resources(0), By::Limit, Square::Unknown),
            (Draining, resources(2_000), By::Limit, Square::Drained),
            (Drained, resources(0), By::Limit, Square::Drained),
            (Unreachable, resources(2_000), By::Limit, Square::Unreachable),
            (Down, resources(2_000), By::Limit, Square::Down),
        ] {
            let status = v1::MachineStatus {
                state: state.into(),
                taken,
                capacity: resources(4_000),
                ..v1::MachineStatus::default()
            };
            let machine = FleetMachine { status: &status, used: None };
            assert_eq!(square(&machine, view(by)), expected, "{state:?} {taken:?}");
        }
    }

    #[test]
    fn a_machine_in_lines_leaves_out_what_is_not_known() {
        let mut status = v1::MachineStatus {
            state: v1::MachineState::Up.into(),
            taken: resources(1_500),
            capacity: resources(4_000),
            tasks: 1,
            ..v1::MachineStatus::default()
        };
        let machine = FleetMachine { status: &status, used: None };
        assert_eq!(lines(&machine), ["up, 1 task", "CPU: limits 1.5 cores, of 4 cores"]);
        status.suspect = true;
        let used = v1::MachineUsage {
            state: v1::MachineState::Up.into(),
            used: Some(v1::Measured { cpu_milli: Some(250), ..v1::Measured::default() }),
            capacity: resources(4_000),
            ..v1::MachineUsage::default()
        };
        let machine = FleetMachine { status: &status, used: Some(&used) };
        let expected =
            ["up, suspect, 1 task", "CPU: limits 1.5 cores, used 0.25 cores, of 4 cores"];
        assert_eq!(lines(&machine), expected);
    }
}

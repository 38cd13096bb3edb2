//! A machine: its capacity against its tasks, its drain with its progress, who said what about it, and
//! what happened there.

mod tasks;

use api::v1;
use api::v1::events_request::From;
use maud::{Markup, html};
use model::attribute;
use present::machine_words::{held_ports, ports, task_network};

use super::{Page, Part, events, machines, quoted};
use crate::action::{Action, button};
use crate::address::{Place, Query};
use crate::asker::PageClient;
use crate::problem::Problem;
use crate::show;

/// How many events are shown.
const EVENTS: u32 = 30;

pub(super) async fn page(asker: &mut PageClient, name: &str) -> Result<Page, Problem> {
    let request = v1::MachinesRequest {
        names: vec![name.to_owned()],
        tasks: true,
        at: asker.at,
        ..v1::MachinesRequest::default()
    };
    let answer = asker.ask(request, async |mut c, r| c.machines.list(r).await).await?;
    let found = answer.machines.into_iter().next();
    let machine = found.ok_or_else(|| Problem::not_found(format!("there is no machine {name}")))?;
    let used = match asker.at {
        Some(_) => None,
        None => tasks::used(asker, &machine).await?,
    };
    let request = v1::EventsRequest {
        machine: name.to_owned(),
        from: Some(From::Last(EVENTS)),
        ..v1::EventsRequest::default()
    };
    let history = asker.recent_events(request).await?;
    let parts = vec![
        Part::new("summary", summary(asker, &machine)),
        Part::new("drain", drain(asker, &machine)).class("panel"),
        Part::new("resources", tasks::resources(asker, &machine, used.as_deref())),
        Part::new("tasks", tasks::table(asker, &machine, used.as_deref())),
        Part::new("saving", saving(asker, &machine)),
        Part::new("volumes", volumes(&machine)),
        Part::new("attributes", attributes(asker, &machine)),
        Part::new(
            "history",
            html! {
                h2 { "Events" }
                (events::newest(asker, history.as_deref(), true))
                p { a href=(asker.to(Place::Events(Query::default().with("machine", name)))) { "All events" } }
            },
        ),
    ];
    let command = super::at(asker, format!("bourg machine show {}", quoted(name)));
    let heading = html! {
        h1 { a href=(asker.to(Place::Machines(Query::default()))) data-key="u" { "Machines" } " / " (name) }
    };
    Ok(Page::live(name, heading, command, parts))
}

fn summary(asker: &PageClient, machine: &v1::MachineStatus) -> Markup {
    let mut all = vec![
        (
            "State",
            html! {
                (machines::state(machine, machine.state(), machine.draining_since > 0))
                @if machine.silent_since > 0 { " since " (show::ago(machine.silent_since, asker.now)) }
            },
        ),
        ("Tasks", html! { (machine.tasks) }),
        ("Address", html! { span class="mono" { (machine.address) } }),
        (
            "Core",
            html! { "counts as " (show::cpu(Some(machine.gcu_milli.into()))) " of the cell's cores" },
        ),
        ("Ports", html! { (ports(machine)) }),
    ];
    if asker.at.is_none() {
        all.push(("Polled", polled(machine)));
    }
    if let Some(network) = task_network(machine) {
        all.push(("Task network", html! { (network) }));
    }
    if machine.certificate_expires > 0 {
        let ends = machine.certificate_expires;
        let verb = if ends > asker.now.0 { "ends " } else { "ended " };
        all.push(("Certificate", html! { (verb) (show::ago(ends, asker.now)) }));
    }
    if machine.revoked > 0 {
        let accepted = if machine.shut_out { "none" } else { "only those issued since" };
        all.push((
            "Revoked",
            html! {
                (show::ago(machine.revoked, asker.now)) " by " (machine.revoked_by) "; accepted: " (accepted)
            },
        ));
    }
    if let Some(held) = held_ports(machine) {
        all.push(("Ports held by others", html! { (held) }));
    }
    html! {
        @for (is_bad, text) in notices(machine) {
            p class=(if is_bad { "notice bad" } else { "notice" }) { (text) }
        }
        (show::facts(all))
    }
}

/// What is to be known of a machine that is not simply up, and whether it is bad.
fn notices(machine: &v1::MachineStatus) -> Vec<(bool, String)> {
    let mut notices = Vec::new();
    match machine.state() {
        v1::MachineState::Unreachable => notices.push((
            true,
            "It does not answer: its tasks stay assigned to it, and no others are placed."
                .to_owned(),
        )),
        v1::MachineState::Down => {
            notices.push((true, "It does not answer: its tasks are rescheduled.".to_owned()));
        }
        v1::MachineState::Joining => {
            notices.push((false, "It was added and has not answered yet.".to_owned()));
        }
        _ => {}
    }
    if !machine.not_reached.is_empty() {
        notices.push((true, format!("Not reached: {}", machine.not_reached)));
    }
    if machine.attributes.contains_key(attribute::REJECTS_ORDERS) {
        notices.push((
            true,
            format!(
                "It rejects this cell's orders, because it has obeyed another history of the cell. \
                 An administrator lets it obey: bourg machine obey {}",
                machine.name
            ),
        ));
    }
    if machine.suspect {
        let text = "Many tasks crashed on it recently: it may be faulty. Drain it to find out.";
        notices.push((true, text.to_owned()));
    }
    if let Some(reason) = machine.report.as_ref().and_then(|report| report.not_ready.as_ref()) {
        let then = match machine.set_aside {
            true => "it gets no tasks until a probe task works",
            false => "it still gets tasks, because so many machines are not ready",
        };
        notices.push((true, format!("It is not ready, and {then}: {reason}")));
    }
    let shortage = machine.report.as_ref().and_then(|report| report.shortage);
    if let Some(shortage) = shortage {
        let of = match shortage.dimension() {
            v1::Dimension::Cpu => "CPU",
            v1::Dimension::Ram => "RAM",
            v1::Dimension::Disk => "disk",
            v1::Dimension::DiskRate => "disk bandwidth",
            v1::Dimension::Unspecified => "a resource",
        };
        notices.push(match shortage.persists {
            true => (true, format!("It is short of {of}: tasks of lower bands are evicted.")),
            false => (false, format!("It was short of {of} lately.")),
        });
    }
    notices
}

/// For example `by replica 2; replica 1 does not reach it`.
fn polled(machine: &v1::MachineStatus) -> Markup {
    let failed: Vec<String> = machine.not_reached_by.iter().map(ToString::to_string).collect();
    html! {
        @match machine.polled_by {
            0 => span class="bad" { "by no replica that reaches it" },
            replica => { "by replica " (replica) },
        }
        @match failed.as_slice() {
            [] => {}
            [one] => { "; replica " (one) " does not reach it" }
            several => { "; replicas " (several.join(", ")) " do not reach it" }
        }
    }
}

/// The drain: who began it, what it waits for, and the buttons.
fn drain(asker: &PageClient, machine: &v1::MachineStatus) -> Markup {
    let name = machine.name.as_str();
    let may = asker.at.is_none() && asker.rights.may_drain();
    let is_draining = machine.draining_since > 0;
    html! {
        h2 { "Drain" }
        @if is_draining {
            p {
                "Drained " (show::ago(machine.draining_since, asker.now)) " by " (machine.drained_by)
                @if !machine.drain_reason.is_empty() { ": " (machine.drain_reason) }
                "."
            }
            p { (progress(machine)) @if let Some(text) = deadline(asker, machine) { " " (text) } }
            @if !machine.drain_waits_for.is_empty() {
                ul { @for waits in &machine.drain_waits_for { li { (waits) } } }
            }
        } @else {
            p class="muted" { "It is not drained. What would happen: "
                (show::command(&format!("bourg machine drain {} --plan", quoted(name)))) }
        }
        @if may {
            div class="actions" {
                (button(asker, if is_draining { Action::UndrainMachine } else { Action::DrainMachine }, &[("machine", name)]))
            }
        }
    }
}

fn progress(machine: &v1::MachineStatus) -> Markup {
    html! {
        @match (machine.state(), machine.tasks) {
            (v1::MachineState::Drained, _) | (_, 0) => {
                @if machine.saving.is_empty() { "It is empty: it can be switched off." }
                @else { "It is empty, but it still saves the data of ended tasks." }
            }
            (_, 1) => "1 task is left.",
            (_, left) => { (left) " tasks are left." }
        }
    }
}

fn deadline(asker: &PageClient, machine: &v1::MachineStatus) -> Option<Markup> {
    let is_over = machine.state() == v1::MachineState::Drained || machine.drain_deadline == 0;
    let at = show::ago(machine.drain_deadline, asker.now);
    (!is_over).then(|| match (machine.drain_expired > 0, machine.drain_forced) {
        (true, _) => {
            html! { span class="bad" { "It ended at its deadline " (at) " with tasks left." } }
        }
        (false, true) => html! { "It evicts what is left at its deadline, " (at) "." },
        (false, false) => html! { "It ends at its deadline, " (at) ", whatever is left." },
    })
}

/// The data of ended tasks that is lost if the machine leaves now.
fn saving(asker: &PageClient, machine: &v1::MachineStatus) -> Markup {
    if machine.saving.is_empty() {
        return html! {};
    }
    html! {
        h2 { "Saving data" }
        p class="muted" { "The data of these ended tasks is lost if the machine leaves now." }
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Task" }
                th scope="col" class="num" { "Incarnation" }
                th scope="col" class="num" { "Size" }
                th scope="col" class="num" { "Attempts" }
                th scope="col" { "Kept until" }
            } }
            tbody { @for saving in &machine.saving { tr {
                th scope="row" { (tasks::named(asker, &saving.name)) }
                td class="num" { (saving.generation) }
                td class="num" { @if saving.bytes > 0 { (show::bytes(Some(saving.bytes))) } @else { "-" } }
                td class="num" { (saving.attempts) }
                td class="nowrap" { (show::ago(saving.until, asker.now)) }
            } } }
        } }
    }
}

/// Its volumes, how full they are, and whose data is in them.
fn volumes(machine: &v1::MachineStatus) -> Markup {
    if machine.volumes.is_empty() {
        return html! {};
    }
    let amount = |bytes: u64| show::bytes(i64::try_from(bytes).ok());
    html! {
        h2 { "Volumes" }
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Volume" }
                th scope="col" { "Directory" }
                th scope="col" { "Used" }
                th scope="col" { "Claimed by" }
            } }
            tbody { @for status in &machine.volumes {
                @let volume = status.volume.clone().unwrap_or_default();
                tr {
                    th scope="row" { (volume.name) }
                    td class="mono" { (volume.path) }
                    td class="nowrap" {
                        @match &status.fill {
                            None => "-",
                            Some(fill) => {
                                @if !fill.fault.is_empty() { strong { (fill.fault) } " " }
                                @if fill.size_bytes > 0 {
                                    @if fill.is_part { "disk: " }
                                    (amount(fill.used_bytes)) " of " (amount(fill.size_bytes))
                                }
                            }
                        }
                    }
                    td {
                        @match status.claims.as_slice() {
                            [] if status.data_of.is_empty() => "-",
                            [] => { "nobody; has data of " (status.data_of) }
                            claims => {
                                @for claim in claims {
                                    div { (claim.user) "/" (claim.job) "/" (claim.index) }
                                }
                            }
                        }
                    }
                }
            } }
        } }
    }
}

fn attributes(asker: &PageClient, machine: &v1::MachineStatus) -> Markup {
    let mut all: Vec<(&String, &String)> = machine.attributes.iter().collect();
    all.sort();
    html! {
        h2 { "Attributes" }
        @if all.is_empty() {
            (show::empty("It has none.", &format!("bourg machine set {} rack=r7", quoted(&machine.name))))
        } @else {
            div class="scroll" { table {
                thead { tr {
                    th scope="col" { "Attribute" }
                    th scope="col" { "Value" }
                    th scope="col" { "Said by" }
                } }
                tbody { @for (name, value) in all { tr {
                    th scope="row" { (name) }
                    td { a class="label" href=(asker.to(Place::Machines(Query::default().with("labels", &format!("{name}={value}"))))) { (value) } }
                    td { (said_by(machine, name, value)) }
                } } }
            } }
        }
    }
}

fn said_by(machine: &v1::MachineStatus, name: &str, value: &str) -> String {
    let own = machine.report.as_ref().and_then(|report| report.attributes.get(name));
    match (machine.operator_attributes.contains_key(name), own) {
        (false, _) => "the machine".to_owned(),
        (true, Some(own)) if own != value => format!("an operator; the machine reports {own}"),
        (true, _) => "an operator".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_of_who_said_it() {
        let attributes = |all: &[(&str, &str)]| {
            all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let machine = v1::MachineStatus {
            report: Some(v1::MachineReport {
                attributes: attributes(&[("rack", "r1"), ("kernel", "6.1"), ("gpu", "1")]),
                ..v1::MachineReport::default()
            }),
            operator_attributes: attributes(&[("rack", "r7"), ("gpu", "1"), ("team", "a")]),
            ..v1::MachineStatus::default()
        };
        for (name, value, expected) in [
            ("kernel", "6.1", "the machine"),
            ("rack", "r7", "an operator; the machine reports r1"),
            ("gpu", "1", "an operator"),
            ("team", "a", "an operator"),
        ] {
            assert_eq!(said_by(&machine, name, value), expected, "{name}");
        }
    }

    #[test]
    fn problems_of_a_machine_are_shown() {
        let of = |state: v1::MachineState| v1::MachineStatus {
            state: state.into(),
            ..v1::MachineStatus::default()
        };
        let short = |persists| v1::MachineStatus {
            report: Some(v1::MachineReport {
                shortage: Some(v1::machine_report::Shortage {
                    dimension: v1::Dimension::Ram.into(),
                    persists,
                }),
                ..v1::MachineReport::default()
            }),
            ..of(v1::MachineState::Up)
        };
        let suspect = v1::MachineStatus { suspect: true, ..of(v1::MachineState::Up) };
        let not_reached = "no route".to_owned();
        let not_reached = v1::MachineStatus { not_reached, ..of(v1::MachineState::Unreachable) };
        for (machine, expected) in [
            (of(v1::MachineState::Up), Vec::new()),
            (of(v1::MachineState::Down), vec![(true, "It does not answer: its tasks are resch")]),
            (of(v1::MachineState::Joining), vec![(false, "It was added")]),
            (suspect, vec![(true, "Many tasks crashed")]),
            (not_reached, vec![(true, "It does not answer"), (true, "Not reached: no route")]),
            (short(true), vec![(true, "It is short of RAM")]),
            (short(false), vec![(false, "It was short of RAM")]),
        ] {
            let said = notices(&machine);
            let fits = said.len() == expected.len()
                && said
                    .iter()
                    .zip(&expected)
                    .all(|((is_bad, text), (bad, begin))| is_bad == bad && text.starts_with(begin));
            assert!(fits, "{said:?} {expected:?}");
        }
    }

    #[test]
    fn a_drain_says_how_far_it_is() {
        let machine = |state: v1::MachineState, tasks| v1::MachineStatus {
            state: state.into(),
            tasks,
            ..v1::MachineStatus::default()
        };
        let saving = vec![v1::SavingStatus::default()];
        for (machine, expected) in [
            (machine(v1::MachineState::Draining, 7), "7 tasks are left."),
            (machine(v1::MachineState::Draining, 1), "1 task is left."),
            (machine(v1::MachineState::Drained, 0), "It is empty: it can be switched off."),
            (
                v1::MachineStatus { saving, ..machine(v1::MachineState::Drained, 0) },
                "It is empty, but it still saves the data of ended tasks.",
            ),
        ] {
            assert_eq!(progress(&machine).into_string(), expected);
        }
    }
}

//! What needs attention, in words.

use std::collections::BTreeSet;

use api::{v1, word};
use maud::{Markup, html};
use model::{Span, Time};
use present::problem;

use super::Facts;
use crate::address::{Place, Query};
use crate::fleet::Of;
use crate::pages::quoted;
use crate::show;

/// Certificates that end sooner are named.
const CERTIFICATE_SPAN: Span = Span(7 * 86_400_000_000);
/// How many names an alert has.
const NAMES: usize = 3;

/// Something that needs attention.
#[derive(Debug)]
struct Alert {
    /// Whether tasks or data suffer from it now.
    is_bad: bool,
    text: Markup,
    /// What to run next; empty if nothing helps.
    run: String,
}

impl Alert {
    fn bad(text: Markup, run: impl Into<String>) -> Self {
        Self { is_bad: true, text, run: run.into() }
    }

    fn note(text: Markup, run: impl Into<String>) -> Self {
        Self { is_bad: false, text, run: run.into() }
    }
}

/// The alerts, the bad ones first.
pub(super) fn shown(facts: &Facts) -> Markup {
    let mut alerts = Vec::new();
    of_cell(facts, &mut alerts);
    of_jobs(facts, &mut alerts);
    of_replicas(facts, &mut alerts);
    of_machines(facts, &mut alerts);
    of_certificates(facts, &mut alerts);
    of_quota(facts, &mut alerts);
    of_backups(facts, &mut alerts);
    alerts.sort_by_key(|alert| !alert.is_bad);
    html! {
        h2 class="hidden" { "Alerts" }
        @if alerts.is_empty() {
            p class="notice good" { "Nothing is wrong." }
        } @else {
            ul class="alerts" { @for alert in &alerts {
                li class=(if alert.is_bad { "notice bad" } else { "notice" }) {
                    span { span aria-hidden="true" { (if alert.is_bad { "▲ " } else { "◐ " }) } (alert.text) }
                    @if !alert.run.is_empty() { " " (show::command(&alert.run)) }
                }
            } }
        }
    }
}

fn of_cell(facts: &Facts, alerts: &mut Vec<Alert>) {
    let status = &facts.status;
    let breaker = status.rescheduling.clone().unwrap_or_default();
    let since = show::ago(breaker.since, facts.now);
    match breaker.state() {
        v1::ReschedulingState::Stopped => alerts.push(Alert::bad(
            html! {
                "Rescheduling was stopped " (since) ": " (breaker.silent) " of " (breaker.of)
                " machines were unreachable at once. None is marked down until fewer are; if they are lost, \
                 override it:"
            },
            "bourg cell resume-rescheduling",
        )),
        v1::ReschedulingState::Resumed => alerts.push(Alert::note(
            html! {
                (breaker.by) " resumed rescheduling " (since)
                " although many machines are unreachable: they are marked down one by one."
            },
            "bourg events --follow",
        )),
        _ => {}
    }
    if status.violations > 0 {
        let invariants = counted(status.violations, "invariant", "invariants");
        alerts.push(Alert::bad(
            html! {
                "The state of the cell violates " (invariants) ": the log of the master says which. Save a \
                 checkpoint for the developers:"
            },
            "bourg checkpoint save violated.checkpoint",
        ));
    }
    if facts.is_past() {
        return;
    }
    let is_alone = facts.replicas.as_ref().is_none_or(|answer| answer.replicas.len() < 2);
    let waits = facts.waiting.iter().flatten().next().is_some();
    match (status.schedulers, is_alone) {
        (0, true) => alerts.push(Alert::bad(
            html! { "No scheduler follows the master: pending tasks stay pending." },
            "bourg scheduler --help",
        )),
        (0, false) if waits => alerts.push(Alert::note(
            html! {
                "No scheduler follows the replica that answered, and tasks are pending: if none follows \
                 another one either, they stay pending."
            },
            "bourg scheduler --help",
        )),
        _ => {}
    }
}

/// The problems that the master names. What the page knows more of is said by the others.
fn of_jobs(facts: &Facts, alerts: &mut Vec<Alert>) {
    use v1::ProblemKind::{
        BackupOld, CertificateEnds, Failing, NoBackup, ProductionPending, QuotaOversold,
        Unspecified,
    };

    for of in &facts.status.problems {
        let is_of_cell = matches!(of.kind(), BackupOld | NoBackup);
        if is_of_cell || matches!(of.kind(), CertificateEnds | QuotaOversold | Unspecified) {
            continue;
        }
        let place = Place::Job { user: of.user.clone(), job: of.job.clone() };
        let text = html! {
            (show::link(&facts.to(place), &format!("{}/{}", of.user, of.job)))
            ": " (problem::sentence(of))
            @if let Some(since) = problem::since(of) { " (" (show::ago(since.0, facts.now)) ")" }
            ":"
        };
        let is_bad = matches!(of.kind(), Failing | ProductionPending);
        alerts.push(Alert { is_bad, text, run: problem::next(of) });
    }
    let (named, all) = (facts.status.problems.len(), facts.status.problem_count);
    let more = u64::from(all).saturating_sub(u64::try_from(named).unwrap_or(u64::MAX));
    if more > 0 {
        let text =
            html! { (counted(more, "more problem", "more problems")) " of jobs and machines." };
        alerts.push(Alert::note(text, "bourg cell"));
    }
}

fn of_replicas(facts: &Facts, alerts: &mut Vec<Alert>) {
    if facts.is_past() {
        return;
    }
    let Some(answer) = &facts.replicas else {
        let text = html! { "The replicas of the master are not known: none has answered." };
        alerts.push(Alert::bad(text, "bourg master list"));
        return;
    };
    if answer.leader == 0 {
        let text =
            html! { "The master has no leader: nothing is changed or scheduled until it has one." };
        alerts.push(Alert::bad(text, "bourg master list"));
    }
    let silent = answer.replicas.iter().filter(|replica| {
        let progress = replica.progress.as_ref();
        progress.is_some_and(|progress| !progress.answers)
            && replica.member() != v1::MemberState::Waiting
    });
    for replica in silent {
        let text = html! {
            "Replica " (replica.id) " of the master"
            @if !replica.address.is_empty() { " at " (replica.address) }
            " does not answer."
        };
        alerts.push(Alert::bad(text, "bourg master list"));
    }
    let Some(used) = facts.fleet.used() else {
        let text = html! { "What the machines use is not known: no replica has answered." };
        alerts.push(Alert::bad(text, "bourg usage"));
        return;
    };
    if !used.missing.is_empty() {
        let ids: Vec<String> = used.missing.iter().map(ToString::to_string).collect();
        let of = if ids.len() == 1 { "replica" } else { "replicas" };
        let text = html! {
            "Usage is missing: " (of) " " (ids.join(", ")) " of the master did not say what the machines use \
             that they poll."
        };
        alerts.push(Alert::note(text, "bourg master list"));
    }
}

fn of_machines(facts: &Facts, alerts: &mut Vec<Alert>) {
    use v1::MachineState::{Down, Unreachable};

    let (mut unreachable, mut down) = (Vec::new(), Vec::new());
    let (mut suspect, mut expired, mut partly) = (Vec::new(), Vec::new(), Vec::new());
    for machine in facts.fleet.machines() {
        let (state, status) = (machine.state(), machine.status);
        let name = status.name.as_str();
        match state {
            Unreachable => unreachable.push(name),
            Down => down.push(name),
            _ => {}
        }
        if status.suspect {
            suspect.push(name);
        }
        if status.drain_expired > 0 && machine.tasks() > 0 && state != Down {
            expired.push(name);
        }
        if status.polled_by > 0 && !status.not_reached_by.is_empty() {
            partly.push(name);
        }
    }
    let list = |names: &[&str], state: &str| self::names(facts, names, state);
    let are = |names: &[&str]| if names.len() == 1 { "is" } else { "are" };
    if !down.is_empty() {
        let text = html! {
            (list(&down, "down")) " " (are(&down)) " down: the tasks were rescheduled."
        };
        alerts.push(Alert::bad(text, ""));
    }
    if !unreachable.is_empty() {
        let text = html! {
            (list(&unreachable, "unreachable")) " " (are(&unreachable))
            " unreachable: their tasks may still run, and no others are placed there."
        };
        alerts.push(Alert::bad(text, ""));
    }
    if !suspect.is_empty() {
        let text = html! {
            (list(&suspect, "suspect")) " " (are(&suspect))
            " suspect: many tasks crashed there recently, so it may be faulty. Drain it to find out:"
        };
        alerts.push(Alert::note(text, format!("bourg machine drain {}", quoted(suspect[0]))));
    }
    if !expired.is_empty() {
        let text = html! {
            "The drain of " (list(&expired, "draining")) " ended at its deadline with tasks left."
        };
        alerts.push(Alert::note(text, ""));
    }
    if !partly.is_empty() {
        let replicas: BTreeSet<u64> = facts
            .fleet
            .machines()
            .filter(|machine| machine.status.polled_by > 0)
            .flat_map(|machine| machine.status.not_reached_by.iter().copied())
            .collect();
        let replicas: Vec<String> = replicas.iter().map(ToString::to_string).collect();
        let text = html! {
            "Replica " (replicas.join(", ")) " of the master does not reach " (list(&partly, ""))
            ", which another replica reaches."
        };
        alerts.push(Alert::note(text, ""));
    }
}

/// Up to three names as links, and how many more there are.
fn names(facts: &Facts, names: &[&str], state: &str) -> Markup {
    let more = names.len().saturating_sub(NAMES);
    html! {
        @for (number, name) in names.iter().take(NAMES).enumerate() {
            @if number > 0 { (if more == 0 && number + 1 == names.len() { " and " } else { ", " }) }
            (show::link(&facts.to_machine(name), name))
        }
        @if more > 0 {
            " and "
            a href=(facts.to(Place::Machines(Query::default().with("state", state)))) { (more) " more" }
        }
    }
}

/// The newest certificate counts: those before it were replaced.
fn of_certificates(facts: &Facts, alerts: &mut Vec<Alert>) {
    let soon = facts.now + CERTIFICATE_SPAN;
    let (mut soonest, mut machines) = (Time(u64::MAX), Vec::new());
    for machine in facts.fleet.machines() {
        let ends = Time(machine.status.certificate_expires);
        if ends.0 > 0 && ends < soon && !machine.status.shut_out {
            soonest = soonest.min(ends);
            machines.push(machine.status.name.as_str());
        }
    }
    if let [first, ..] = machines.as_slice() {
        let verb = if soonest <= facts.now { "has ended or ends" } else { "ends" };
        let text = html! {
            "The certificate of " (names(facts, &machines, "")) " " (verb) " "
            (show::ago(soonest.0, facts.now))
            ": machines renew theirs by themselves while they are up. If it does not, let it join again:"
        };
        alerts.push(Alert::note(text, format!("bourg machine token {}", quoted(first))));
    }
    for user in facts.users.iter().flat_map(|users| &users.users) {
        let ends = user.certificates.iter().map(|certificate| certificate.expires).max();
        let Some(ends) = ends.map(Time).filter(|_| !user.shut_out) else { continue };
        if ends > facts.now && ends < soon {
            let place = Place::User { name: user.name.clone() };
            let text = html! {
                "The certificate of " (show::link(&facts.to(place), &user.name)) " ends "
                (show::ago(ends.0, facts.now)) ". An administrator issues another one:"
            };
            let name = quoted(&user.name);
            alerts.push(Alert::note(text, format!("bourg user add {name}")));
        }
    }
}

fn of_quota(facts: &Facts, alerts: &mut Vec<Alert>) {
    for band in facts.quota.iter().flat_map(|quota| &quota.bands) {
        let over = |of: Of| band.oversold.as_ref().map_or(0, |oversold| of.amount(oversold));
        let over: Vec<String> = Of::ALL
            .into_iter()
            .filter(|of| over(*of) > 0)
            .map(|of| match of {
                Of::Cpu => of.show(Some(over(of))),
                _ => format!("{} of {}", of.show(Some(over(of))), of.name()),
            })
            .collect();
        if !over.is_empty() {
            let text = html! {
                "Quota of the band " (word::<v1::Band>(band.band)) " is oversold by " (over.join(", "))
                ": more is granted than " (band.percent) " % of what the machines have."
            };
            alerts.push(Alert::note(text, "bourg quota show"));
        }
    }
}

fn of_backups(facts: &Facts, alerts: &mut Vec<Alert>) {
    for of in &facts.status.problems {
        let text = match (of.kind(), &facts.status.last_backup) {
            (v1::ProblemKind::BackupOld, Some(last)) => html! {
                "The last backup of the cell was saved " (show::ago(last.at, facts.now)) " by " (last.by) ":"
            },
            (v1::ProblemKind::NoBackup, _) => html! {
                "No backup of the cell was ever saved, and jobs of production are in it:"
            },
            _ => continue,
        };
        alerts.push(Alert::note(text, problem::next(of)));
    }
}

/// `1 invariant`, `2 invariants`.
fn counted(count: u64, one: &str, several: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {several}") }
}

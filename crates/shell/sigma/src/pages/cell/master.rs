//! The replicas of the master: who leads, how far each is, and which machines it polls.

use std::collections::BTreeMap;

use api::{v1, word};
use maud::{Markup, html};

use super::{Facts, history};
use crate::show;

/// How many machines a replica polls, and how many it does not reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Polls {
    polled: u32,
    not_reached: u32,
}

pub(super) fn shown(facts: &Facts) -> Markup {
    html! {
        h2 { "Master" }
        (work(history::samples(facts)))
        @match &facts.replicas {
            Some(answer) => {
                (summary(facts, answer))
                (table(facts, answer))
                p class="muted" { "The same as text: " (show::command("bourg master list")) }
            }
            None if facts.is_past() => {
                p class="notice" { "Of a past moment, the replicas of the master are not kept." }
            }
            None => p class="bad" { "Unknown: no replica has answered." },
        }
    }
}

/// What the replicas and the schedulers have done between the two newest samples.
fn work(samples: &[v1::CellSample]) -> Markup {
    let [.., before, newest] = samples else { return html! {} };
    let Some(work) = &newest.work else { return html! {} };
    let span = newest.time.saturating_sub(before.time);
    let every = span.saturating_mul(newest.machines_up.into()).checked_div(work.polls);
    let every = every.map(show::span);
    show::facts(vec![
        (
            "Polls",
            html! {
                (work.polls) " in " (show::span(span))
                @if let Some(every) = every { ": each machine every " (every) }
                @if work.polls_failed > 0 { ", " span class="bad" { (work.polls_failed) " failed" } }
            },
        ),
        (
            "Scheduler passes",
            html! {
                (work.proposals) " with a proposal in " (show::span(span)) ": "
                (work.accepted) " assignments accepted, " (work.rejected) " rejected"
            },
        ),
    ])
}

fn summary(facts: &Facts, answer: &v1::ReplicasResponse) -> Markup {
    let status = &facts.status;
    let heard = (status.machines_heard > 0).then_some(status.machines_heard);
    let mut all = vec![
        (
            "Leader",
            match answer.leader {
                0 => html! { span class="bad" { "none" } },
                leader => html! { "replica " (leader) ", term " (answer.term) },
            },
        ),
        ("Answered by", html! { "replica " (answer.answers) }),
        (
            "State",
            html! {
                span class="mono" title=(status.state_hash) { (short(&status.state_hash)) }
                ", level " (status.level)
            },
        ),
    ];
    if let Some(heard) = heard {
        let text = html! { (heard) " of " (status.machines_up) " that are up" };
        all.push(("Heard from since it leads", text));
    }
    show::facts(all)
}

/// As many digits of a digest as people compare.
fn short(digest: &str) -> &str {
    digest.get(..16).unwrap_or(digest)
}

/// By replica.
fn polls(facts: &Facts) -> BTreeMap<u64, Polls> {
    let mut polls: BTreeMap<u64, Polls> = BTreeMap::new();
    for machine in facts.fleet.machines() {
        if machine.status.polled_by > 0 {
            polls.entry(machine.status.polled_by).or_default().polled += 1;
        }
        for replica in &machine.status.not_reached_by {
            polls.entry(*replica).or_default().not_reached += 1;
        }
    }
    polls
}

fn table(facts: &Facts, answer: &v1::ReplicasResponse) -> Markup {
    let polls = polls(facts);
    let newest = answer.replicas.iter().filter_map(|replica| replica.progress.as_ref());
    let newest = newest.map(|progress| progress.index).max();
    html! {
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Replica" }
                th scope="col" { "Role" }
                th scope="col" { "Answers" }
                th scope="col" class="num" { "Index" }
                th scope="col" class="num" { "Behind" }
                th scope="col" class="num" { "Machines polled" }
                th scope="col" class="num" { "Not reached" }
                th scope="col" { "Address" }
            } }
            tbody { @for replica in &answer.replicas {
                @let progress = replica.progress.as_ref();
                @let behind = progress.zip(newest).map(|(own, newest)| newest.saturating_sub(own.index));
                @let Polls { polled, not_reached } = polls.get(&replica.id).copied().unwrap_or_default();
                tr {
                    th scope="row" { (replica.id) }
                    td { (role(answer, replica)) }
                    td { @match progress {
                        Some(progress) if progress.answers => { "yes" }
                        Some(_) => span class="bad" { "no" },
                        None => { "-" }
                    } }
                    td class="num" { @if let Some(progress) = progress { (progress.index) } @else { "-" } }
                    td class="num" { @if let Some(behind) = behind { (behind) } @else { "-" } }
                    td class="num" { (polled) }
                    td class=(if not_reached > 0 { "num bad" } else { "num" }) { (not_reached) }
                    td class="mono" { (replica.address) }
                }
            } }
        } }
    }
}

fn role(answer: &v1::ReplicasResponse, replica: &v1::ReplicaStatus) -> Markup {
    let member = word::<v1::MemberState>(replica.member);
    html! {
        @if replica.id == answer.leader { strong { "leader" } } @else { (member) }
        @if replica.leaving { ", leaving" }
    }
}

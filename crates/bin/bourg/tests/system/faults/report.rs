//! The report of a run.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::clients::{Probe, Shared, State};
use super::nemesis::Episode;
use super::plan::Kind;

/// Acknowledgements within this time count as immediate.
const PROMPT: Duration = Duration::from_secs(1);
/// For how long after the repair slow changes still count as caused by the fault.
const AFTER: Duration = Duration::from_secs(1);

/// A run.
pub(crate) struct Report(String);

impl Report {
    pub(crate) fn new(
        seed: u64,
        seconds: u64,
        episodes: &[Episode],
        started: usize,
        shared: &Shared,
    ) -> Self {
        let state = shared.state();
        let mut text = summary(seed, seconds, episodes, started, &state);
        text += &faults(episodes, &state);
        text += &operations(&state);
        if !state.wrong.is_empty() {
            text += "\nWhat is wrong:\n\n";
            for wrong in &state.wrong {
                text += &format!("```text\n{wrong}\n```\n");
            }
        }
        Self(text)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn summary(seed: u64, seconds: u64, episodes: &[Episode], started: usize, state: &State) -> String {
    let all: Vec<&Probe> = state.probes.iter().collect();
    let verdict = match state.wrong.len() {
        0 => {
            "nothing acknowledged was lost, every history is linearisable, nothing was done twice, \
              no task noticed, and the replicas are the same"
                .to_owned()
        }
        wrong => format!("**{wrong} things are wrong**"),
    };
    let mut in_peace = all.clone();
    in_peace.retain(|probe| !windows(episodes).any(|(_, window)| window.contains(&probe.at)));
    let mut took: Vec<Duration> = all.iter().filter_map(|probe| probe.took).collect();
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 1000).copied().unwrap_or_default();
    format!(
        "| | |\n|---|---|\n\
         | seed | {seed} |\n\
         | time | {seconds} s |\n\
         | faults | {} |\n\
         | verdict | {verdict} |\n\
         | jobs whose histories were judged | {} |\n\
         | tasks that were started, each once | {} |\n\
         | changes tried, every 100 ms | {} |\n\
         | of them acknowledged within 1 s | {} |\n\
         | of those at times without a fault | {} |\n\
         | those acknowledged took: median, 99 %, 99.9 % | {:.0?}, {:.0?}, {:.0?} |\n\
         | longest time without one | {:.1} s |\n",
        episodes.len(),
        state.judged,
        started,
        all.len(),
        share(&all),
        share(&in_peace),
        at(500),
        at(990),
        at(999),
        longest_pause(&state.probes).as_secs_f64(),
    )
}

/// Each fault with its time window: until a moment after its repair, or until the next.
fn windows(episodes: &[Episode]) -> impl Iterator<Item = (&Episode, Range<Duration>)> {
    let begins = episodes.iter().skip(1).map(|next| next.from).chain([Duration::MAX]);
    let windows = episodes.iter().zip(begins);
    windows.map(|(episode, next)| (episode, episode.from..next.min(episode.to + AFTER)))
}

fn share(probes: &[&Probe]) -> String {
    let prompt = probes.iter().filter(|probe| probe.took.is_some_and(|took| took <= PROMPT));
    match probes.len() {
        0 => "–".to_owned(),
        all => format!("{:.2} %", 100.0 * prompt.count() as f64 / all as f64),
    }
}

/// The longest time without an acknowledgement.
pub(super) fn longest_pause<'a>(probes: impl IntoIterator<Item = &'a Probe>) -> Duration {
    let probes: Vec<&Probe> = probes.into_iter().collect();
    let answered = probes.iter().filter_map(|probe| Some(probe.at + probe.took?));
    let begin = probes.iter().map(|probe| probe.at).min();
    let end = probes.iter().map(|probe| probe.at).max();
    let mut moments: Vec<Duration> = answered.chain(begin).chain(end).collect();
    moments.sort_unstable();
    let pauses = moments.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    pauses.max().unwrap_or_default()
}

fn faults(episodes: &[Episode], state: &State) -> String {
    let mut text =
        "\n| fault | times | acknowledged within 1 s | longest pause: median | worst |\n\
                    |---|--:|--:|--:|--:|\n"
            .to_owned();
    for kind in Kind::ALL {
        let of_kind: Vec<Range<Duration>> = windows(episodes)
            .filter_map(|(episode, window)| (episode.kind == kind).then_some(window))
            .collect();
        if of_kind.is_empty() {
            continue;
        }
        let mut pauses = Vec::new();
        let mut probes = Vec::new();
        for window in &of_kind {
            let its: Vec<&Probe> =
                state.probes.iter().filter(|probe| window.contains(&probe.at)).collect();
            pauses.push(longest_pause(its.iter().copied()));
            probes.extend(its);
        }
        pauses.sort_unstable();
        let (median, worst) = (pauses[pauses.len() / 2], pauses[pauses.len() - 1]);
        text += &format!(
            "| {} | {} | {} | {:.1} s | {:.1} s |\n",
            kind.says(),
            of_kind.len(),
            share(&probes),
            median.as_secs_f64(),
            worst.as_secs_f64(),
        );
    }
    text
}

fn operations(state: &State) -> String {
    let mut text = "\n| asked | outcome | times |\n|---|---|--:|\n".to_owned();
    for ((what, how), times) in &state.counts {
        text += &format!("| {what} | {how} | {times} |\n");
    }
    text
}

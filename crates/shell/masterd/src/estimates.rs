//! The thread that estimates what tasks need: every few seconds a round over the tasks of the
//! machines that this replica polls, from a view of the cell and their usage. The core gets the
//! reservations to record, and does nothing else for it.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use master::{Pace, Partition, Reclamation, Samples};
use model::Span;
use process::arguments::duration;
use replica::Input;

use crate::handle::Core;
use crate::message::Message;
use crate::metrics::EstimateMetrics;
use crate::usage::UsageMemory;
use crate::view::View;

/// Flags for the estimates of what tasks need.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Resource reclamation")]
pub struct ReclaimArgs {
    /// How often to estimate what tasks need.
    #[arg(long, default_value = "5s", value_parser = interval, value_name = "TIME")]
    reclaim_interval: Duration,
    /// How long after its start a task keeps its limit as its reservation.
    #[arg(long, default_value = "5m", value_parser = duration, value_name = "TIME")]
    reclaim_after: Duration,
    /// The half-life of the excess of a CPU reservation; that of RAM is eight times as long.
    #[arg(long, default_value = "15m", value_parser = half_life, value_name = "TIME")]
    reclaim_half_life: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    bounded(text, "an interval of estimates", Duration::from_millis(100), Duration::from_secs(60))
}

fn half_life(text: &str) -> Result<Duration, String> {
    bounded(text, "a half-life", Duration::from_millis(100), Duration::from_secs(7 * 86_400))
}

fn bounded(text: &str, what: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let given = duration(text)?;
    match (least..=most).contains(&given) {
        true => Ok(given),
        false => Err(format!("{what} is {} to {}", span(least), span(most))),
    }
}

fn span(time: Duration) -> Span {
    Span(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

impl ReclaimArgs {
    /// The settings of a master with these flags.
    pub(crate) fn settings(&self, others: master::Settings) -> master::Settings {
        let (after, half_life) = (span(self.reclaim_after), span(self.reclaim_half_life));
        let estimate_interval = span(self.reclaim_interval);
        master::Settings { estimate_interval, pace: Pace::new(after, half_life), ..others }
    }

    /// The same as flags of another process.
    pub fn flags(&self) -> Vec<(&'static str, String)> {
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        vec![
            ("reclaim-interval", millis(self.reclaim_interval)),
            ("reclaim-after", millis(self.reclaim_after)),
            ("reclaim-half-life", millis(self.reclaim_half_life)),
        ]
    }
}

/// The running thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Estimates {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What a round needs, and where its results go.
#[derive(Debug)]
struct Thread {
    core: Core,
    usage: Arc<UsageMemory>,
    metrics: Arc<EstimateMetrics>,
    reclamation: Reclamation,
    samples: Samples,
}

/// Starts the thread.
pub(crate) fn start(
    settings: &master::Settings,
    core: Core,
    usage: Arc<UsageMemory>,
    metrics: Arc<EstimateMetrics>,
) -> anyhow::Result<Estimates> {
    let interval = Duration::from_micros(settings.estimate_interval.0);
    let reclamation = Reclamation::new(settings.pace);
    let mut thread = Thread { core, usage, metrics, reclamation, samples: Samples::default() };
    let (stop, stopped) = mpsc::channel();
    let run = move || {
        while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            thread.round();
        }
    };
    let thread = std::thread::Builder::new().name("estimates".to_owned()).spawn(run);
    let thread = thread.context("cannot start the thread that estimates what tasks need")?;
    Ok(Estimates { stop: Some(stop), thread: Some(thread) })
}

impl Drop for Estimates {
    fn drop(&mut self) {
        self.stop = None;
        // If it panicked, its message is in the log.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

impl Thread {
    /// Makes a round, unless nobody would record its results.
    fn round(&mut self) {
        let view = self.core.view();
        let View { cell, spread, me, .. } = &*view;
        if !view.caught_up || view.leader.is_none() {
            return;
        }
        let begun = Instant::now();
        let gcu = |machine| cell.machine(machine).map(|machine| machine.gcu());
        self.samples.clear();
        self.usage.collect(gcu, begun, &mut self.samples);
        let partition = Partition { me: *me, spread: Arc::clone(spread) };
        let now = view.now();
        let estimated = self.reclamation.round(now, cell, &partition, &mut self.samples);
        let rejected = self.reclamation.rejected();
        self.metrics.round(begun.elapsed(), &estimated, rejected);
        if !estimated.reservations.is_empty() {
            // If the queue is full, the next round has them again.
            self.core.offer(Message::Input(Input::Reserve(estimated.reservations)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_the_flags() {
        let cases = [
            (interval as fn(&str) -> Result<Duration, String>, "5s", None),
            (interval, "100ms", None),
            (interval, "60s", None),
            (interval, "99ms", Some("an interval of estimates is 100 ms to 1 m")),
            (interval, "61s", Some("an interval of estimates is 100 ms to 1 m")),
            (half_life, "15m", None),
            (half_life, "0s", Some("a half-life is 100 ms to 7 d")),
            (half_life, "8d", Some("a half-life is 100 ms to 7 d")),
        ];
        for (parse, text, error) in cases {
            assert_eq!(parse(text).err().as_deref(), error, "{text}");
        }
    }
}

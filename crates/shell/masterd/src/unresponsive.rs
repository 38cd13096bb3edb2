//! How a master polls its machines, and what it does about those that do not answer.

use std::time::Duration;

use clap::Args;
use master::Share;
use model::Span;
use process::arguments::duration;

/// Flags for polling machines, and for machines that do not answer.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Machines that do not answer")]
pub struct SilenceArgs {
    /// How often to poll a machine that has nothing new to report.
    #[arg(long, default_value = "2s", value_parser = interval, value_name = "TIME")]
    poll_interval: Duration,
    /// After how many missed polls a machine is unreachable.
    #[arg(long, default_value_t = 5, value_name = "POLLS",
          value_parser = clap::value_parser!(u32).range(1..))]
    missed_polls: u32,
    /// How many tasks per second to take from unreachable machines and run elsewhere.
    #[arg(long, default_value_t = 10, value_name = "TASKS")]
    reschedule_rate: u32,
    /// How many tasks to take at once if none were taken for a while.
    #[arg(long, default_value_t = 100, value_name = "TASKS")]
    reschedule_burst: u32,
    /// Rescheduling stops by itself only if at least this many machines are unreachable at once.
    #[arg(long, default_value_t = 3, value_name = "MACHINES")]
    silent_machines: u32,
    /// And only if they are more than this share of those that were up.
    #[arg(long, default_value_t = Share::THIRD, value_name = "SHARE")]
    silent_share: Share,
}

/// A poll interval: long enough to leave a machine time for other things, and no longer than a
/// Borglet delays an answer.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    match (Duration::from_millis(10)..=Duration::from_secs(60)).contains(&interval) {
        true => Ok(interval),
        false => Err("a poll interval is 10ms to 60s".to_owned()),
    }
}

impl SilenceArgs {
    /// The master's settings.
    pub(crate) fn settings(&self) -> master::Settings {
        master::Settings {
            poll_interval: Span(u64::try_from(self.poll_interval.as_micros()).unwrap_or(u64::MAX)),
            missed_polls_max: self.missed_polls,
            reschedule_rate: self.reschedule_rate,
            reschedule_burst: self.reschedule_burst,
            silent_machines_min: self.silent_machines,
            silent_share_max: self.silent_share,
            ..master::Settings::default()
        }
    }

    /// The same as flags of another process.
    pub fn flags(&self) -> Vec<(&'static str, String)> {
        vec![
            ("poll-interval", format!("{}ms", self.poll_interval.as_millis())),
            ("missed-polls", self.missed_polls.to_string()),
            ("reschedule-rate", self.reschedule_rate.to_string()),
            ("reschedule-burst", self.reschedule_burst.to_string()),
            ("silent-machines", self.silent_machines.to_string()),
            ("silent-share", self.silent_share.to_string()),
        ]
    }
}

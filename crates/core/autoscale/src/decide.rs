//! From recommendations to a change of the limit: rarely, never to and fro, and with its reason.

use std::fmt;

use model::{Appclass, Permille, Time};
use spec::{Autoscale, CpuRam};

use crate::history::History;
use crate::recommend::{Recommendation, ScaledResource, out_of_memory, peak_and_decay, percentile};
use crate::settings::Settings;

/// A job as a decision sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Whether its limit may be changed, and in which bounds.
    pub autoscale: Autoscale,
    /// How its tasks are treated. What serves users gets the larger recommendation, batch the smaller.
    pub appclass: Appclass,
    /// CPU and RAM of the limit in force.
    pub limit: CpuRam,
    /// When the limit of this incarnation of the job was last changed; `None`: never.
    pub changed: Option<Time>,
}

/// A change of a limit, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The limit in force.
    pub from: CpuRam,
    /// The new one, within the job's bounds.
    pub to: CpuRam,
    /// Why CPU changes; `None` if it does not.
    pub cpu: Option<Recommendation>,
    /// Why RAM changes; `None` if it does not.
    pub ram: Option<Recommendation>,
}

impl Change {
    /// Whether a part of the limit rises.
    #[must_use]
    pub fn raises(&self) -> bool {
        self.to.exceeds(self.from)
    }
}

/// `ram 1 GiB → 100 MiB: percentile of 12 windows: 80 MiB used 5 min ago`, and the same for CPU.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("cpu", self.cpu), ("ram", self.ram)];
        let changes = parts.into_iter().filter_map(|(name, why)| Some((name, why?)));
        for (position, (name, why)) in changes.enumerate() {
            let (from, to) = (why.part.of(self.from), why.part.of(self.to));
            let separator = if position == 0 { "" } else { "; " };
            let (from, to) = (why.part.show(from), why.part.show(to));
            write!(f, "{separator}{name} {from} → {to}: {why}")?;
        }
        Ok(())
    }
}

/// The change that a job's limit needs now; `None` if it stays.
///
/// It rises if the recommendation, kept within the bounds, is more than the limit by
/// [`Settings::raise_from`], and falls if it is less by [`Settings::lower_from`]. It falls only if the
/// history goes back for [`Settings::warm_up`], and [`Settings::lower_every`] after the last change.
/// CPU and RAM are judged separately.
#[must_use]
pub fn decide(now: Time, job: &Job, history: &History, settings: &Settings) -> Option<Change> {
    let bounds = job.autoscale.bounds()?;
    let known = history.span(now) >= settings.warm_up;
    let rested = job.changed.is_none_or(|changed| now.since(changed) >= settings.lower_every);
    let mut change = Change { from: job.limit, to: job.limit, cpu: None, ram: None };
    for part in [ScaledResource::Cpu, ScaledResource::Ram] {
        let Some(why) = recommend(part, job.appclass, history, now, settings) else { continue };
        let is = part.of(job.limit);
        let mut amount = job.limit;
        part.set(&mut amount, why.needed.checked_next_multiple_of(part.unit()).unwrap_or(is));
        let wanted = part.of(amount.within(bounds));
        let least_raised = is.saturating_add(share(is, settings.raise_from).max(1));
        let most_lowered = is.saturating_sub(share(is, settings.lower_from).max(1));
        // A limit at its maximum rises by what is left.
        let at_most = wanted == part.of(bounds.1) && wanted > is;
        if wanted >= least_raised || at_most || wanted <= most_lowered && known && rested {
            part.set(&mut change.to, wanted);
            match part {
                ScaledResource::Cpu => change.cpu = Some(why),
                ScaledResource::Ram => change.ram = Some(why),
            }
        }
    }
    (change.to != change.from).then_some(change)
}

fn recommend(
    part: ScaledResource,
    appclass: Appclass,
    history: &History,
    now: Time,
    settings: &Settings,
) -> Option<Recommendation> {
    let peak = peak_and_decay(part, history, now, settings);
    let percentile = percentile(part, history, now, settings);
    let by_usage = match appclass {
        Appclass::LatencySensitive => {
            peak.into_iter().chain(percentile).max_by_key(|found| found.needed)
        }
        Appclass::Batch => peak.into_iter().chain(percentile).min_by_key(|found| found.needed),
    };
    let memory = match part {
        ScaledResource::Ram => out_of_memory(history, now, settings),
        ScaledResource::Cpu => None,
    };
    by_usage.into_iter().chain(memory).max_by_key(|found| found.needed)
}

fn share(of: u64, share: Permille) -> u64 {
    let share = u128::from(of) * u128::from(share.thousandths()) / 1_000;
    u64::try_from(share).unwrap_or(u64::MAX)
}

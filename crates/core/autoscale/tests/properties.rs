//! What holds for any usage: limits stay within bounds, follow memory upwards, and change seldom, however
//! usage behaves.

use model::{Appclass, Bytes, MilliCores, Span, Time};
use proptest::prelude::*;
use spec::{Autoscale, CpuRam};

use autoscale::{Change, History, Job, Settings, decide};

const MINUTES: u64 = 3 * 1_440;
/// The most changes of one job within 24 hours.
const CHANGES_A_DAY_MAX: usize = 60;

fn at(minutes: u64) -> Time {
    Time::ZERO + Span::from_secs(1_000_000 * 300 + 60 * minutes)
}

fn amount(cpu: u64, mib: u64) -> CpuRam {
    CpuRam { cpu: MilliCores(cpu), ram: Bytes(mib << 20) }
}

/// An adversary: the usage of each minute, which may depend on the limit in force.
#[derive(Clone, Debug)]
enum Usage {
    /// Low and high by turns, each for so many minutes.
    Square { minutes: u64, low: CpuRam, high: CpuRam },
    /// From low to high, and from the beginning again.
    Ramp { minutes: u64, low: CpuRam, high: CpuRam },
    /// Low, and high for one minute in so many.
    Spikes { minutes: u64, low: CpuRam, high: CpuRam },
    /// Just above the memory limit in every so many minutes: it runs out of memory at any limit.
    OutOfMemory { minutes: u64, low: CpuRam },
    /// Anything.
    Random(Vec<CpuRam>),
}

impl Usage {
    fn of(&self, minute: u64, limit: CpuRam) -> CpuRam {
        match self {
            Self::Square { minutes, low, high } => {
                if (minute / minutes).is_multiple_of(2) {
                    *low
                } else {
                    *high
                }
            }
            Self::Ramp { minutes, low, high } => {
                let part = |low: u64, high: u64| {
                    low + high.saturating_sub(low) * (minute % minutes) / minutes
                };
                CpuRam {
                    cpu: MilliCores(part(low.cpu.0, high.cpu.0)),
                    ram: Bytes(part(low.ram.0, high.ram.0)),
                }
            }
            Self::Spikes { minutes, low, high } => {
                if minute.is_multiple_of(*minutes) {
                    *high
                } else {
                    *low
                }
            }
            Self::OutOfMemory { minutes, low } => match minute % minutes {
                0 => CpuRam { cpu: low.cpu, ram: Bytes(limit.ram.0 + 1) },
                _ => *low,
            },
            Self::Random(amounts) => {
                amounts[usize::try_from(minute / 7).unwrap_or(0) % amounts.len()]
            }
        }
    }
}

fn amounts() -> impl Strategy<Value = CpuRam> + Clone {
    (0_u64..20_000, 0_u64..65_536).prop_map(|(cpu, mib)| amount(cpu, mib))
}

fn usage() -> impl Strategy<Value = Usage> {
    let minutes = 1_u64..2_000;
    let wave = (minutes.clone(), amounts(), amounts());
    prop_oneof![
        wave.clone().prop_map(|(minutes, low, high)| Usage::Square { minutes, low, high }),
        wave.clone().prop_map(|(minutes, low, high)| Usage::Ramp { minutes, low, high }),
        wave.prop_map(|(minutes, low, high)| Usage::Spikes { minutes, low, high }),
        (minutes, amounts()).prop_map(|(minutes, low)| Usage::OutOfMemory { minutes, low }),
        prop::collection::vec(amounts(), 1..200).prop_map(Usage::Random),
    ]
}

fn bounds() -> impl Strategy<Value = Autoscale> {
    let constrained = (1_u64..5_000, 4_u64..8_192, 0_u64..20_000, 0_u64..65_536).prop_map(
        |(cpu, mib, more_cpu, more_mib)| {
            let (min, max) = (amount(cpu, mib), amount(cpu + more_cpu, mib + more_mib));
            Autoscale::Constrained { min, max }
        },
    );
    prop_oneof![Just(Autoscale::Full), constrained]
}

/// All changes, with their times.
fn play(usage: &Usage, autoscale: Autoscale, appclass: Appclass) -> Vec<(Time, Change)> {
    let settings = Settings::default();
    let (min, max) = autoscale.bounds().expect("it is on");
    let mut history = History::new(Span::from_secs(300));
    let limit = amount(1_000, 1_024).within((min, max));
    let mut job = Job { autoscale, appclass, limit, changed: None };
    let mut changes: Vec<(Time, Change)> = Vec::new();
    for minute in 0..MINUTES {
        let (now, wanted) = (at(minute), usage.of(minute, job.limit));
        let used = CpuRam { cpu: wanted.cpu, ram: wanted.ram.min(job.limit.ram) };
        history.sample(now, now, used);
        if wanted.ram > job.limit.ram {
            history.ran_out_of_memory(now, job.limit.ram);
        }
        if let Some(change) = decide(now, &job, &history, &settings) {
            (job.limit, job.changed) = (change.to, Some(now));
            changes.push((now, change));
        }
        assert_eq!(job.limit.within((min, max)), job.limit, "within bounds");
        // Memory is never short of what was just used, except where the bounds say so.
        assert!(job.limit.ram >= used.ram.min(max.ram), "{} for {used}", job.limit);
    }
    changes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn limits_change_seldom_and_fall_only_when_nothing_changed_for_an_hour(
        (usage, autoscale, batch) in (usage(), bounds(), any::<bool>())
    ) {
        let appclass = if batch { Appclass::Batch } else { Appclass::LatencySensitive };
        let changes = play(&usage, autoscale, appclass);
        let settings = Settings::default();
        for pair in changes.windows(2) {
            let [(before, _), (at, change)] = pair else { continue };
            let (from, to) = (change.from, change.to);
            let falls = to.cpu < from.cpu || to.ram < from.ram;
            prop_assert!(!falls || at.since(*before) >= settings.lower_every, "{change}");
        }
        for (position, (at, _)) in changes.iter().enumerate() {
            let day = changes[position..].iter().take_while(|(other, _)| {
                other.since(*at) < Span::from_secs(86_400)
            });
            let count = day.count();
            prop_assert!(count <= CHANGES_A_DAY_MAX, "{count} changes in a day");
        }
    }

    #[test]
    fn the_same_history_gives_the_same_decision_and_off_gives_none(
        (usage, batch) in (usage(), any::<bool>())
    ) {
        let appclass = if batch { Appclass::Batch } else { Appclass::LatencySensitive };
        let mut history = History::new(Span::from_secs(300));
        for minute in 0..300 {
            history.sample(at(minute), at(minute), usage.of(minute, amount(1, 1)));
        }
        let job = |autoscale| Job { autoscale, appclass, limit: amount(50, 50), changed: None };
        let settings = Settings::default();
        let length = Span::from_secs(300);
        let again = History::from_text(&history.to_text(), length).expect("a history");
        let decided = |autoscale, history| decide(at(300), &job(autoscale), history, &settings);
        prop_assert_eq!(decided(Autoscale::Full, &history), decided(Autoscale::Full, &again));
        prop_assert_eq!(decided(Autoscale::Off, &history), None);
    }
}

/// With usage that does not change, the limit changes once, and then never again.
#[test]
fn steady_usage_settles() {
    for appclass in [Appclass::Batch, Appclass::LatencySensitive] {
        for (cpu, mib) in [(1, 1), (100, 200), (5_000, 50_000)] {
            let steady = Usage::Random(vec![amount(cpu, mib)]);
            let changes = play(&steady, Autoscale::Full, appclass);
            let late = changes.iter().filter(|(at_time, _)| *at_time > at(720)).count();
            assert_eq!(late, 0, "{appclass:?} {cpu} {mib}: {changes:?}");
        }
    }
}

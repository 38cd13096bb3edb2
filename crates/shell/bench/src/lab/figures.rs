//! The files of `bourg lab estimator`: CSV, and the paper's figures as SVG.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use chart::figure::{Axis, Figure, Line, Plot};
use lab::{Amounts, Cdf, Outcome, Slot};

use super::report::Replayed;

/// Writes the timeline, the distributions, the totals and the machines needed.
pub(crate) fn csv(directory: &Path, replayed: &Replayed) -> anyhow::Result<()> {
    let mut timeline = String::from(
        "machines,start_s,setting,running,limit_cpu_milli,reservation_cpu_milli,usage_cpu_milli,limit_ram_bytes,\
         reservation_ram_bytes,usage_ram_bytes,prod_limit_cpu_milli,prod_reservation_cpu_milli,prod_usage_cpu_milli,\
         prod_limit_ram_bytes,prod_reservation_ram_bytes,prod_usage_ram_bytes,ooms\n",
    );
    let mut distributions = String::from("setting,ratio,of_limit_permille,share_permille\n");
    for (kind, outcomes) in
        [("as-they-are", &replayed.as_they_are), ("memory-alone", &replayed.memory_alone)]
    {
        for slot in outcomes.iter().flat_map(|outcome| &outcome.timeline) {
            let amounts = |of: &[Amounts; 3]| {
                let [limit, reservation, used] = of;
                format!(
                    "{},{},{},{},{},{}",
                    limit.cpu, reservation.cpu, used.cpu, limit.ram, reservation.ram, used.ram
                )
            };
            writeln!(
                timeline,
                "{kind},{},{},{},{},{},{}",
                slot.at.as_millis() / 1_000,
                slot.setting,
                slot.running,
                amounts(&slot.all),
                amounts(&slot.production),
                slot.ooms
            )?;
        }
    }
    for outcome in &replayed.as_they_are {
        for (ratio, cdf) in named(outcome) {
            for (at, share) in cdf.points() {
                writeln!(distributions, "{},{ratio},{at},{share}", settings(outcome, "+"))?;
            }
        }
    }
    let mut needed = String::from("cell,tasks,setting,machines,machines_without\n");
    for cell in &replayed.compacted {
        for with in &cell.with {
            let name = cell.cell.replace(',', "");
            writeln!(
                needed,
                "{name},{},{},{},{}",
                cell.tasks, with.setting, with.machines, cell.without
            )?;
        }
    }
    write(directory, "timeline.csv", &timeline)?;
    write(directory, "distributions.csv", &distributions)?;
    write(directory, "machines.csv", &needed)
}

/// Writes figures 10, 11 and 12.
pub(crate) fn svg(directory: &Path, replayed: &Replayed, says: &str) -> anyhow::Result<()> {
    write(directory, "figure-11.svg", &distributions(replayed, says).svg())?;
    write(directory, "figure-12.svg", &timeline(replayed, says).svg())?;
    match replayed.compacted.is_empty() {
        true => Ok(()),
        false => write(directory, "figure-10.svg", &machines(replayed, says).svg()),
    }
}

fn write(directory: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = directory.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn named(outcome: &Outcome) -> [(&'static str, &Cdf); 4] {
    let cdfs = &outcome.cdfs;
    [
        ("CPU usage", &cdfs.cpu_usage),
        ("memory usage", &cdfs.ram_usage),
        ("CPU reservation", &cdfs.cpu_reservation),
        ("memory reservation", &cdfs.ram_reservation),
    ]
}

/// The settings of a replay.
fn settings(outcome: &Outcome, between: &str) -> String {
    let names: Vec<&str> = outcome.totals.iter().map(|(setting, _)| setting.name()).collect();
    names.join(between)
}

fn percent(end: u64, label: &str) -> Axis {
    Axis::new(label, end, 5, |permille| format!("{} %", permille / 10))
}

/// Figure 10: the share of cells that need at most so many more machines.
fn machines(replayed: &Replayed, says: &str) -> Figure {
    let mut lines: Vec<Line> = Vec::new();
    for with in replayed.compacted.iter().flat_map(|cell| &cell.with) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a percentage, at least 0"
        )]
        let more = (with.more_without_percent.max(0.0) * 10.0).round() as u64;
        let name = format!("with {}", with.setting);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((more, 0)),
            None => {
                let colour = lines.len();
                lines.push(Line { name, colour, dotted: false, points: vec![(more, 0)] });
            }
        }
    }
    for line in &mut lines {
        let mut more: Vec<u64> = line.points.iter().map(|(more, _)| *more).collect();
        more.sort_unstable();
        let all = more.len() as u64;
        let mut below = 0;
        line.points = vec![(0, 0)];
        for (at, number) in more.into_iter().zip(1..) {
            line.points.push((at, below));
            below = number * 1_000 / all.max(1);
            line.points.push((at, below));
        }
    }
    let most = lines.iter().flat_map(|line| &line.points).map(|(at, _)| *at).max().unwrap_or(0);
    Figure {
        title: "Figure 10: more machines without reclamation".to_owned(),
        subtitle: format!("Reservations: {says}"),
        plots: vec![Plot {
            title: format!("{} cells", replayed.compacted.len()),
            x: percent(most, "additional machines needed"),
            y: percent(1_000, "share of cells"),
            lines,
            bars: Vec::new(),
        }],
    }
}

/// Figure 11: usage and reservation by limit.
fn distributions(replayed: &Replayed, says: &str) -> Figure {
    let plots = replayed.as_they_are.iter().map(|outcome| {
        let lines = named(outcome).into_iter().zip([0, 1, 0, 1]).zip(0..);
        let lines = lines.map(|(((name, cdf), colour), nth)| Line {
            name: name.to_owned(),
            colour,
            dotted: nth < 2,
            points: cdf.points().into_iter().filter(|(at, _)| *at <= 1_500).collect(),
        });
        Plot {
            title: settings(outcome, ", "),
            x: percent(1_500, "of the limit"),
            y: percent(1_000, "share of tasks and windows"),
            lines: lines.collect(),
            bars: vec![(1_000, "limit".to_owned())],
        }
    });
    Figure {
        title: "Figure 11: usage and reservation by limit".to_owned(),
        subtitle: says.to_owned(),
        plots: plots.collect(),
    }
}

/// Figure 12: production's limits, reservations and usage, and would-be out-of-memory events.
fn timeline(replayed: &Replayed, says: &str) -> Figure {
    let slots = joined(&replayed.as_they_are);
    let minutes = |at: u64| at / 60;
    let end = slots.last().map_or(1, |(at, _)| minutes(*at) + 5);
    let hours = || Axis {
        label: "hours".to_owned(),
        end,
        marks: marks(end).into_iter().map(|at| (at, (at / 60).to_string())).collect(),
    };
    let mut bars: Vec<(u64, String)> = Vec::new();
    let mut last = None;
    for (at, slot) in &slots {
        // A replay of its own, or another setting.
        if last != Some(slot.setting) {
            bars.push((minutes(*at), slot.setting.name().to_owned()));
            last = Some(slot.setting);
        }
    }
    let of = |title: &str, pick: &dyn Fn(&Amounts) -> u128| {
        let whole = slots.iter().map(|(_, slot)| pick(&slot.production[0])).max().unwrap_or(0);
        let line = |name: &str, colour, nth: usize| Line {
            name: name.to_owned(),
            colour,
            dotted: false,
            points: slots
                .iter()
                .filter_map(|(at, slot)| {
                    let amount = pick(slot.production.get(nth)?) * 1_000;
                    let share = amount.checked_div(whole).unwrap_or(0);
                    Some((minutes(*at), u64::try_from(share).unwrap_or(u64::MAX)))
                })
                .collect(),
        };
        Plot {
            title: title.to_owned(),
            x: hours(),
            y: percent(1_000, "of production's limits"),
            lines: vec![line("limit", 5, 0), line("reservation", 1, 1), line("usage", 0, 2)],
            bars: bars.clone(),
        }
    };
    let memory = joined(&replayed.memory_alone);
    let events = |name: &str, colour, slots: &[(u64, Slot)]| Line {
        name: name.to_owned(),
        colour,
        dotted: false,
        points: slots.iter().map(|(at, slot)| (minutes(*at), slot.ooms)).collect(),
    };
    let most = slots.iter().chain(&memory).map(|(_, slot)| slot.ooms).max().unwrap_or(0);
    let ooms = Plot {
        title: "would-be out-of-memory events since the beginning".to_owned(),
        x: hours(),
        y: Axis::new("events", most, 5, |at| at.to_string()),
        lines: vec![
            events("machines as they are", 1, &slots),
            events("memory alone limits", 3, &memory),
        ],
        bars: bars.clone(),
    };
    Figure {
        title: "Figure 12: limits, reservations and usage, averaged over 5 minutes".to_owned(),
        subtitle: says.to_owned(),
        plots: vec![
            of("CPU of production", &|amounts| amounts.cpu),
            of("memory of production", &|amounts| amounts.ram),
            ooms,
        ],
    }
}

/// The slots of all replays, one after the other: seconds since the beginning of the first one.
/// Events are added up.
fn joined(outcomes: &[Outcome]) -> Vec<(u64, Slot)> {
    let mut joined: Vec<(u64, Slot)> = Vec::new();
    for outcome in outcomes {
        let (begin, before) = joined.last().map_or((0, 0), |(at, slot)| (at + 300, slot.ooms));
        for slot in &outcome.timeline {
            let at = begin + slot.at.as_millis() / 1_000;
            joined.push((at, Slot { ooms: before + slot.ooms, ..*slot }));
        }
    }
    joined
}

/// Marks of whole hours, at most 16.
fn marks(end: u64) -> Vec<u64> {
    let steps = [1, 2, 3, 6, 12, 24, 48, 168];
    let step = steps.into_iter().find(|hours| end / (hours * 60) <= 16).unwrap_or(1_000) * 60;
    (0..=end / step).map(|nth| nth * step).collect()
}

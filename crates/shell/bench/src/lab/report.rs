//! The results of `bourg lab estimator`, as JSON and as tables with the paper's numbers beside
//! them.

use command::output::table;
use lab::{Amounts, Cdf, Outcome, Totals};
use model::Reclamation;
use serde::Serialize;

use super::compaction::Compacted;
use super::estimator::Options;

/// What was replayed.
pub(crate) struct Replayed {
    /// On the machines as they are: one outcome for each schedule.
    pub(crate) as_they_are: Vec<Outcome>,
    /// On machines with CPU in abundance.
    pub(crate) memory_alone: Vec<Outcome>,
    /// Figure 10; empty if it was left out.
    pub(crate) compacted: Vec<Compacted>,
}

/// The results.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    usage: String,
    shape: Option<&'static str>,
    seed: u64,
    machines: usize,
    every_seconds: f64,
    settings: Vec<OfSetting>,
    /// The same where CPU limits nothing: the least favourable case for memory.
    memory_alone: Vec<OfSetting>,
    ratios: Vec<OfRatio>,
    machines_needed: Vec<Compacted>,
    paper: Vec<Compared>,
    not_carried: Vec<&'static str>,
}

/// The results of a setting.
#[derive(Clone, Debug, Serialize)]
struct OfSetting {
    setting: &'static str,
    /// Of the capacity.
    limit_percent: Pair,
    reservation_percent: Pair,
    usage_percent: Pair,
    /// The limits of production are the same with every setting. Of them:
    production_reservation_percent: Pair,
    production_usage_percent: Pair,
    /// What is between limits and reservations of production, and between reservations and usage;
    /// of the limits.
    production_reclaimed_percent: Pair,
    production_wasted_percent: Pair,
    work_in_reclaimed_percent: f64,
    task_hours: f64,
    ooms: u64,
    ooms_above_limit: u64,
    ooms_per_1000_task_hours: f64,
    /// Beside `off`; none if that was not replayed.
    more_than_off_per_1000_task_hours: Option<f64>,
    production_killed_within_limit: u64,
    placed: u64,
    preempted: u64,
    production_not_placed: u64,
    rejected_samples: u64,
    changes_of_reservations: u64,
    reservations_above_limit: u64,
    reservations_below_usage_after_a_round: u64,
}

/// CPU and memory.
#[derive(Clone, Copy, Debug, Serialize)]
struct Pair {
    cpu: f64,
    ram: f64,
}

/// Percentiles of a ratio to the limit, in percent.
#[derive(Clone, Debug, Serialize)]
struct OfRatio {
    setting: String,
    ratio: &'static str,
    p10: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    above_limit_percent: f64,
}

/// A number of the paper and ours.
#[derive(Clone, Debug, Serialize)]
struct Compared {
    what: &'static str,
    paper: &'static str,
    here: String,
}

/// What the data cannot show.
const NOT_CARRIED: [&str; 6] = [
    "how the usage of a task changes from window to window: the published rows that could be had are of one window \
     each, so diurnal cycle, wandering levels and growth are chosen",
    "the numbers of figures 10 to 12: the paper prints curves, and two numbers in the text",
    "whether usage of different tasks rises together, beside the cycle of a day",
    "what a task that is throttled or killed would have done next",
    "page cache, which can be given back before anybody is killed",
    "maxima of less than a tenth of a window, and which second of a window they are in",
];

impl Report {
    pub(crate) fn of(replayed: &Replayed, usage: &str, drawn: bool, options: &Options) -> Self {
        let settings = of_settings(&replayed.as_they_are);
        let memory_alone = of_settings(&replayed.memory_alone);
        let ratios = replayed.as_they_are.iter().flat_map(ratios).collect();
        let paper = compared(&settings, &memory_alone, &replayed.compacted);
        let not_carried = if drawn { NOT_CARRIED.to_vec() } else { NOT_CARRIED[2..].to_vec() };
        Self {
            usage: usage.to_owned(),
            shape: options.drawn_shape().map(lab::usage::Shape::name),
            seed: options.seed(),
            machines: replayed.as_they_are.first().map_or(0, |outcome| outcome.machines),
            every_seconds: options.every_seconds(),
            settings,
            memory_alone,
            ratios,
            machines_needed: replayed.compacted.clone(),
            paper,
            not_carried,
        }
    }

    /// The tables.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{}\n{} machines, rounds of {} s\n\nOf the capacity, CPU / memory:\n",
            self.usage, self.machines, self.every_seconds
        );
        let resources = |of: &[OfSetting]| {
            let headings =
                ["SETTING", "LIMITS", "RESERVATIONS", "USAGE", "PRODUCTION: RECLAIMED", "WASTED"];
            let rows = of.iter().map(|one| {
                vec![
                    one.setting.to_owned(),
                    one.limit_percent.shown(),
                    one.reservation_percent.shown(),
                    one.usage_percent.shown(),
                    one.production_reclaimed_percent.shown(),
                    one.production_wasted_percent.shown(),
                ]
            });
            table(&headings, rows.collect())
        };
        let events = |of: &[OfSetting]| {
            let headings = [
                "SETTING",
                "WORK IN RECLAIMED",
                "TASK-HOURS",
                "OOMS",
                "ABOVE LIMIT",
                "PER 1,000 TASK-HOURS",
                "MORE THAN OFF",
            ];
            let rows = of.iter().map(|one| {
                let more = one.more_than_off_per_1000_task_hours;
                vec![
                    one.setting.to_owned(),
                    format!("{:.1} %", one.work_in_reclaimed_percent),
                    format!("{:.0}", one.task_hours),
                    (one.ooms + one.ooms_above_limit).to_string(),
                    one.ooms_above_limit.to_string(),
                    format!("{:.3}", one.ooms_per_1000_task_hours),
                    more.map_or_else(|| "-".to_owned(), |more| format!("{more:.3}")),
                ]
            });
            table(&headings, rows.collect())
        };
        text += &resources(&self.settings);
        text += "Production's are of its limits.\n\n";
        text += &events(&self.settings);
        text += "\nThe same on machines with CPU in abundance, so that memory alone limits what is placed:\n";
        text += &events(&self.memory_alone);
        text += "\nRatios to the limit, as in figure 11:\n";
        let headings = ["SETTING", "RATIO", "10 %", "50 %", "90 %", "99 %", "ABOVE THE LIMIT"];
        let rows = self.ratios.iter().map(|one| {
            vec![
                one.setting.clone(),
                one.ratio.to_owned(),
                format!("{:.1}", one.p10),
                format!("{:.1}", one.p50),
                format!("{:.1}", one.p90),
                format!("{:.1}", one.p99),
                format!("{:.1} %", one.above_limit_percent),
            ]
        });
        text += &table(&headings, rows.collect());
        if !self.machines_needed.is_empty() {
            text += "\nMachines that a cell needs, as in figure 10:\n";
            let headings = ["CELL", "TASKS", "WITHOUT", "SETTING", "WITH", "MORE WITHOUT"];
            let rows = self.machines_needed.iter().flat_map(|cell| {
                cell.with.iter().map(|with| {
                    vec![
                        cell.cell.clone(),
                        cell.tasks.to_string(),
                        cell.without.to_string(),
                        with.setting.to_owned(),
                        with.machines.to_string(),
                        format!("{:.1} %", with.more_without_percent),
                    ]
                })
            });
            text += &table(&headings, rows.collect());
        }
        text += "\nBeside the paper:\n";
        let rows = self.paper.iter();
        let rows = rows.map(|one| vec![one.what.into(), one.paper.into(), one.here.clone()]);
        text += &table(&["WHAT", "PAPER", "HERE"], rows.collect());
        text += "\nWhat the data could not carry:\n";
        for one in &self.not_carried {
            text += &format!("- {one}\n");
        }
        text
    }
}

impl Pair {
    fn shown(self) -> String {
        format!("{:.1} / {:.1} %", self.cpu, self.ram)
    }
}

#[expect(clippy::cast_precision_loss, reason = "percentages, rounded for display")]
fn percent(part: u128, of: u128) -> f64 {
    let share = part as f64 * 100.0 / of.max(1) as f64;
    (share * 10.0).round() / 10.0
}

fn pair(part: Amounts, of: Amounts) -> Pair {
    Pair { cpu: percent(part.cpu, of.cpu), ram: percent(part.ram, of.ram) }
}

/// The difference, 0 where it would be negative: usage can be above a reservation.
fn less(one: Amounts, other: Amounts) -> Amounts {
    Amounts { cpu: one.cpu.saturating_sub(other.cpu), ram: one.ram.saturating_sub(other.ram) }
}

/// By setting, in the order in which they were first replayed; a setting that comes again in a
/// schedule has a row of its own.
fn of_settings(outcomes: &[Outcome]) -> Vec<OfSetting> {
    let totals: Vec<(Reclamation, Totals)> =
        outcomes.iter().flat_map(|outcome| outcome.totals.iter().copied()).collect();
    let rate = |totals: &Totals| totals.ooms_per_million_task_hours();
    let off = totals.iter().find(|(setting, _)| *setting == Reclamation::Off);
    let off = off.map(|(_, totals)| rate(totals));
    totals.iter().map(|(setting, totals)| of_setting(*setting, totals, off)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "rates and hours, rounded for display")]
fn of_setting(setting: Reclamation, totals: &Totals, off: Option<u64>) -> OfSetting {
    let [limit, reservation, used] = totals.all;
    let [prod_limit, prod_reservation, prod_used] = totals.production;
    let rate = totals.ooms_per_million_task_hours();
    let task_hours = totals.task_micros as f64 / 3.6e9;
    OfSetting {
        setting: setting.name(),
        limit_percent: pair(limit, totals.capacity),
        reservation_percent: pair(reservation, totals.capacity),
        usage_percent: pair(used, totals.capacity),
        production_reservation_percent: pair(prod_reservation, prod_limit),
        production_usage_percent: pair(prod_used, prod_limit),
        production_reclaimed_percent: pair(less(prod_limit, prod_reservation), prod_limit),
        production_wasted_percent: pair(less(prod_reservation, prod_used), prod_limit),
        work_in_reclaimed_percent: totals.reclaimed_permille() as f64 / 10.0,
        task_hours: task_hours.round(),
        ooms: totals.ooms,
        ooms_above_limit: totals.ooms_above_limit,
        ooms_per_1000_task_hours: rate as f64 / 1e3,
        more_than_off_per_1000_task_hours: off.map(|off| (rate as f64 - off as f64) / 1e3),
        production_killed_within_limit: totals.production_killed,
        placed: totals.placed,
        preempted: totals.preempted,
        production_not_placed: totals.unplaced,
        rejected_samples: totals.rejected,
        changes_of_reservations: totals.changes,
        reservations_above_limit: totals.above_limit,
        reservations_below_usage_after_a_round: totals.below_usage,
    }
}

#[expect(clippy::cast_precision_loss, reason = "percentages, rounded for display")]
fn ratios(outcome: &Outcome) -> Vec<OfRatio> {
    let names: Vec<&str> = outcome.totals.iter().map(|(setting, _)| setting.name()).collect();
    let cdfs = &outcome.cdfs;
    let of = |ratio: &'static str, cdf: &Cdf| {
        let at = |share: u64| cdf.percentile(share) as f64 / 10.0;
        let points = cdf.points();
        let within = points.iter().find(|(ratio, _)| *ratio == 1_000).map_or(0, |(_, sum)| *sum);
        OfRatio {
            setting: names.join(","),
            ratio,
            p10: at(100),
            p50: at(500),
            p90: at(900),
            p99: at(990),
            above_limit_percent: 1_000_u64.saturating_sub(within) as f64 / 10.0,
        }
    };
    vec![
        of("CPU usage", &cdfs.cpu_usage),
        of("CPU reservation", &cdfs.cpu_reservation),
        of("memory usage", &cdfs.ram_usage),
        of("memory reservation", &cdfs.ram_reservation),
    ]
}

fn compared(of: &[OfSetting], memory: &[OfSetting], compacted: &[Compacted]) -> Vec<Compared> {
    let by_setting = |of: &[OfSetting], show: &dyn Fn(&OfSetting) -> String| {
        let each: Vec<String> =
            of.iter().map(|one| format!("{} {}", one.setting, show(one))).collect();
        each.join(", ")
    };
    let work = |one: &OfSetting| format!("{:.1} %", one.work_in_reclaimed_percent);
    let ooms = |one: &OfSetting| format!("{:.3}", one.ooms_per_1000_task_hours);
    let mut compared = vec![
        Compared {
            what: "work in reclaimed resources (5.5)",
            paper: "about 20 % in a median cell",
            here: by_setting(of, &work),
        },
        Compared {
            what: "out-of-memory events per 1,000 task-hours (figure 12)",
            paper: "no number: \"increased slightly\" with medium and aggressive",
            here: format!("{}; memory alone: {}", by_setting(of, &ooms), by_setting(memory, &ooms)),
        },
    ];
    let mut more: Vec<(&str, Vec<f64>)> = Vec::new();
    for with in compacted.iter().flat_map(|cell| &cell.with) {
        match more.iter_mut().find(|(setting, _)| *setting == with.setting) {
            Some((_, all)) => all.push(with.more_without_percent),
            None => more.push((with.setting, vec![with.more_without_percent])),
        }
    }
    if !more.is_empty() {
        let each = more.iter_mut().map(|(setting, all)| {
            all.sort_by(f64::total_cmp);
            let [first, .., last] = all.as_slice() else {
                return format!("{setting} {:.1} %", all.first().copied().unwrap_or(0.0));
            };
            let median = all.get(all.len() / 2).copied().unwrap_or(0.0);
            format!("{setting} {median:.1} % (median; {first:.1} to {last:.1})")
        });
        compared.push(Compared {
            what: "more machines without reclamation (figure 10)",
            paper: "\"many more\", a curve over 15 cells",
            here: each.collect::<Vec<_>>().join(", "),
        });
    }
    compared
}

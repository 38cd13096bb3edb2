//! The smallest change with which all pending tasks fit: what is found is compared with every change there is, each
//! tried by submitting the changed job to a copy of the cell and placing its tasks one after the other.

use cell::Cell;
use cell::feasibility::CountedAt;
use expect_test::expect;
use model::{Band, CollectionId, Dimension, Random, TaskIndex, TaskSelection, Time};
use placement::why::{Change, for_all, preemption};
use placement::{Engine, Kept, Settings, shapes, why};

use super::{apply, cell};

const NOW: Time = Time(1_000_000);
/// A job asks for at least so much memory.
const LEAST_MIB: u64 = 4;

/// A job as a line of a script, without what a change leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    tasks: u32,
    priority: u32,
    cpu: u64,
    ram: u64,
    constraint: bool,
    per_machine: Option<u32>,
    per_switch: Option<u32>,
}

impl Asked {
    fn line(&self) -> String {
        let Self { tasks, priority, cpu, ram, .. } = self;
        let maximum = |name: &str, most: Option<u32>| {
            most.map(|most| format!(" {name}={most}")).unwrap_or_default()
        };
        format!(
            "submit ana/wants {tasks} priority={priority} cpu={cpu} ram={ram}{}{}{}",
            if self.constraint { " on=gpu=h200" } else { "" },
            maximum("per-machine", self.per_machine),
            maximum("per-switch", self.per_switch),
        )
    }

    fn with(&self, change: &[Change]) -> Self {
        let mut asked = self.clone();
        for part in change {
            match part {
                Change::Less { dimension: Dimension::Cpu, to, .. } => asked.cpu = *to,
                Change::Less { to, .. } => asked.ram = *to >> 20,
                Change::Without(_) => asked.constraint = false,
                Change::HigherMaximum { place: CountedAt::Machine, to, .. } => {
                    asked.per_machine = Some(*to);
                }
                Change::HigherMaximum { place: CountedAt::Switch, to, .. } => {
                    asked.per_switch = Some(*to);
                }
            }
        }
        asked
    }

    /// How many of its tasks a scheduler places.
    fn placed(&self, before: &Cell) -> u32 {
        let mut cell = before.clone();
        apply(&mut cell, &self.line());
        let job = cell.jobs().last().expect("the job");
        let mut engine = Engine::new(&cell, Settings::default());
        engine.begin_pass(&cell, NOW);
        let place = |index: u32| {
            let index = TaskIndex(index);
            let class = engine.join(&cell, job, index);
            engine.place(&cell, class, job.instance(index)?, NOW)
        };
        let placed = (0..self.tasks).map_while(place).count();
        u32::try_from(placed).expect("few")
    }

    /// Every change that is tried, with its cost.
    fn changes(&self) -> Vec<(u64, Vec<Change>)> {
        let cpu = |to| Change::Less { dimension: Dimension::Cpu, from: self.cpu, to };
        let ram = |to: u64| Change::Less {
            dimension: Dimension::Ram,
            from: self.ram << 20,
            to: to << 20,
        };
        let singles: Vec<Change> =
            (1..self.cpu).map(cpu).chain((LEAST_MIB..self.ram).map(ram)).collect();
        let mut all: Vec<Vec<Change>> = singles.iter().map(|less| vec![less.clone()]).collect();
        for of_cpu in 1..32 {
            for of_ram in 1..32 {
                let less_ram = self.ram * of_ram / 32;
                if less_ram >= LEAST_MIB {
                    all.push(vec![cpu(self.cpu * of_cpu / 32), ram(less_ram)]);
                }
            }
        }
        // What a maximum costs does not depend on how high it is: a very high one stands for all.
        let raised = [(CountedAt::Machine, self.per_machine), (CountedAt::Switch, self.per_switch)];
        let raised: Vec<Change> = raised
            .into_iter()
            .filter_map(|(place, from)| {
                let from = from?;
                Some(Change::HigherMaximum { place, from, to: from + 12 })
            })
            .collect();
        all.extend(raised.iter().map(|higher| vec![higher.clone()]));
        for higher in &raised {
            all.extend(singles.iter().map(|less| vec![less.clone(), higher.clone()]));
        }
        if raised.len() == 2 {
            all.push(raised.clone());
        }
        if self.constraint {
            let job = cell("", &self.line());
            let job = job.job(CollectionId(1)).expect("the job");
            let dropped = Change::Without(job.spec.task.constraints[0].clone());
            all.push(vec![dropped.clone()]);
            let others = singles.iter().chain(&raised);
            all.extend(others.map(|other| vec![dropped.clone(), other.clone()]));
        }
        let mut all: Vec<(u64, Vec<Change>)> =
            all.into_iter().map(|change| (change.iter().map(cost).sum(), change)).collect();
        all.sort_by_key(|(cost, _)| *cost);
        all
    }
}

fn cost(change: &Change) -> u64 {
    match change {
        Change::Less { from, to, .. } => ((from - to) * 1_000_000).div_ceil(*from),
        Change::HigherMaximum { .. } => 1_000_000,
        Change::Without(_) => 2_000_000,
    }
}

/// The same change with each of its maxima lower by one.
fn lower_maxima(change: &[Change]) -> Vec<Vec<Change>> {
    let mut found = Vec::new();
    for place in 0..change.len() {
        let mut lower = change.to_vec();
        if let Some(Change::HigherMaximum { to, .. }) = lower.get_mut(place) {
            *to -= 1;
            found.push(lower);
        }
    }
    found
}

/// A cell of a few machines of two switches, with tasks on some of them.
fn drawn(random: &mut Random) -> (Cell, Asked) {
    let mut below = |most: u64| random.below(most);
    let machines = 1 + below(4);
    let mut lines = String::new();
    for machine in 0..machines {
        let (cpu, ram) = (40 + below(120), 40 + below(120));
        let gpu = if below(2) == 0 { " is=gpu:h200" } else { "" };
        let switch = below(2);
        lines += &format!(
            "machine m{machine} cpu={cpu} ram={ram} ports=none is=switch:s{switch}{gpu}\n"
        );
    }
    let mut cell = cell(&lines, "");
    for job in 0..below(3) {
        let (cpu, ram) = (1 + below(40), LEAST_MIB + below(40));
        let machine = below(machines);
        // Where it does not fit, the machine stays as it is.
        let filled = format!("submit ana/fill{job} 1 priority=200 cpu={cpu} ram={ram}");
        apply(&mut cell, &filled);
        apply(&mut cell, &format!("assign {}-0-1 m{machine}", job + 1));
    }
    let maximum = |drawn: u64| (drawn > 0).then(|| u32::try_from(drawn).expect("small"));
    let asked = Asked {
        tasks: u32::try_from(1 + below(6)).expect("small"),
        priority: if below(2) == 0 { 200 } else { 110 },
        cpu: 33 + below(32),
        ram: 33 + below(32),
        constraint: below(3) == 0,
        per_machine: maximum(below(3)),
        per_switch: maximum(below(4)),
    };
    (cell, asked)
}

#[test]
fn the_change_that_is_found_makes_all_fit_and_no_smaller_one_does() {
    let mut random = Random::new(7);
    let (mut found_some, mut found_none) = (0, 0);
    for number in 0..150 {
        let (before, asked) = drawn(&mut random);
        let mut with_job = before.clone();
        apply(&mut with_job, &asked.line());
        let job = with_job.jobs().last().expect("the job");
        let groups = why(&with_job, job, &TaskSelection::All, NOW).groups;
        let all = for_all(&with_job, job, &groups[0], &Kept::in_cell(&with_job, NOW));
        assert_eq!(all.fit, asked.placed(&before), "cell {number}: {asked:?}");
        if all.fit == asked.tasks {
            assert!(all.change.is_empty(), "cell {number}: {asked:?}: {all:?}");
            continue;
        }
        let fits = |change: &[Change]| asked.with(change).placed(&before) == asked.tasks;
        let smallest = asked.changes().into_iter().find(|(_, change)| fits(change));
        let expected = smallest.as_ref().map(|(cost, _)| *cost);
        let is = (!all.change.is_empty()).then(|| all.change.iter().map(cost).sum::<u64>());
        assert_eq!(is, expected, "cell {number}: {asked:?}: {all:?} and {smallest:?}");
        match is {
            Some(_) => {
                assert!(fits(&all.change), "cell {number}: {asked:?}: {all:?}");
                for lower in lower_maxima(&all.change) {
                    assert!(!fits(&lower), "cell {number}: {asked:?}: {all:?} and {lower:?}");
                }
                found_some += 1;
            }
            None => found_none += 1,
        }
    }
    assert!(found_some > 50 && found_none > 10, "{found_some} and {found_none}");
}

#[test]
fn the_change_for_all_is_shown_with_both_of_its_fields() {
    let explained = |machines: &str, jobs: &str| {
        let cell = cell(machines, jobs);
        let job = cell.jobs().last().expect("the job");
        let groups = why(&cell, job, &TaskSelection::All, NOW).groups;
        let all = for_all(&cell, job, &groups[0], &Kept::in_cell(&cell, NOW));
        let change: Vec<String> = all.change.iter().map(ToString::to_string).collect();
        format!("{} of {} fit; {}\n", all.fit, all.tasks, change.join(" and "))
    };
    let three = "machine m1 cpu=4000 ram=8192 ports=none
         machine m2 cpu=4000 ram=8192 ports=none
         machine m3 cpu=3500 ram=7680 ports=none";
    let shown = explained(three, "submit ana/web 2 priority=200 cpu=4000 ram=8192")
        + &explained(three, "submit ana/web 3 priority=200 cpu=4000 ram=8192")
        + &explained(three, "submit ana/web 6 priority=200 cpu=1000 ram=4096")
        + &explained(three, "submit ana/web 6 priority=200 cpu=1000 ram=1024 per-machine=1")
        + &explained(three, "submit ana/web 1 priority=200 cpu=1000 ram=1024 on=gpu=h200")
        + &explained(three, "submit ana/web 100000 priority=200 cpu=1000 ram=1024");
    expect![[r#"
        2 of 2 fit; 
        2 of 3 fit; cpu 4 cores → 3.5 cores and ram 8 GiB → 7.5 GiB
        5 of 6 fit; ram 4 GiB → 3.7 GiB
        3 of 6 fit; maxPerMachine 1 → 2
        0 of 1 fit; without gpu = "h200"
        11 of 100000 fit; 
    "#]]
    .assert_eq(&shown);
}

/// Every machine is looked at several times, and no trial looks at every task of the cell.
#[test]
#[expect(clippy::disallowed_methods, reason = "it is measured that this takes no minutes")]
fn a_large_cell_is_searched_in_a_moment() {
    let machine = |number: u32| {
        let (cpu, ram) = (4_000 + number % 7 * 1_000, 8_192 + number % 5 * 4_096);
        format!("machine m{number} cpu={cpu} ram={ram} ports=none is=switch:s{}\n", number / 40)
    };
    let machines: String = (0..12_583).map(machine).collect();
    let cell =
        cell(&machines, "submit ana/wants 5000 priority=200 cpu=9000 ram=20000 per-switch=40");
    let job = cell.jobs().last().expect("the job");
    let begun = std::time::Instant::now();
    let groups = why(&cell, job, &TaskSelection::All, NOW).groups;
    let explained = begun.elapsed();
    let all = for_all(&cell, job, &groups[0], &Kept::in_cell(&cell, NOW));
    let searched = begun.elapsed();
    let evictions = preemption(&cell, job, &groups[0], &Kept::in_cell(&cell, NOW));
    let preempted = begun.elapsed();
    let bands = shapes(&cell, &Band::ALL, NOW).len();
    let counted = begun.elapsed();
    println!(
        "{explained:?}, {searched:?}, {preempted:?}, {counted:?}: {all:?} {evictions:?} {bands}"
    );
    assert!(all.fit < all.tasks && !all.change.is_empty(), "{all:?}");
    assert!(counted < std::time::Duration::from_secs(20), "it took {counted:?}");
}

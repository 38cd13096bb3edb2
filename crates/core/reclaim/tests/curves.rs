//! Reservations over curves of usage, as tables. A task of 1,000 milli-cores and 1,000 MiB uses the
//! same number of both. It starts at 0 s, there is a sample every 5 s, and a round at each. A
//! table shows for each setting the reservation in force, in milli-cores and in MiB, and how many
//! changes were recorded.

use std::num::NonZeroUsize;

use expect_test::{Expect, expect};
use model::{
    Bytes, CollectionId, Generation, InstanceId, MilliCores, Reclamation, Resources, Span,
    TaskIndex, Time,
};
use reclaim::{Estimator, Pace, Sample, Task};

const EVERY: u64 = 5;
const SETTINGS: [Reclamation; 3] =
    [Reclamation::Baseline, Reclamation::Medium, Reclamation::Aggressive];

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(1_000_000 + seconds)
}

fn amounts(number: u64) -> Resources {
    Resources { cpu: MilliCores(number), ram: Bytes(number << 20), ..Resources::default() }
}

/// A task and its estimator; what is recorded is in force at once.
struct Incarnation {
    estimator: Estimator,
    task: Task,
    changes: u32,
}

impl Incarnation {
    fn new() -> Self {
        let instance = InstanceId {
            collection: CollectionId(1),
            index: TaskIndex(0),
            generation: Generation(1),
        };
        let task = Task {
            instance,
            limit: amounts(1_000),
            started: Some(at(0)),
            reservation: amounts(1_000),
            newest_sample: None,
            sample: None,
        };
        Self { estimator: Estimator::new(Pace::default(), NonZeroUsize::MIN), task, changes: 0 }
    }

    /// A round with what the task uses; none if its machine is silent.
    fn round(&mut self, setting: Reclamation, seconds: u64, used: Option<u64>) {
        if let Some(used) = used {
            let Resources { cpu, ram, .. } = amounts(used);
            self.task.sample = Some(Sample { at: at(seconds), cpu: Some(cpu), ram: Some(ram) });
        }
        let round = self.estimator.round(setting, at(seconds), [self.task]);
        for change in round.changes {
            self.task.reservation = change.reservation;
            self.task.newest_sample = change.newest_sample;
            self.changes += 1;
        }
    }

    fn shown(&self) -> String {
        let Resources { cpu, ram, .. } = self.task.reservation;
        format!("{:>4} {:>4}", cpu.0, ram.0.div_ceil(1 << 20))
    }
}

/// The table of a curve at the given seconds.
fn check(curve: impl Fn(u64) -> Option<u64>, rows: &[u64], expected: &Expect) {
    let mut incarnations = SETTINGS.map(|setting| (setting, Incarnation::new()));
    let mut table = "time   usage   baseline     medium  aggressive\n".to_owned();
    let last = rows.last().copied().expect("a row");
    for seconds in (0..=last).step_by(usize::try_from(EVERY).expect("small")) {
        let used = curve(seconds);
        for (setting, incarnation) in &mut incarnations {
            incarnation.round(*setting, seconds, used);
        }
        if rows.contains(&seconds) {
            let [baseline, medium, aggressive] =
                incarnations.each_ref().map(|(_, incarnation)| incarnation.shown());
            let used = used.map_or("-".to_owned(), |used| used.to_string());
            table += &format!("{seconds:<5} {used:>6}  {baseline}  {medium}   {aggressive}\n");
        }
    }
    let [baseline, medium, aggressive] =
        incarnations.each_ref().map(|(_, incarnation)| incarnation.changes);
    table += &format!("changes       {baseline:>9}  {medium:>9}   {aggressive:>9}\n");
    expected.assert_eq(&table);
}

#[test]
fn a_constant_usage_is_approached_slowly_after_the_warm_up() {
    let rows = [0, 295, 300, 305, 600, 1_200, 3_900, 7_500, 14_700, 86_400];
    check(
        |_| Some(200),
        &rows,
        &expect![[r#"
            time   usage   baseline     medium  aggressive
            0        200  1000 1000  1000 1000   1000 1000
            295      200  1000 1000  1000 1000   1000 1000
            300      200  1000 1000  1000 1000   1000 1000
            305      200  1000 1000  1000 1000   1000 1000
            600      200   899  987   898  987    848  980
            1200     200   698  951   696  952    646  943
            3900     200   448  860   346  799    296  789
            7500     200   366  710   308  699    245  639
            14700    200   361  560   301  498    241  438
            86400    200   360  410   300  348    240  288
            changes              20         22          24
        "#]],
    );
}

#[test]
fn a_ramp_takes_the_reservation_along() {
    let rows = [300, 3_600, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000];
    check(
        |seconds| Some((seconds / 10).min(900)),
        &rows,
        &expect![[r#"
            time   usage   baseline     medium  aggressive
            300       30  1000 1000  1000 1000   1000 1000
            3600     360   544  832   448  823    393  802
            4000     400   594  823   498  809    443  786
            5000     500   745  807   648  783    543  762
            6000     600   845  845   748  776    644  747
            7000     700  1000 1000   898  898    744  744
            8000     800  1000 1000  1000 1000    894  894
            9000     900  1000 1000  1000 1000   1000 1000
            changes              24         26          27
        "#]],
    );
}

#[test]
fn a_spike_is_covered_at_once_and_forgotten_slowly() {
    let curve = |seconds| Some(if (10_000..10_060).contains(&seconds) { 600 } else { 100 });
    let rows = [9_995, 10_000, 10_055, 10_060, 10_120, 10_900, 11_800, 13_600, 17_200];
    check(
        curve,
        &rows,
        &expect![[r#"
            time   usage   baseline     medium  aggressive
            9995     100   231  544   181  526    131  501
            10000    600   880  880   780  780    680  680
            10055    600   880  880   780  780    680  680
            10060    100   880  880   780  780    680  680
            10120    100   880  880   780  780    680  680
            10900    100   577  831   528  741    428  640
            11800    100   427  790   378  703    278  597
            13600    100   277  698   228  618    178  536
            17200    100   237  598   186  518    135  436
            changes              34         34          34
        "#]],
    );
}

#[test]
fn a_sawtooth_keeps_the_reservation_near_its_peaks() {
    let rows = [300, 3_000, 3_600, 4_195, 4_200, 36_000, 36_600, 37_195, 37_200];
    check(
        |seconds| Some(100 + seconds % 600 / 2),
        &rows,
        &expect![[r#"
            time   usage   baseline     medium  aggressive
            300      250  1000 1000  1000 1000   1000 1000
            3000     100   597  920   498  874    449  842
            3600     100   610  846   498  874    449  811
            4195     397   610  823   519  824    449  782
            4200     100   610  823   519  824    449  782
            36000    100   610  610   489  574    449  449
            36600    100   610  610   489  574    449  449
            37195    397   610  610   489  574    449  449
            37200    100   610  610   489  574    449  449
            changes             123         16         127
        "#]],
    );
}

#[test]
fn an_idle_task_that_takes_its_limit_gets_it_at_once() {
    let curve = |seconds| Some(if seconds < 20_000 { 0 } else { 1_000 });
    let rows = [300, 3_900, 19_995, 20_000, 20_005, 23_600];
    check(
        curve,
        &rows,
        &expect![[r#"
            time   usage   baseline     medium  aggressive
            300        0  1000 1000  1000 1000   1000 1000
            3900       0   197  782   142  753     89  724
            19995      0   101  280    60  202     20  172
            20000   1000  1000 1000  1000 1000   1000 1000
            20005   1000  1000 1000  1000 1000   1000 1000
            23600   1000  1000 1000  1000 1000   1000 1000
            changes              27         29          30
        "#]],
    );
}

#[test]
fn noise_makes_few_records() {
    // 300 ± 60, from a generator of the MINSTD kind.
    let curve = |seconds: u64| {
        let drawn = (seconds / EVERY + 1) * 48_271 % 2_147_483_647 * 48_271 % 2_147_483_647;
        Some(240 + drawn % 121)
    };
    let rows = [300, 3_900, 7_500, 43_200, 86_400];
    check(
        curve,
        &rows,
        &expect![[r#"
            time   usage   baseline     medium  aggressive
            300      327  1000 1000  1000 1000   1000 1000
            3900     251   548  876   499  872    407  812
            7500     296   562  775   488  722    410  712
            43200    335   553  575   467  521    412  461
            86400    245   553  575   467  521    395  411
            changes              15         17          20
        "#]],
    );
}

#[test]
fn a_usage_above_the_limit_reserves_no_more_than_the_limit() {
    let rows = [0, 300, 600, 3_600];
    check(
        |_| Some(1_700),
        &rows,
        &expect![[r#"
            time   usage   baseline     medium  aggressive
            0       1700  1000 1000  1000 1000   1000 1000
            300     1700  1000 1000  1000 1000   1000 1000
            600     1700  1000 1000  1000 1000   1000 1000
            3600    1700  1000 1000  1000 1000   1000 1000
            changes               0          0           0
        "#]],
    );
}

#[test]
fn a_silent_task_goes_back_to_its_limit_at_a_bounded_rate() {
    let curve = |seconds| (!(20_000..22_000).contains(&seconds)).then_some(100);
    let rows = [
        19_995, 20_055, 20_060, 20_090, 20_120, 20_300, 20_500, 20_600, 21_995, 22_000, 22_900,
        25_600,
    ];
    check(
        curve,
        &rows,
        &expect![[r#"
            time   usage   baseline     medium  aggressive
            19995    100   231  394   180  326    130  301
            20055      -   231  394   180  326    130  301
            20060      -   231  394   230  354    180  311
            20090      -   289  404   280  404    230  361
            20120      -   339  454   330  454    280  411
            20300      -   639  754   630  754    580  711
            20500      -  1000 1000   930 1000    872 1000
            20600      -  1000 1000  1000 1000   1000 1000
            21995      -  1000 1000  1000 1000   1000 1000
            22000    100  1000 1000  1000 1000   1000 1000
            22900    100   645  943   595  934    590  934
            25600    100   294  795   244  776    189  752
            changes              52         56          59
        "#]],
    );
}

#[test]
fn a_setting_is_changed_live() {
    let mut incarnation = Incarnation::new();
    let mut shown = String::new();
    let periods = [
        Reclamation::Baseline,
        Reclamation::Aggressive,
        Reclamation::Medium,
        Reclamation::Baseline,
        Reclamation::Off,
        Reclamation::Medium,
    ];
    let mut seconds = 0;
    for setting in periods {
        incarnation.round(setting, seconds, Some(400));
        shown += &format!("{setting:<10}  {} at once, ", incarnation.shown());
        for _ in 0..24 * 3_600 / EVERY {
            seconds += EVERY;
            incarnation.round(setting, seconds, Some(400));
        }
        shown += &format!("{} after a day\n", incarnation.shown());
    }
    expect![[r#"
        baseline    1000 1000 at once,  620  647 after a day
        aggressive   620  647 at once,  460  474 after a day
        medium       540  540 at once,  540  540 after a day
        baseline     620  620 at once,  620  620 after a day
        off         1000 1000 at once, 1000 1000 after a day
        medium      1000 1000 at once,  540  547 after a day
    "#]]
    .assert_eq(&shown);
}

#[test]
fn a_limit_is_changed_in_place() {
    let mut incarnation = Incarnation::new();
    let mut shown = String::new();
    let mut seconds = 0;
    for limit in [1_000, 500, 200, 3_000] {
        incarnation.task.limit = amounts(limit);
        // As the cell does it: a reservation never counts for more than the limit.
        incarnation.task.reservation = incarnation.task.reservation.least(incarnation.task.limit);
        incarnation.round(Reclamation::Medium, seconds, Some(300));
        shown += &format!("limit {limit:>4}: {} at once, ", incarnation.shown());
        for _ in 0..24 * 3_600 / EVERY {
            seconds += EVERY;
            incarnation.round(Reclamation::Medium, seconds, Some(300));
        }
        shown += &format!("{} after a day\n", incarnation.shown());
    }
    expect![[r#"
        limit 1000: 1000 1000 at once,  420  470 after a day
        limit  500:  420  421 at once,  395  415 after a day
        limit  200:  200  200 at once,  200  200 after a day
        limit 3000:  540  540 at once,  540  540 after a day
    "#]]
    .assert_eq(&shown);
}

//! When the data of ended instances is saved, tried again, and given up.

use model::SaverOutcome;
use spec::Saver;

use super::*;
use crate::{
    ATTEMPT_TIME_MAX, KEPT_DATA_MAX, KeptData, RecoveredAttempt, RecoveredData, SAVERS_MAX,
};

const INTERVAL: u64 = 10_000;
const LIMIT: u64 = 600_000;

/// A task whose data is saved by `copy INDEX`.
fn saved(index: u32) -> Desired {
    let mut desired = sized(index, 64);
    let cmd = vec!["copy".to_owned(), "${task.index}".to_owned()];
    Arc::make_mut(&mut desired.spec).saver = Some(Saver::of(cmd));
    desired
}

fn kept(index: u32, now: Time) -> KeptData {
    let launch = Launch::new(saved(index), None, 200_000 + index);
    let end = End::Exited { code: 3 };
    KeptData::of_task(&launch, None, &end, now).expect("it has a saver")
}

/// The data of a task of another user.
fn kept_of(user: &str, index: u32, now: Time) -> KeptData {
    let mut desired = saved(index);
    desired.user = UserName::new(user).expect("a name");
    let end = End::Exited { code: 3 };
    KeptData::of_task(&Launch::new(desired, None, 200_000 + index), None, &end, now)
        .expect("it has a saver")
}

impl World {
    /// A world that begins to keep the data of a task.
    fn keeps(index: u32) -> (Self, String) {
        let mut world = Self::new();
        let said = world.keep(index);
        (world, said)
    }

    fn keep(&mut self, index: u32) -> String {
        let kept = kept(index, self.now);
        self.input(Input::Kept(Box::new(kept)))
    }

    fn fails(&mut self, index: u32) -> String {
        self.input(Input::SaverEnded(instance(index), Err("exit code 1".to_owned())))
    }

    fn keep_of(&mut self, user: &str, index: u32) -> String {
        self.now = self.now + Span::from_millis(1);
        let kept = kept_of(user, index, self.now);
        self.input(Input::Kept(Box::new(kept)))
    }

    /// Those that are kept, by index.
    fn still_kept(&self) -> Vec<u32> {
        let report = self.borglet.report();
        let kept = report.machine.saving.iter().filter(|saving| saving.outcome.is_none());
        kept.map(|saving| saving.instance.index.0).collect()
    }

    /// What is reported: instance, attempts, and what became of it.
    fn saving(&self) -> String {
        let one = |saving: &model::Saving| {
            let outcome = match &saving.outcome {
                None => "kept".to_owned(),
                Some(outcome) => outcome.to_string(),
            };
            format!("{} ×{} {outcome}", saving.instance.index, saving.attempts)
        };
        let report = self.borglet.report();
        report.machine.saving.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Ticks exactly when one is due, at most so often; returns the effects other than measuring.
    fn ticks(&mut self, most: usize) -> String {
        let mut said = Vec::new();
        for _ in 0..most {
            let Some(next) = self.borglet.next_tick() else { break };
            assert!(next > self.now, "it would spin");
            self.now = next;
            said.extend(Some(self.input(Input::Tick)).filter(|said| !said.is_empty()));
        }
        said.join(", ")
    }
}

#[test]
fn a_saver_runs_at_once_and_again_until_it_succeeds() {
    let (mut world, said) = World::keeps(0);
    assert_eq!(said, "measure 1-0-1, save 1-0-1 [copy 0] as 200000, attempt 1");
    assert_eq!(world.saving(), "0 ×1 kept");
    assert_eq!(world.keep(0), "", "it is kept once");
    assert_eq!(world.fails(0), "measure 1-0-1", "it may have deleted a part");
    assert_eq!(world.after(INTERVAL - 1), "");
    assert_eq!(world.after(1), "save 1-0-1 [copy 0] as 200000, attempt 2");
    world.fails(0);
    assert_eq!(world.after(INTERVAL), "save 1-0-1 [copy 0] as 200000, attempt 3");
    assert_eq!(world.input(Input::SaverEnded(instance(0), Ok(()))), "1-0-1 saved");
    assert_eq!(world.saving(), "0 ×3 saved");
    assert_eq!(world.ticks(10), "", "that is all");
    let settled = Order { settled: vec![instance(0)], ..order(7, Vec::new()) };
    let mut effects = Vec::new();
    world.borglet.obey(world.now, settled, &mut effects).expect("a newer order");
    assert_eq!(words(&effects), "persist 7, forget 1-0-1");
    assert_eq!(world.saving(), "");
}

#[test]
fn an_order_ends_savers_that_run_and_those_that_wait() {
    let (mut world, _) = World::keeps(0);
    world.keep(1);
    world.fails(1);
    let by = UserName::new("root").expect("a name");
    let ends = [0, 1, 7].map(|index| (instance(index), by.clone()));
    let ending = Order { saver_ends: Arc::new(ends.into()), ..order(7, Vec::new()) };
    let mut effects = Vec::new();
    world.borglet.obey(world.now, ending.clone(), &mut effects).expect("a newer order");
    let said = "given up: root has ended it (1 attempt, the last: exit code 1)";
    assert_eq!(words(&effects), format!("persist 7, kill the saver of 1-0-1, 1-1-1 {said}"));
    effects.clear();
    world.borglet.obey(world.now, ending, &mut effects).expect("the same order");
    assert_eq!(words(&effects), "", "once");
    let ended = world.input(Input::SaverEnded(instance(0), Err("signal 9".to_owned())));
    assert_eq!(ended, "1-0-1 given up: root has ended it (1 attempt, the last: signal 9)");
}

#[test]
fn kept_data_is_not_forgotten() {
    let (mut world, _) = World::keeps(0);
    let settled = Order { settled: vec![instance(0)], ..order(7, Vec::new()) };
    let mut effects = Vec::new();
    world.borglet.obey(world.now, settled, &mut effects).expect("a newer order");
    assert_eq!(words(&effects), "persist 7");
    assert_eq!(world.saving(), "0 ×1 kept");
}

#[test]
fn data_is_given_up_when_its_time_is_over() {
    let (mut world, _) = World::keeps(0);
    world.fails(0);
    world.now = world.now + Span::from_millis(LIMIT - 5_000);
    assert_eq!(world.input(Input::Tick), "save 1-0-1 [copy 0] as 200000, attempt 2");
    assert_eq!(world.after(5_000), "kill the saver of 1-0-1", "the one that still runs");
    assert_eq!(world.after(4_999), "");
    assert_eq!(world.after(1), "kill the saver of 1-0-1", "and again while it is there");
    let said = "given up: it did not succeed within 10 m (2 attempts, the last: signal 9)";
    let ended = world.input(Input::SaverEnded(instance(0), Err("signal 9".to_owned())));
    assert_eq!(ended, format!("1-0-1 {said}"));
    assert_eq!(world.saving(), format!("0 ×2 {said}"));
    assert_eq!(world.ticks(10), "");
}

#[test]
fn a_saver_that_succeeds_while_being_killed_has_succeeded() {
    let (mut world, _) = World::keeps(0);
    assert_eq!(world.after(LIMIT), "kill the saver of 1-0-1");
    assert_eq!(world.input(Input::SaverEnded(instance(0), Ok(()))), "1-0-1 saved");
}

#[test]
fn the_oldest_data_is_given_up_for_lack_of_room() {
    let settings = Settings { kept_data: Bytes(100 << 20), ..Settings::default() };
    let borglet = Borglet::new(settings, machine(1 << 20), Stamp::default(), vec![], vec![]);
    let mut world = World { borglet, now: Time(1_000_000) };
    for index in 0..3 {
        world.keep(index);
        world.fails(index);
        world.now = world.now + Span::from_millis(1);
    }
    let measured = |world: &mut World, index, mib: u64| {
        world.input(Input::DataMeasured(instance(index), Bytes(mib << 20)))
    };
    assert_eq!(measured(&mut world, 0, 40), "");
    assert_eq!(measured(&mut world, 1, 40), "");
    let said = measured(&mut world, 2, 40);
    let why = "given up: its machine keeps at most 100 MiB of such data, and ana has most of it";
    assert_eq!(said, format!("1-0-1 {why} (1 attempt, the last: exit code 1)"));
    assert_eq!(measured(&mut world, 1, 20), "", "the rest has room");
    let said = measured(&mut world, 2, 101);
    assert_eq!(
        said.matches("given up").count(),
        2,
        "what is too large is given up by itself: {said}"
    );
}

#[test]
fn kept_data_and_running_savers_of_a_machine_are_bounded() {
    let mut world = World::new();
    let many = u32::try_from(KEPT_DATA_MAX).expect("a small number") + 1;
    let (mut running, mut last) = (0, String::new());
    for index in 0..many {
        last = world.keep(index);
        running += last.matches("save ").count();
        world.now = world.now + Span::from_millis(1);
    }
    assert_eq!(running, 4, "half of all, for one user");
    assert!(last.ends_with("kill the saver of 1-0-1"), "the oldest, once it has ended: {last}");
    let ended = world.input(Input::SaverEnded(instance(0), Err("signal 9".to_owned())));
    assert!(ended.contains("1-0-1 given up: its machine keeps the data of at most 100"), "{ended}");
    assert!(ended.contains("save 1-4-1 [copy 4]"), "the next one starts: {ended}");
}

#[test]
fn the_user_with_most_kept_data_loses_the_oldest() {
    let mut world = World::new();
    let max = u32::try_from(KEPT_DATA_MAX).expect("a small number");
    // Production's data is the oldest of all.
    for index in 0..3 {
        world.keep_of("prod", index);
        world.fails(index);
    }
    for index in 3..max + 200 {
        world.keep_of("mal", index);
        world.fails(index);
        let kept = world.still_kept();
        assert!(kept.len() <= KEPT_DATA_MAX && kept.starts_with(&[0, 1, 2]), "{kept:?}");
    }
    // The same by bytes.
    let settings = Settings { kept_data: Bytes(100 << 20), ..Settings::default() };
    let borglet = Borglet::new(settings, machine(1 << 20), Stamp::default(), vec![], vec![]);
    let mut world = World { borglet, now: Time(1_000_000) };
    for (user, index, mib) in [("prod", 0, 40), ("mal", 1, 30), ("mal", 2, 20), ("mal", 3, 30)] {
        world.keep_of(user, index);
        world.fails(index);
        world.input(Input::DataMeasured(instance(index), Bytes(mib << 20)));
    }
    assert_eq!(world.still_kept(), [0, 2, 3]);
    let full = crate::DiskReport {
        size: crate::DiskAmount { bytes: Bytes(1 << 40), files: 0 },
        reserve: crate::DiskAmount { bytes: Bytes(1 << 28), files: 0 },
        ..crate::DiskReport::default()
    };
    world.input(Input::Disk(full));
    assert_eq!(world.still_kept(), [0, 3], "whose data is most loses it on a full disk, too");
}

#[test]
fn a_greedy_user_leaves_savers_for_others_who_come_first_then() {
    let mut world = World::new();
    let ours = |said: &str| said.matches("save ").count();
    let began: usize = (0..20).map(|index| ours(&world.keep_of("mal", index))).sum();
    assert_eq!(began, 4, "half of {SAVERS_MAX}");
    for (index, user) in (20..).zip(["prod", "ben"]) {
        assert_eq!(ours(&world.keep_of(user, index)), 1, "{user} finds one free");
    }
    assert_eq!(ours(&world.keep_of("mal", 30)), 0);
    // When one ends, the user with the fewest running savers is next, not the oldest data.
    let said = world.keep_of("eva", 31);
    assert_eq!(ours(&said), 1, "{said}");
    let waits = world.keep_of("kim", 32);
    assert_eq!(ours(&waits), 0, "all parts are taken: {waits}");
    let said = world.fails(0);
    assert!(said.contains("save 1-32-1"), "{said}");
    assert_eq!(ours(&said), 1, "{said}");
}

#[test]
fn an_attempt_has_a_time_of_its_own() {
    let mut desired = saved(0);
    let limit = ATTEMPT_TIME_MAX + ATTEMPT_TIME_MAX + Span::from_secs(20);
    let saver = Saver { time_limit: limit, ..Saver::of(vec!["sleep".to_owned()]) };
    Arc::make_mut(&mut desired.spec).saver = Some(saver);
    let mut world = World::new();
    let launch = Launch::new(desired, None, 200_000);
    let kept = KeptData::of_task(&launch, None, &End::Stopped, world.now).expect("a saver");
    world.input(Input::Kept(Box::new(kept)));
    assert_eq!(world.borglet.next_tick(), Some(world.now + ATTEMPT_TIME_MAX));
    assert_eq!(world.ticks(1), "kill the saver of 1-0-1");
    assert_eq!(world.ticks(1), "kill the saver of 1-0-1", "again while it is there");
    assert_eq!(world.fails(0), "measure 1-0-1", "its data is kept");
    assert_eq!(world.ticks(1), "save 1-0-1 [sleep] as 200000, attempt 2");
    assert_eq!(world.ticks(1), "kill the saver of 1-0-1");
    world.fails(0);
    let said = world.ticks(1);
    assert!(said.contains("the last: killed after 15 m, the maximum of one attempt"), "{said}");
}

#[test]
fn a_full_disk_gives_up_data_if_no_task_exceeds_its_request() {
    let (mut world, _) = World::keeps(0);
    world.fails(0);
    let full = crate::DiskReport {
        size: crate::DiskAmount { bytes: Bytes(1 << 40), files: 0 },
        reserve: crate::DiskAmount { bytes: Bytes(1 << 28), files: 0 },
        ..crate::DiskReport::default()
    };
    let said = world.input(Input::Disk(full));
    assert!(said.starts_with("1-0-1 given up: the disk of its machine is full"), "{said}");
}

#[test]
fn the_next_borglet_goes_on_where_the_last_one_was() {
    let now = Time(1_000_000);
    let attempts = |index, attempts| KeptData { attempts, ..kept(index, now) };
    let found = |kept, attempt| RecoveredData { kept, attempt };
    let table = [
        (
            "it had not begun",
            found(attempts(0, 0), RecoveredAttempt::None),
            "save 1-0-1 [copy 0] as 200000, attempt 1",
        ),
        (
            "nothing is known of the last",
            found(attempts(0, 1), RecoveredAttempt::None),
            "save 1-0-1 [copy 0] as 200000, attempt 2",
        ),
        (
            "the last failed",
            found(attempts(0, 1), RecoveredAttempt::Ended(Err(String::new()))),
            "save 1-0-1 [copy 0] as 200000, attempt 2",
        ),
        (
            "the last succeeded",
            found(attempts(0, 1), RecoveredAttempt::Ended(Ok(()))),
            "1-0-1 saved",
        ),
        (
            "it runs",
            found(attempts(0, 1), RecoveredAttempt::Running { uid: 200_000 }),
            "measure 1-0-1",
        ),
        (
            "it was saved",
            found(
                KeptData { outcome: Some(SaverOutcome::Saved), ..attempts(0, 1) },
                RecoveredAttempt::None,
            ),
            "",
        ),
    ];
    for (what, found, expected) in table {
        let settings = Settings::default();
        let borglet = Borglet::new(settings, machine(1 << 20), Stamp::default(), vec![], vec![]);
        let mut world = World { borglet: borglet.with_data(now, vec![found]), now };
        assert_eq!(world.borglet.report().machine.saving.len(), 1, "{what}");
        let said = world.after(1);
        let said = said.strip_prefix("measure 1-0-1, ").unwrap_or(&said);
        assert_eq!(said, expected, "{what}");
    }
    let borglet = Borglet::new(Settings::default(), machine(1), Stamp::default(), vec![], vec![]);
    let over = now + Span::from_millis(LIMIT);
    let late = found(attempts(0, 7), RecoveredAttempt::None);
    let mut world = World { borglet: borglet.with_data(over, vec![late]), now: over };
    let said = world.input(Input::Tick);
    assert!(
        said.ends_with("1-0-1 given up: it did not succeed within 10 m (7 attempts)"),
        "{said}"
    );
}

#[test]
fn a_user_id_stays_with_the_data_until_it_is_gone() {
    let mut world = World::new();
    let first = world.obey(1, vec![saved(0)]);
    assert!(first.contains("as 200000"), "{first}");
    world.input(Input::Started(instance(0)));
    world.keep(0);
    world.input(Input::Ended(instance(0), End::Exited { code: 0 }, FinalUsage::UNMEASURED));
    world.obey(2, Vec::new());
    assert!(world.obey(3, vec![sized(1, 64)]).contains("as 200001"));
    world.input(Input::SaverEnded(instance(0), Ok(())));
    assert!(world.obey(4, vec![sized(1, 64), sized(2, 64)]).contains("as 200000"));
}

#[test]
fn the_next_borglet_does_not_reuse_the_user_of_a_running_saver() {
    let now = Time(1_000_000);
    // The data of an alloc belongs to several users: its saver has one of its own.
    let kept = KeptData { uid: None, attempts: 1, ..kept(0, now) };
    let attempt = RecoveredAttempt::Running { uid: 200_000 };
    let borglet =
        Borglet::new(Settings::default(), machine(1 << 20), Stamp::default(), vec![], vec![]);
    let found = vec![RecoveredData { kept, attempt }];
    let mut world = World { borglet: borglet.with_data(now, found), now };
    assert!(world.obey(1, vec![sized(1, 64)]).contains("as 200001"));
}

#[test]
fn a_saver_is_told_its_tasks_end_and_nothing_obsolete() {
    let mut desired = saved(3);
    let spec = Arc::make_mut(&mut desired.spec);
    spec.env.insert("TARGET".to_owned(), "logs/${task.index}".to_owned());
    spec.api = true;
    let launch = Launch::new(desired, None, 1);
    let kept =
        KeptData::of_task(&launch, None, &End::Exited { code: 3 }, Time(7)).expect("a saver");
    let lines: Vec<String> =
        kept.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let expected = [
        "BORG_CELL=dev",
        "BORG_USER=ana",
        "BORG_JOB=web",
        "BORG_TASK=3",
        "BORG_TASKS=4",
        "PORT_HTTP=31003",
        "PORT=31003",
        "TARGET=logs/3",
        "BOURG_END=exit code 3",
        "BOURG_EXIT_CODE=3",
    ];
    assert_eq!(lines, expected);
    assert_eq!(kept.name, "ana/web/3");
    let not_started = End::NotStarted { reason: "no such file".to_owned() };
    assert_eq!(KeptData::of_task(&launch, None, &not_started, Time(7)), None);
    let unsaved = Launch::new(sized(0, 64), None, 1);
    assert_eq!(KeptData::of_task(&unsaved, None, &End::Stopped, Time(7)), None);
}

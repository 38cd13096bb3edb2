//! Stories of a scheduler's process: what arrives when, and what it does. The master is a cell of its own, whose
//! records arrive when a line says so.

use cell::{Assignment, Cell, Op, Outcome};
use expect_test::{Expect, expect};
use follower::{Effect, Follower, Input, Proposal};
use model::{CellCopy, LogIndex, RestoreEpoch, Span, Term, Time};
use script::Script;

/// The time of a story's millisecond 0.
const BEGIN: Time = Time(1_000_000);
const TERM: Term = Term(7);

/// The master, and the process that follows it.
struct Story {
    master: Cell,
    /// Records that are on their way.
    records: Vec<(LogIndex, Time, Op)>,
    follower: Follower,
    proposal: Option<Proposal>,
    now: Time,
}

impl Story {
    /// A cell with a machine of one core and one of half a core.
    fn begin() -> Self {
        let mut script = Script::on(Cell::empty());
        for line in [
            "at 1",
            "bootstrap test root",
            "machine m1 cpu=1000 ram=1000 ports=none",
            "machine m2 cpu=500 ram=500 ports=none",
        ] {
            script.command(line).expect("a command");
        }
        let (master, follower) = (script.cell().clone(), Follower::default());
        Self { master, records: Vec::new(), follower, proposal: None, now: BEGIN }
    }

    fn is(&self) -> CellCopy {
        CellCopy { index: self.master.index(), term: TERM, restore_epoch: RestoreEpoch::NEVER }
    }

    fn commit(&mut self, op: Op) -> Outcome {
        let outcome = self.master.apply(self.now, &op).outcome;
        self.records.push((self.master.index(), self.now, op));
        outcome
    }

    /// A line: the millisecond, what arrives, and more about that.
    fn line(&mut self, line: &str) -> String {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (at, what, more) = (word(), word(), word());
        self.now = BEGIN + Span::from_millis(at.parse().expect("milliseconds"));
        let number = || more.parse().expect("a number");
        let inputs = match what {
            "tick" => Vec::new(),
            "loading" => vec![Input::Loading],
            "loaded" => {
                self.records.clear();
                vec![Input::Loaded(Box::new(self.master.clone()), self.is())]
            }
            "resumed" => vec![Input::Resumed],
            "disconnected" => vec![Input::Disconnected],
            "unreadable" => vec![Input::Unreadable],
            "undecided" => vec![Input::Undecided { number: number() }],
            "rejected" => vec![Input::Decided { number: number(), rejected: true }],
            // Something happens in the cell; the records are on their way.
            "cell" => {
                let mut script = Script::on(self.master.clone());
                for step in script.command(more).unwrap_or_else(|error| panic!("{error}")) {
                    self.commit(step.op);
                }
                Vec::new()
            }
            // The master decides about the last proposal.
            "decided" => {
                let Proposal { number, enabled, assignments, .. } =
                    self.proposal.take().expect("a proposal");
                if !enabled.is_empty() {
                    let by = model::SchedulerName::main();
                    self.commit(Op::Enable { by, enabled });
                }
                let outcome = self.commit(Op::assign(assignments));
                let Outcome::Assigned(judged) = outcome else { panic!("{outcome:?}") };
                let rejected = judged.iter().any(Result::is_err);
                match more {
                    "unheard" => Vec::new(),
                    _ => vec![Input::Decided { number, rejected }],
                }
            }
            "records" => {
                let records = self.records.drain(..).map(|(index, at, op)| Input::Record {
                    index,
                    term: TERM,
                    operation: Some((at, op)),
                });
                records.collect()
            }
            "lost-record" => {
                self.records.remove(0);
                Vec::new()
            }
            _ => panic!("{line}"),
        };
        let mut text = String::new();
        for input in inputs {
            if let Err(error) = self.follower.take_in(self.now, input) {
                text += &format!("  {error}\n");
            }
        }
        if what == "tick" { text + &self.tick() } else { text }
    }

    fn tick(&mut self) -> String {
        let mut text = match self.follower.tick(self.now) {
            None => String::new(),
            Some(Effect::Follow { attempt, has }) => {
                let has = has.map(|has| has.index.to_string());
                format!("  follow {attempt}, has {}\n", has.as_deref().unwrap_or("nothing"))
            }
            Some(Effect::Propose(proposal)) => {
                let shown = |one: &Assignment| format!(" {} on m{}", one.instance, one.machine);
                let all: String = proposal.assignments.iter().map(shown).collect();
                let enabled = proposal.enabled.iter();
                let enabled: String = enabled
                    .map(|one| format!(" {} of job {} enabled", one.tasks, one.job))
                    .collect();
                let text = format!("  propose {}:{enabled}{all}\n", proposal.number);
                self.proposal = Some(proposal);
                text
            }
        };
        if let Some(next) = self.follower.next_tick() {
            assert!(
                next > self.now,
                "it is due at {next:?} at once after a tick at {:?}",
                self.now
            );
            text += &format!("  next {}\n", next.since(BEGIN).0 / 1_000);
        }
        text
    }
}

/// Tells a story, and compares what the process does with what is expected.
fn told(lines: &[&str], expected: &Expect) {
    let mut story = Story::begin();
    let told = lines.iter().map(|line| format!("{line}\n{}", story.line(line)));
    expected.assert_eq(&told.collect::<String>());
}

const WEB: &str = "0 cell submit ana/web 1 priority=200 cpu=100 ram=100";

#[test]
fn a_follower_enables_what_waits_in_the_queue_and_places_it_once_that_is_committed() {
    told(
        &[
            "0 cell queueing",
            "0 cell submit ana/load 3 priority=110 appclass=batch cpu=600 ram=100",
            "0 tick",
            "1 loaded",
            "1 tick",
            "2 cell submit ana/web 1 priority=200 cpu=100 ram=100",
            "3 undecided 1",
            "3 tick",
            "23 records",
            "24 tick",
            "25 decided",
            "26 records",
            "27 tick",
            "28 decided",
            "29 records",
            "30 tick",
            "40 cell ended 1-0-1 exit 0",
            "41 records",
            "42 tick",
        ],
        &expect![[r#"
            0 cell queueing
            0 cell submit ana/load 3 priority=110 appclass=batch cpu=600 ram=100
            0 tick
              follow 0, has nothing
            1 loaded
            1 tick
              propose 1: 2 of job 1 enabled
              next 10001
            2 cell submit ana/web 1 priority=200 cpu=100 ram=100
            3 undecided 1
            3 tick
              next 23
            23 records
            24 tick
              propose 2: 2 of job 1 enabled 2-0-1 on m2
              next 10024
            25 decided
            26 records
            27 tick
              propose 3: 1-0-1 on m1
              next 10027
            28 decided
            29 records
            30 tick
              next 10030
            40 cell ended 1-0-1 exit 0
            41 records
            42 tick
              propose 4: 1 of job 1 enabled 1-1-1 on m1
              next 10042
        "#]],
    );
}

#[test]
fn a_follower_proposes_and_waits_for_the_next_record() {
    told(
        &[
            WEB,
            "0 tick",
            "1 loaded",
            "1 tick",
            "3 records",
            "3 tick",
            "5 decided",
            "5 tick",
            "6 records",
            "6 tick",
            "50 cell submit ana/more 2 priority=200 cpu=100 ram=100",
            "51 records",
            "51 tick",
        ],
        &expect![[r#"
            0 cell submit ana/web 1 priority=200 cpu=100 ram=100
            0 tick
              follow 0, has nothing
            1 loaded
            1 tick
              propose 1: 1-0-1 on m2
              next 10001
            3 records
            3 tick
              next 10001
            5 decided
            5 tick
            6 records
            6 tick
            50 cell submit ana/more 2 priority=200 cpu=100 ram=100
            51 records
            51 tick
              propose 2: 2-0-1 on m2 2-1-1 on m1
              next 10051
        "#]],
    );
}

/// A task's retry is due while a proposal is decided: after the rejection the process sleeps until the
/// rest is over, and does not wake for what is due already.
#[test]
fn a_rejected_follower_rests_whatever_is_due() {
    told(
        &[
            WEB,
            "0 tick",
            "1 loaded",
            "1 tick",
            "2 decided",
            "3 cell ended 1-0-1 exit 3",
            "3 records",
            "3 tick",
            "995 cell submit ana/more 1 priority=200 cpu=600 ram=100",
            "996 records",
            "996 tick",
            "997 cell silent m1",
            "1005 decided",
            "1005 tick",
            // What arrives meanwhile is taken in, and nothing is proposed.
            "1010 records",
            "1010 tick",
            "1024 tick",
            "1025 tick",
        ],
        &expect![[r#"
            0 cell submit ana/web 1 priority=200 cpu=100 ram=100
            0 tick
              follow 0, has nothing
            1 loaded
            1 tick
              propose 1: 1-0-1 on m2
              next 10001
            2 decided
            3 cell ended 1-0-1 exit 3
            3 records
            3 tick
              next 1003
            995 cell submit ana/more 1 priority=200 cpu=600 ram=100
            996 records
            996 tick
              propose 2: 2-0-1 on m1
              next 10996
            997 cell silent m1
            1005 decided
            1005 tick
              next 1025
            1010 records
            1010 tick
              next 1025
            1024 tick
              next 1025
            1025 tick
              propose 3: 1-0-2 on m2
              next 11025
        "#]],
    );
}

#[test]
fn an_unanswered_proposal_is_given_up_and_its_late_answer_is_ignored() {
    told(
        &[
            WEB,
            "0 tick",
            "1 loaded",
            "1 tick",
            "5000 tick",
            "10000 tick",
            "10001 tick",
            "10021 tick",
            "10022 rejected 1",
            "10022 tick",
            "10030 undecided 2",
            "10030 tick",
            "10050 tick",
        ],
        &expect![[r#"
            0 cell submit ana/web 1 priority=200 cpu=100 ram=100
            0 tick
              follow 0, has nothing
            1 loaded
            1 tick
              propose 1: 1-0-1 on m2
              next 10001
            5000 tick
              next 10001
            10000 tick
              next 10001
            10001 tick
              next 10021
            10021 tick
              propose 2: 1-0-1 on m2
              next 20021
            10022 rejected 1
            10022 tick
              next 20021
            10030 undecided 2
            10030 tick
              next 10050
            10050 tick
              propose 3: 1-0-1 on m2
              next 20050
        "#]],
    );
}

#[test]
fn another_replica_is_asked_for_the_records_after_the_copy() {
    told(
        &[
            "0 tick",
            "10 disconnected",
            "10 tick",
            "109 tick",
            "110 tick",
            "120 loaded",
            "120 tick",
            "130 cell submit ana/web 1 priority=200 cpu=100 ram=100",
            "131 records",
            "131 tick",
            "140 decided unheard",
            "141 disconnected",
            // The answer comes from a stream that is closed.
            "142 rejected 1",
            "142 tick",
            "241 tick",
            // What became of the proposal is in the records that come: it is not made again.
            "250 resumed",
            "250 tick",
            "251 records",
            "251 tick",
            "270 tick",
        ],
        &expect![[r#"
            0 tick
              follow 0, has nothing
            10 disconnected
            10 tick
              next 110
            109 tick
              next 110
            110 tick
              follow 1, has nothing
            120 loaded
            120 tick
            130 cell submit ana/web 1 priority=200 cpu=100 ram=100
            131 records
            131 tick
              propose 1: 1-0-1 on m2
              next 10131
            140 decided unheard
            141 disconnected
            142 rejected 1
            142 tick
              next 241
            241 tick
              follow 2, has 8
            250 resumed
            250 tick
              next 270
            251 records
            251 tick
              next 270
            270 tick
        "#]],
    );
}

#[test]
fn a_proposal_that_got_lost_is_made_again_after_a_rest() {
    told(
        &[
            WEB,
            "0 tick",
            "1 loaded",
            "1 tick",
            "2 disconnected",
            "102 tick",
            "110 resumed",
            "110 tick",
            "130 tick",
            "131 decided",
            "131 records",
            "131 tick",
        ],
        &expect![[r#"
            0 cell submit ana/web 1 priority=200 cpu=100 ram=100
            0 tick
              follow 0, has nothing
            1 loaded
            1 tick
              propose 1: 1-0-1 on m2
              next 10001
            2 disconnected
            102 tick
              follow 1, has 8
            110 resumed
            110 tick
              next 130
            130 tick
              propose 2: 1-0-1 on m2
              next 10130
            131 decided
            131 records
            131 tick
        "#]],
    );
}

#[test]
fn a_copy_that_missed_a_record_is_loaded_again() {
    told(
        &[
            "0 tick",
            "1 loaded",
            WEB,
            "2 cell submit ana/more 1 priority=200 cpu=100 ram=100",
            "3 lost-record",
            "4 records",
            "4 tick",
            "104 tick",
            "105 loading",
            "106 loaded",
            "106 tick",
            "107 unreadable",
            "107 tick",
            "207 tick",
            "208 disconnected",
            "308 tick",
            // Nothing can go on from no copy.
            "309 resumed",
            "309 tick",
        ],
        &expect![[r#"
            0 tick
              follow 0, has nothing
            1 loaded
            0 cell submit ana/web 1 priority=200 cpu=100 ram=100
            2 cell submit ana/more 1 priority=200 cpu=100 ram=100
            3 lost-record
            4 records
              received record 8 instead of 7
            4 tick
              next 104
            104 tick
              follow 1, has nothing
            105 loading
            106 loaded
            106 tick
              propose 1: 1-0-1 on m2 2-0-1 on m2
              next 10106
            107 unreadable
            107 tick
              next 207
            207 tick
              follow 2, has nothing
            208 disconnected
            308 tick
              follow 3, has nothing
            309 resumed
            309 tick
              next 409
        "#]],
    );
}

#[test]
fn a_copy_that_makes_room_for_another_is_gone() {
    told(
        &[
            WEB,
            "0 tick",
            "1 loaded",
            "1 tick",
            "2 disconnected",
            "102 tick",
            "103 loading",
            "104 disconnected",
            "204 tick",
            "205 loading",
            "206 loaded",
            // The proposal that was on its way is of the copy that is gone.
            "206 tick",
        ],
        &expect![[r#"
            0 cell submit ana/web 1 priority=200 cpu=100 ram=100
            0 tick
              follow 0, has nothing
            1 loaded
            1 tick
              propose 1: 1-0-1 on m2
              next 10001
            2 disconnected
            102 tick
              follow 1, has 8
            103 loading
            104 disconnected
            204 tick
              follow 2, has nothing
            205 loading
            206 loaded
            206 tick
              propose 2: 1-0-1 on m2
              next 10206
        "#]],
    );
}

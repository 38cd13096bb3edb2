//! The cache of names: what it answers, and what it never does.

use std::collections::BTreeMap;
use std::sync::Arc;

use dns::{Answer, Cache, CacheLimits, Endpoint, Lookup, Owner, Question};
use model::{JobName, LogIndex, Span, TaskIndex, Time, UserName};
use proptest::prelude::*;

fn user() -> UserName {
    "ubar".parse().expect("it is valid")
}

fn job(number: u32) -> JobName {
    format!("job-{number}").parse().expect("it is valid")
}

fn question(number: u32) -> Question {
    Question::Job { user: user(), job: job(number) }
}

/// An answer that shows its index: a task with that number, or none for index 0.
fn answer(index: u64) -> Answer {
    if index == 0 {
        return Answer::NoSuchName;
    }
    let task = TaskIndex(u32::try_from(index).expect("it is valid"));
    let endpoint = Endpoint {
        owner: Owner::Task { user: user(), job: job(0), index: task },
        address: [127, 0, 0, 1].into(),
        ports: Vec::new(),
        running: true,
        healthy: true,
    };
    Answer::Found(Arc::from(vec![endpoint]))
}

fn index_of(answer: &Answer) -> u64 {
    let Answer::Found(endpoints) = answer else { return 0 };
    match &endpoints[0].owner {
        Owner::Task { index, .. } => u64::from(index.0),
        Owner::Master => panic!("no answer of these tests"),
    }
}

/// Runs lines: `learn QUESTION INDEX`, `nothing QUESTION INDEX` for a name that does not exist,
/// `change QUESTION INDEX`, `wait MILLISECONDS`, `get QUESTION`, `get-alone QUESTION` without a master.
/// Returns what the lines with `get` answer: `=INDEX`, `~INDEX` if stale, `?` if missing.
fn run(limits: CacheLimits, script: &str) -> String {
    let (mut cache, mut now) = (Cache::new(limits), Time::ZERO);
    let mut answers = Vec::new();
    for line in script.split(';') {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u32>().expect(line);
        let index = || LogIndex(u64::from(number(2)));
        match words[0] {
            "learn" => cache.learn(question(number(1)), answer(index().0), index(), now),
            "nothing" => cache.learn(question(number(1)), Answer::NoSuchName, index(), now),
            "change" => cache.changed(&user(), &job(number(1)), index()),
            "wait" => now = now + Span::from_millis(u64::from(number(1))),
            get => answers.push(match cache.get(&question(number(1)), now, get == "get") {
                Lookup::Fresh(answer) => format!("={}", index_of(&answer)),
                Lookup::Stale(answer) => format!("~{}", index_of(&answer)),
                Lookup::Missing => "?".to_owned(),
            }),
        }
    }
    answers.join(" ")
}

#[test]
fn answers_are_fresh_stale_or_missing() {
    let table = [
        ("unknown", "get 1; get-alone 1", "? ?"),
        ("known for its TTL", "learn 1 5; get 1; wait 4999; get 1; wait 1; get 1", "=5 =5 ?"),
        ("and longer without a master", "learn 1 5; wait 9000; get-alone 1; get 1", "~5 ?"),
        ("fresh without a master", "learn 1 5; get-alone 1", "=5"),
        ("no such name", "nothing 1 5; get 1; wait 5000; get 1; get-alone 1", "=0 ? ~0"),
        ("newer", "learn 1 5; learn 1 6; get 1", "=6"),
        ("older", "learn 1 5; learn 1 4; get 1", "=5"),
        ("as old", "learn 1 5; wait 4000; learn 1 5; wait 4000; get 1", "=5"),
        ("changed", "learn 1 5; change 1 6; get 1; get-alone 1; learn 1 6; get 1", "? ~5 =6"),
        ("changed before", "learn 1 5; change 1 5; get 1", "=5"),
        ("an answer from before the change", "learn 1 5; change 1 7; learn 1 6; get 1", "?"),
        (
            "a change while it is asked for",
            "change 1 7; learn 1 6; get 1; learn 1 7; get 1",
            "? =7",
        ),
        ("another one's change", "learn 1 5; change 2 6; get 1", "=5"),
        (
            "the least recently used goes first",
            "learn 1 5; learn 2 5; learn 3 5; get 1; learn 4 5; get 1; get 2; get 3; get 4",
            "=5 =5 ? =5 =5",
        ),
        (
            "what went does not come back older",
            "learn 1 9; learn 2 9; learn 3 9; learn 4 9; learn 1 8; get 1; learn 1 9; get 1",
            "=? =9",
        ),
    ];
    let limits = CacheLimits { questions: 3, ..CacheLimits::default() };
    for (what, script, expected) in table {
        assert_eq!(run(limits, script), expected.replace("=?", "?"), "{what}");
    }
    let limits = CacheLimits { endpoints: 2, ..CacheLimits::default() };
    let script = "learn 1 5; nothing 9 5; learn 2 5; learn 3 5; get 1; get 2; get 3; get 9";
    assert_eq!(run(limits, script), "? =5 =5 =0");
}

#[test]
fn a_change_reaches_tasks_and_the_user() {
    let mut cache = Cache::new(CacheLimits::default());
    let task = |number, index| Question::Task { user: user(), job: job(number), index };
    let questions =
        [task(1, TaskIndex(0)), task(1, TaskIndex(u32::MAX)), question(1), Question::User(user())];
    let others = [task(2, TaskIndex(0)), Question::Master];
    for question in questions.iter().chain(&others) {
        cache.learn(question.clone(), answer(5), LogIndex(5), Time::ZERO);
    }
    cache.changed(&user(), &job(1), LogIndex(6));
    for question in &questions {
        assert_eq!(cache.get(question, Time::ZERO, true), Lookup::Missing, "{question:?}");
    }
    for question in &others {
        assert_eq!(cache.get(question, Time::ZERO, true), Lookup::Fresh(answer(5)), "{question:?}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Learn(u32, u64),
    Change(u32, u64),
    Get(u32, bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12_u32, 1..40_u64).prop_map(|(question, index)| Step::Learn(question, index)),
        1 => (0..12_u32, 1..40_u64).prop_map(|(question, index)| Step::Change(question, index)),
        4 => (0..12_u32, any::<bool>()).prop_map(|(question, alone)| Step::Get(question, alone)),
        1 => (0..9_000_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    /// It never exceeds its limits, and never answers with an older index after a newer one was learnt.
    #[test]
    fn the_cache_is_bounded_and_never_goes_back(steps in prop::collection::vec(step(), 0..200)) {
        let limits = CacheLimits { questions: 5, endpoints: 4, ..CacheLimits::default() };
        let (mut cache, mut now) = (Cache::new(limits), Time::ZERO);
        let mut learnt: BTreeMap<u32, u64> = BTreeMap::new();
        let mut changed: BTreeMap<u32, u64> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Learn(number, index) => {
                    // Every third index is that of a name that does not exist.
                    let known = if index % 3 == 0 { Answer::NoSuchName } else { answer(index) };
                    cache.learn(question(number), known, LogIndex(index), now);
                    let newest = learnt.entry(number).or_default();
                    *newest = index.max(*newest);
                }
                Step::Change(number, index) => {
                    cache.changed(&user(), &job(number), LogIndex(index));
                    let newest = changed.entry(number).or_default();
                    *newest = index.max(*newest);
                }
                Step::Get(number, alone) => match cache.get(&question(number), now, !alone) {
                    Lookup::Fresh(Answer::NoSuchName) | Lookup::Missing => {}
                    Lookup::Fresh(answer) => {
                        prop_assert!(index_of(&answer) >= learnt[&number]);
                        let newest = changed.get(&number).copied().unwrap_or_default();
                        prop_assert!(index_of(&answer) >= newest);
                    }
                    Lookup::Stale(answer) => {
                        prop_assert!(alone);
                        // A change hides newer answers that are still older than the change.
                        if !changed.contains_key(&number) && answer != Answer::NoSuchName {
                            prop_assert!(index_of(&answer) >= learnt[&number]);
                        }
                    }
                },
                Step::Wait(milliseconds) => now = now + Span::from_millis(milliseconds),
            }
            prop_assert!(cache.questions() <= 5 && cache.endpoints() <= 4);
        }
    }
}

//! The programs of simulated tasks: how long they run, how they end, and their health.

use borglet::Desired;
use model::{End, Generation, Random, Span, Time};

/// The behaviour of one incarnation of a task on its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// The delay from its start until its program runs.
    pub begins: Span,
    /// How long it runs; `None`: until it is stopped.
    pub runs: Option<Span>,
    /// How it ends by itself.
    pub end: End,
    /// How long it takes to end after SIGTERM; if longer than its notice, it is killed.
    pub heeds: Span,
    /// How long after its start its health check succeeds.
    pub healthy_after: Span,
    /// When its health check starts to fail.
    pub healthy_until: Option<Span>,
}

impl Default for Incarnation {
    /// Runs until it is stopped, and is healthy.
    fn default() -> Self {
        Self {
            begins: Span::from_millis(20),
            runs: None,
            end: End::Exited { code: 0 },
            heeds: Span::from_millis(50),
            healthy_after: Span::from_millis(300),
            healthy_until: None,
        }
    }
}

/// Determines the behaviour of programs.
pub trait Programs {
    /// The behaviour of a starting incarnation.
    fn incarnation(
        &self,
        now: Time,
        desired: &Desired,
        generation: Generation,
        random: &mut Random,
    ) -> Incarnation;

    /// An incarnation reached its own end.
    fn came_to_its_end(&self, _desired: &Desired) {}
}

/// Programs whose behaviour is given in their command: `run for=90 exit=0 heeds=200 fails=300`.
///
/// | word | effect |
/// |---|---|
/// | `for=SECONDS` | runs for about this long: 50 % to 150 % of it |
/// | `exit=CODE` | ends with that exit code |
/// | `fails=N` | fails in N of a thousand incarnations, with exit code 1, at some point |
/// | `heeds=MILLISECONDS` | takes this long to end when told to |
/// | `sick=N` | becomes unhealthy in N of a thousand incarnations |
/// | `broken` | cannot be started |
#[derive(Clone, Copy, Debug, Default)]
pub struct Commands;

impl Programs for Commands {
    fn incarnation(
        &self,
        _: Time,
        desired: &Desired,
        _: Generation,
        random: &mut Random,
    ) -> Incarnation {
        let mut incarnation =
            Incarnation { begins: Span(5_000 + random.below(60_000)), ..Incarnation::default() };
        for word in &desired.spec.cmd {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number = value.parse::<u64>().unwrap_or(0);
            match name {
                "for" => {
                    let mean = Span::from_secs(number);
                    incarnation.runs = Some(Span(mean.0 / 2 + random.below(mean.0.max(1))));
                }
                "exit" => incarnation.end = End::Exited { code: u8::try_from(number).unwrap_or(1) },
                "heeds" => incarnation.heeds = Span::from_millis(number),
                "fails" if random.chance(number) => {
                    incarnation.runs = Some(random.wait(Span::from_secs(30)));
                    incarnation.end = End::Exited { code: 1 };
                }
                "sick" if random.chance(number) => {
                    incarnation.healthy_until = Some(random.wait(Span::from_secs(60)));
                }
                "broken" => {
                    incarnation.runs = Some(Span::ZERO);
                    incarnation.end = End::NotStarted { reason: "no such program".to_owned() };
                }
                _ => {}
            }
        }
        incarnation
    }
}

/// How long a saver runs, and how it ends, by its command: `save takes=90 fails=300 hangs=100`. It
/// takes about so many milliseconds, and fails, or runs until it is killed, in so many of a thousand
/// attempts.
pub(crate) fn saver(argv: &[String], random: &mut Random) -> (Option<Span>, Result<(), String>) {
    let (mut takes, mut ended) = (Some(Span::from_millis(1)), Ok(()));
    for word in argv {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = value.parse::<u64>().unwrap_or(0);
        match name {
            "takes" => takes = Some(random.wait(Span::from_millis(number))),
            "fails" if random.chance(number) => ended = Err("exit code 1".to_owned()),
            "hangs" if random.chance(number) => takes = None,
            _ => {}
        }
    }
    (takes, ended)
}

#[cfg(test)]
pub(crate) use tests::desired;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use model::{CellName, CollectionId, InstanceId, JobName, Priority, TaskIndex, UserName};

    pub(crate) fn desired(words: &str) -> Desired {
        let cmd = words.split_whitespace().map(str::to_owned).collect();
        let (collection, index) = (CollectionId(1), TaskIndex(0));
        Desired {
            address: None,
            volumes: Vec::new(),
            reads_again: 0,
            max_runtime: None,
            instance: InstanceId { collection, index, generation: Generation(1) },
            alloc: None,
            cell: CellName::new("sim").expect("a name"),
            user: UserName::new("ana").expect("a name"),
            job: JobName::new("job").expect("a name"),
            priority: Priority::new(100).expect("a priority"),
            appclass: model::Appclass::Batch,
            tasks: 1,
            spec: Arc::new(spec::TaskSpec::of(cmd)),
            ports: Vec::new(),
        }
    }

    /// The incarnations of two hundred tasks of that command.
    fn incarnations(words: &str) -> Vec<Incarnation> {
        let (desired, mut random) = (desired(words), Random::new(7));
        let mut incarnation =
            || Commands.incarnation(Time(0), &desired, Generation(1), &mut random);
        (0..200).map(|_| incarnation()).collect()
    }

    #[test]
    fn words_are_what_they_say() {
        let ends = |code| End::Exited { code };
        for (words, is) in [
            (
                "run",
                (|incarnation: &Incarnation| incarnation.runs.is_none())
                    as fn(&Incarnation) -> bool,
            ),
            ("run for=90", |incarnation| {
                incarnation.runs.is_some_and(|runs| (45_000..=135_000).contains(&runs.as_millis()))
            }),
            ("run heeds=200", |incarnation| incarnation.heeds == Span::from_millis(200)),
            ("run heeds=7 for=2", |incarnation| {
                incarnation.heeds == Span::from_millis(7) && incarnation.runs.is_some()
            }),
            ("run sick=1000", |incarnation| incarnation.healthy_until.is_some()),
            ("run fails=0 sick=0", |incarnation| {
                incarnation.runs.is_none() && incarnation.healthy_until.is_none()
            }),
            ("run unknown=3", |incarnation| incarnation.runs.is_none()),
        ] {
            assert!(incarnations(words).iter().all(is), "{words}");
        }
        for (words, end) in [
            ("run for=1", ends(0)),
            ("run for=1 exit=3", ends(3)),
            ("run fails=1000", ends(1)),
            ("broken", End::NotStarted { reason: "no such program".to_owned() }),
        ] {
            assert!(
                incarnations(words).iter().all(|incarnation| incarnation.end == end),
                "{words}"
            );
        }
        let failing = incarnations("run fails=400")
            .iter()
            .filter(|incarnation| incarnation.end == ends(1))
            .count();
        assert!((60..100).contains(&failing), "{failing} of 200");
    }
}

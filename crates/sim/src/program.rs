//! The programs that simulated tasks run: how long, how they end, and how they behave on the way.

use borglet::Desired;
use model::{End, Generation, Random, Span, Time};

/// What one life of a task does on its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// From its start until its program runs.
    pub begins: Span,
    /// How long it runs; without one, until it is stopped.
    pub runs: Option<Span>,
    /// How it ends by itself.
    pub end: End,
    /// How long it takes to end when it is asked to; longer than its notice, and it is killed.
    pub heeds: Span,
    /// Since when after its start it answers its health check well.
    pub healthy_after: Span,
    /// From when on it does not any more.
    pub healthy_until: Option<Span>,
}

impl Default for Life {
    /// One that runs until it is stopped, and is well.
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

/// Whoever knows what the programs do.
pub trait Programs {
    /// What a life of a task does that begins now.
    fn life(
        &self,
        now: Time,
        desired: &Desired,
        generation: Generation,
        random: &mut Random,
    ) -> Life;

    /// A life came to the end that it was said to have.
    fn came_to_its_end(&self, _desired: &Desired) {}
}

/// Programs that say in their command what they do: `run for=90s exit=0 heeds=200ms fails=300`.
///
/// | word | it |
/// |---|---|
/// | `for=SPAN` | runs about so long: half to one and a half of it |
/// | `exit=CODE` | ends with that exit code |
/// | `fails=N` | fails in N of a thousand lives, with exit code 1, somewhere on the way |
/// | `heeds=SPAN` | takes so long to end when it is asked to |
/// | `sick=N` | turns unhealthy in N of a thousand lives |
/// | `broken` | cannot be started |
#[derive(Clone, Copy, Debug, Default)]
pub struct Commands;

impl Programs for Commands {
    fn life(&self, _: Time, desired: &Desired, _: Generation, random: &mut Random) -> Life {
        let mut life = Life { begins: Span(5_000 + random.below(60_000)), ..Life::default() };
        for word in &desired.spec.cmd {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number = value.parse::<u64>().unwrap_or(0);
            match name {
                "for" => {
                    let mean = Span::from_secs(number);
                    life.runs = Some(Span(mean.0 / 2 + random.below(mean.0.max(1))));
                }
                "exit" => life.end = End::Exited { code: u8::try_from(number).unwrap_or(1) },
                "heeds" => life.heeds = Span::from_millis(number),
                "fails" if random.chance(number) => {
                    life.runs = Some(random.wait(Span::from_secs(30)));
                    life.end = End::Exited { code: 1 };
                }
                "sick" if random.chance(number) => {
                    life.healthy_until = Some(random.wait(Span::from_secs(60)));
                }
                "broken" => {
                    life.runs = Some(Span::ZERO);
                    life.end = End::NotStarted { reason: "no such program".to_owned() };
                }
                _ => {}
            }
        }
        life
    }
}

//! The usage of tasks: averages and maxima by window, as the traces and `bourg usage` have them.

mod draw;
mod read;
mod shape;

pub use draw::{Drawn, draw};
pub use read::{HEADERS, ReadError, Table, limits, read};
pub use shape::{Shape, ShapeError};

use model::{Bytes, MilliCores, Priority, Resources, Span};

/// Windows have this length where none is given, as in the traces.
pub const WINDOW: Span = Span::from_secs(300);

/// A maximum lasts at most one part in so many of its window.
const PEAK_ONE_OF: u64 = 10;

/// The average and the maximum of one resource in a window: milli-cores, or bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The average over the window.
    pub average: u64,
    /// The maximum in the window, at least the average.
    pub maximum: u64,
}

/// The usage of a task in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// CPU, in milli-cores.
    pub cpu: Load,
    /// Memory, in bytes.
    pub ram: Load,
}

/// A window and when it is: both ends count from the arrival of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its beginning.
    pub from: Span,
    /// Its end.
    pub until: Span,
    /// Its number, from 0; it determines where in the window its maximum is.
    pub nth: u64,
    /// The usage; none where the data has a gap.
    pub window: Option<Window>,
}

/// A task whose usage is known.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its limit.
    pub limit: Resources,
    /// Its priority.
    pub priority: Priority,
    /// When it arrives, from the beginning of the replay. Only production has such times; the rest
    /// waits in a queue.
    pub arrives: Span,
    /// How long it had been running at its arrival.
    pub age: Span,
    /// How long it stays; none: to the end.
    pub stays: Option<Span>,
    /// Its usage.
    pub curve: Curve,
}

/// Usage over time.
#[derive(Clone, Debug)]
pub enum Curve {
    /// From a table, in the order of time; repeated from its beginning after its end.
    Recorded(Vec<Held>),
    /// Drawn.
    Drawn(Drawn),
}

/// Tasks with their usage.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Production and monitoring tasks, in the order of their arrival.
    pub production: Vec<Subject>,
    /// The others: a queue that begins anew after its end.
    pub queue: Vec<Subject>,
}

impl Load {
    /// A load whose maximum is at least its average.
    #[must_use]
    pub fn new(average: u64, maximum: u64) -> Self {
        Self { average, maximum: maximum.max(average) }
    }

    /// The usage at a moment of a window, `offset` after its beginning. The maximum lasts a tenth
    /// of the window, or less if the average leaves no room for that; the rest is level, so that
    /// the average is kept. `place` determines which tenth.
    #[must_use]
    pub fn at(self, offset: Span, length: Span, place: u64) -> u64 {
        let tenth = length.0 / PEAK_ONE_OF;
        let product = |amount: u64, by: u64| u128::from(amount) * u128::from(by);
        let whole = product(self.average, length.0);
        let longest = product(self.maximum, tenth);
        let peak = match self.maximum {
            0 => 0,
            _ if longest > whole => whole / u128::from(self.maximum),
            _ => u128::from(tenth),
        };
        let begins = (place % PEAK_ONE_OF) * tenth;
        let ends = u128::from(begins) + peak;
        if offset.0 >= begins && u128::from(offset.0) < ends {
            return self.maximum;
        }
        let left = whole.saturating_sub(u128::from(self.maximum) * peak);
        let level = left.checked_div(u128::from(length.0).saturating_sub(peak)).unwrap_or(0);
        u64::try_from(level).unwrap_or(u64::MAX)
    }
}

impl Held {
    /// The usage at a moment, counted from the arrival of the task: CPU and memory.
    #[must_use]
    pub fn at(&self, moment: Span, seed: u64) -> Option<(MilliCores, Bytes)> {
        let window = self.window?;
        let offset = Span(moment.0.saturating_sub(self.from.0));
        let length = Span(self.until.0.saturating_sub(self.from.0));
        let place = model::Random::mixed(seed.wrapping_add(self.nth.wrapping_mul(0x9e37_79b9)));
        let cpu = window.cpu.at(offset, length, place);
        let ram = window.ram.at(offset, length, place >> 32);
        Some((MilliCores(cpu), Bytes(ram)))
    }
}

impl Subject {
    /// The window at a moment: `moment` counts from the arrival of the task, `at` from the
    /// beginning of the replay.
    #[must_use]
    pub fn held(&self, moment: Span, at: Span) -> Held {
        match &self.curve {
            Curve::Recorded(all) => recorded(all, moment),
            Curve::Drawn(drawn) => {
                let nth = moment.0 / WINDOW.0;
                let from = Span(nth * WINDOW.0);
                // The window's own time of the day, whenever it is asked for.
                let day = Span((at.0 + from.0).saturating_sub(moment.0));
                let window = drawn.window(&self.limit, nth, day);
                Held { from, until: from + WINDOW, nth, window: Some(window) }
            }
        }
    }
}

/// The window of a table at a moment, with the table repeated as often as needed.
fn recorded(all: &[Held], moment: Span) -> Held {
    let length = all.last().map_or(0, |last| last.until.0).max(1);
    let (times, within) = (moment.0 / length, moment.0 % length);
    let place = all.partition_point(|held| held.until.0 <= within);
    let shifted = |span: Span| span + Span(times * length);
    match all.get(place) {
        Some(held) if held.from.0 <= within => {
            Held { from: shifted(held.from), until: shifted(held.until), ..*held }
        }
        held => {
            let before = place.checked_sub(1).and_then(|place| all.get(place));
            Held {
                from: shifted(before.map_or(Span::ZERO, |before| before.until)),
                until: shifted(held.map_or(Span(length), |held| held.from)),
                nth: 0,
                window: None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds of a window of 100 s, averaged and at most.
    fn seconds(load: Load, place: u64) -> (u64, u64) {
        let length = Span::from_secs(100);
        let all: Vec<u64> =
            (0..100).map(|second| load.at(Span::from_secs(second), length, place)).collect();
        (all.iter().sum::<u64>() / 100, all.iter().copied().max().unwrap_or(0))
    }

    #[test]
    fn average_and_maximum_of_a_window_are_kept() {
        for (average, maximum) in [(0, 0), (500, 500), (500, 900), (100, 1_000), (900, 1_000)] {
            for place in 0..10 {
                let load = Load::new(average, maximum);
                let (found, most) = seconds(load, place);
                // What is beside the maximum is rounded down.
                assert!(average - found <= 1, "{load:?} at {place}: {found}");
                assert_eq!(most, maximum, "{load:?} at {place}");
            }
        }
        // An average of 1 % with a maximum of the whole: the peak is a second, in which nothing is
        // left.
        assert_eq!(seconds(Load::new(10, 1_000), 3), (10, 1_000));
        assert_eq!(Load::new(7, 5), Load { average: 7, maximum: 7 });
    }

    #[test]
    fn a_table_is_repeated_with_its_gaps() {
        let window = |cpu| Some(Window { cpu: Load::new(cpu, cpu), ..Window::default() });
        let held = |from, until, nth, cpu| Held {
            from: Span::from_secs(from),
            until: Span::from_secs(until),
            nth,
            window: window(cpu),
        };
        let all = [held(0, 10, 0, 1), held(20, 30, 1, 2)];
        let at = |second| {
            let held = recorded(&all, Span::from_secs(second));
            let cpu = held.window.map(|window| window.cpu.average);
            (held.from.as_millis() / 1_000, held.until.as_millis() / 1_000, cpu)
        };
        for (second, expected) in [
            (0, (0, 10, Some(1))),
            (9, (0, 10, Some(1))),
            (10, (10, 20, None)),
            (20, (20, 30, Some(2))),
            (30, (30, 40, Some(1))),
            (45, (40, 50, None)),
            (59, (50, 60, Some(2))),
        ] {
            assert_eq!(at(second), expected, "at {second} s");
        }
    }
}

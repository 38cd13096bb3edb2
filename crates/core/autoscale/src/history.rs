//! What tasks of jobs with one name have used, by windows of time.

use std::collections::VecDeque;

use model::{Bytes, MilliCores, Span, Time};
use spec::CpuRam;

/// The number of windows of a history: a day of windows of 5 minutes. The oldest is dropped for a
/// further one.
pub const WINDOWS_MAX: usize = 288;

/// How far a usage may be in the future, because clocks differ.
const SKEW_MAX: Span = Span::from_secs(60);

/// Usage in a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its beginning, a multiple of the length of windows.
    pub start: Time,
    /// The largest usage of any of the tasks.
    pub used: CpuRam,
    /// Whether it is made of single samples. A window that a Borglet has measured replaces it.
    pub sampled: bool,
}

/// The last time that a task ran out of memory at its own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// When it was seen.
    pub at: Time,
    /// The limit that was too small.
    pub limit: Bytes,
}

/// What tasks of jobs with one name have used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The length of a window.
    length: Span,
    /// By their beginnings.
    windows: VecDeque<Window>,
    out_of_memory: Option<OutOfMemory>,
}

impl History {
    /// An empty one with windows of this length, at least a second.
    #[must_use]
    pub fn new(length: Span) -> Self {
        let length = Span(length.0.max(1_000_000));
        Self { length, windows: VecDeque::new(), out_of_memory: None }
    }

    /// Its windows, the oldest first: at most [`WINDOWS_MAX`].
    pub fn windows(&self) -> impl DoubleEndedIterator<Item = &Window> + ExactSizeIterator {
        self.windows.iter()
    }

    /// The last time that a task ran out of memory.
    #[must_use]
    pub fn out_of_memory(&self) -> Option<OutOfMemory> {
        self.out_of_memory
    }

    /// How long ago the oldest window began.
    #[must_use]
    pub fn span(&self, now: Time) -> Span {
        let begins = self.windows.front().map_or(now, |window| window.start);
        now.since(begins)
    }

    /// The usage of a task in a sample. A sample that is far in the future, or older than the whole
    /// history, changes nothing. Repeating one changes nothing.
    pub fn sample(&mut self, now: Time, at: Time, used: CpuRam) {
        self.put(now, at, used, true);
    }

    /// The usage of a task in a window that its Borglet has measured, by the window's beginning. See
    /// [`Self::sample`].
    pub fn window(&mut self, now: Time, start: Time, used: CpuRam) {
        self.put(now, start, used, false);
    }

    /// A task ran out of memory at its own limit.
    pub fn ran_out_of_memory(&mut self, now: Time, limit: Bytes) {
        let newest = OutOfMemory { at: now, limit };
        let replaced = self.out_of_memory.filter(|last| last.limit > limit && last.at >= now);
        self.out_of_memory = Some(replaced.unwrap_or(newest));
        self.sample(now, now, CpuRam { cpu: MilliCores(0), ram: limit });
    }

    fn put(&mut self, now: Time, at: Time, used: CpuRam, sampled: bool) {
        if at > now + SKEW_MAX {
            return;
        }
        let start = Time(at.0 - at.0 % self.length.0);
        let place = self.windows.partition_point(|window| window.start < start);
        let too_old = place == 0 && self.windows.len() >= WINDOWS_MAX;
        match self.windows.get_mut(place).filter(|window| window.start == start) {
            // A sample says nothing that the window of a Borglet does not say, except what happened
            // after it: memory at an out-of-memory end.
            Some(window) if !window.sampled && sampled => {
                window.used.ram = window.used.ram.max(used.ram);
            }
            Some(window) if window.sampled && !sampled => {
                let ram = window.used.ram.max(used.ram);
                window.used = CpuRam { cpu: used.cpu, ram };
                window.sampled = false;
            }
            Some(window) => {
                let cpu = window.used.cpu.max(used.cpu);
                window.used = CpuRam { cpu, ram: window.used.ram.max(used.ram) };
            }
            None if too_old => {}
            None => {
                self.windows.insert(place, Window { start, used, sampled });
                if self.windows.len() > WINDOWS_MAX {
                    self.windows.pop_front();
                }
            }
        }
    }
}

/// A text that is not a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// The form of a history as text: one line, `LENGTH OOM WINDOWS`, with `-` for none.
impl History {
    /// As text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let out_of_memory = self.out_of_memory.map_or_else(
            || "-".to_owned(),
            |OutOfMemory { at, limit }| format!("{}:{}", at.0, limit.0),
        );
        let mut text = format!("{} {out_of_memory}", self.length.0);
        for Window { start, used, sampled } in &self.windows {
            let kind = if *sampled { 's' } else { 'w' };
            text += &format!(" {kind}{}:{}:{}", start.0, used.cpu.0, used.ram.0);
        }
        text
    }

    /// From its text. With another length of windows it becomes one of this length.
    ///
    /// # Errors
    /// If the text is none, or has too many windows.
    pub fn from_text(text: &str, length: Span) -> Result<Self, Damaged> {
        let mut words = text.split(' ');
        let mut word = || words.next().ok_or(Damaged);
        let was: u64 = number(word()?)?;
        let out_of_memory = match word()? {
            "-" => None,
            pair => {
                let (at, limit) = pair.split_once(':').ok_or(Damaged)?;
                Some(OutOfMemory { at: Time(number(at)?), limit: Bytes(number(limit)?) })
            }
        };
        let mut windows = Vec::new();
        for word in words {
            if windows.len() == WINDOWS_MAX {
                return Err(Damaged);
            }
            let (sampled, numbers) = match word.split_at_checked(1).ok_or(Damaged)? {
                ("s", numbers) => (true, numbers),
                ("w", numbers) => (false, numbers),
                _ => return Err(Damaged),
            };
            let mut numbers = numbers.split(':').map(number);
            let mut next = || numbers.next().unwrap_or(Err(Damaged));
            let start = Time(next()?);
            let used = CpuRam { cpu: MilliCores(next()?), ram: Bytes(next()?) };
            if numbers.next().is_some() {
                return Err(Damaged);
            }
            windows.push(Window { start, used, sampled });
        }
        let mut history = Self { out_of_memory, ..Self::new(length) };
        if was == history.length.0 && windows.is_sorted_by(|a, b| a.start < b.start) {
            history.windows = windows.into();
            return Ok(history);
        }
        windows.sort_by_key(|window| window.start);
        for Window { start, used, sampled } in windows {
            history.put(start, start, used, sampled);
        }
        Ok(history)
    }
}

fn number(text: &str) -> Result<u64, Damaged> {
    text.parse().map_err(|_| Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Span = Span::from_secs(300);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(1_000_000 * 300 + seconds)
    }

    fn used(cpu: u64, ram: u64) -> CpuRam {
        CpuRam { cpu: MilliCores(cpu), ram: Bytes(ram) }
    }

    fn shown(history: &History) -> Vec<(u64, u64, u64)> {
        let seconds = |time: Time| time.since(at(0)).0 / 1_000_000;
        let row = |window: &Window| (seconds(window.start), window.used.cpu.0, window.used.ram.0);
        history.windows().map(row).collect()
    }

    #[test]
    fn a_window_has_the_largest_usage_of_any_task() {
        let mut history = History::new(WINDOW);
        history.sample(at(10), at(10), used(5, 50));
        history.sample(at(20), at(20), used(7, 20));
        history.sample(at(310), at(310), used(1, 1));
        assert_eq!(shown(&history), [(0, 7, 50), (300, 1, 1)]);
    }

    #[test]
    fn a_measured_window_replaces_samples_and_several_tasks_are_joined() {
        let mut history = History::new(WINDOW);
        history.sample(at(10), at(10), used(900, 50));
        for _ in 0..2 {
            history.window(at(400), at(0), used(5, 40));
            history.window(at(400), at(0), used(6, 60));
            history.sample(at(400), at(20), used(999, 20));
        }
        assert_eq!(shown(&history), [(0, 6, 60)]);
    }

    #[test]
    fn a_history_is_bounded_and_drops_the_oldest_windows() {
        let mut history = History::new(WINDOW);
        let windows = u64::try_from(WINDOWS_MAX).expect("a number");
        for number in 0..=windows {
            let start = at(300 * number);
            history.window(start, start, used(number, 1));
        }
        history.window(at(300 * windows), at(0), used(999, 1));
        assert_eq!(history.windows().len(), WINDOWS_MAX);
        assert_eq!(history.windows().next().expect("one").used.cpu, MilliCores(1));
        history.sample(at(0), at(9_999_999), used(1, 1));
        assert_eq!(history.windows().len(), WINDOWS_MAX, "the future is rejected");
    }

    #[test]
    fn the_text_of_a_history_is_read_back_and_damage_is_found() {
        let mut history = History::new(WINDOW);
        history.window(at(0), at(0), used(5, 40));
        history.sample(at(310), at(310), used(6, 60));
        history.ran_out_of_memory(at(320), Bytes(99));
        let text = history.to_text();
        assert_eq!(History::from_text(&text, WINDOW), Ok(history.clone()));
        let joined = History::from_text(&text, Span::from_secs(600)).expect("a history");
        assert_eq!(shown(&joined), [(0, 5, 99)]);
        for damaged in ["", "300", "x -", "300 7", "300 - w1", "300 - w1:2:3:4", "300 - q1:2:3"] {
            assert_eq!(History::from_text(damaged, WINDOW), Err(Damaged), "{damaged}");
        }
    }
}

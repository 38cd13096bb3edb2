//! A curve of one character for each window of 300 s.

use api::v1;
use api::v1::task_usage::Window;

/// The length of a window, in microseconds.
pub(crate) const WINDOW_MICROS: u64 = 300_000_000;
/// The maximum length of a curve, a day: longer ones fit on no terminal.
const SLOTS_MAX: u64 = 288;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Consecutive windows, by number: that of a window is its start divided by its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    first: u64,
    /// Exclusive.
    end: u64,
}

fn start(window: &Window) -> Option<u64> {
    Some(window.window.as_ref()?.start)
}

impl Slots {
    /// The windows between two times that something was measured in, from the first of them to the
    /// last that has closed: the newest [`SLOTS_MAX`].
    pub(crate) fn of<'a>(
        windows: impl IntoIterator<Item = &'a Window>,
        since: u64,
        until: u64,
    ) -> Self {
        // The clocks of machines may be ahead, but not by more than the window that is still open.
        let (from, open) = (since / WINDOW_MICROS, until / WINDOW_MICROS);
        let there = windows.into_iter().filter_map(start).map(|start| start / WINDOW_MICROS);
        let there = there.filter(|slot| (from..=open).contains(slot));
        let ends = there.fold(None, |ends: Option<(u64, u64)>, slot| {
            let (first, last) = ends.unwrap_or((slot, slot));
            Some((first.min(slot), last.max(slot)))
        });
        let Some((first, last)) = ends else { return Self { first: open, end: open } };
        let end = open.max(last + 1);
        Self { first: first.max(end.saturating_sub(SLOTS_MAX)), end }
    }

    /// The average CPU usage in each slot, in thousandths of a core; absent where nothing was
    /// measured.
    pub(crate) fn cpu(self, windows: &[Window]) -> Vec<Option<i64>> {
        let count = usize::try_from(self.end - self.first).unwrap_or_default();
        // Windows of several incarnations may be in one slot.
        let mut sums = vec![(0_i128, 0_i128); count];
        for window in windows.iter().filter_map(|window| window.window.as_ref()) {
            let place = (window.start / WINDOW_MICROS).checked_sub(self.first);
            let place = place.and_then(|place| usize::try_from(place).ok());
            let cpu = window.average.as_ref().and_then(|average| average.cpu_milli);
            let (Some(sum), Some(cpu @ 0..)) = (place.and_then(|at| sums.get_mut(at)), cpu) else {
                continue;
            };
            let length = length(window);
            *sum = (sum.0 + i128::from(cpu) * length, sum.1 + length);
        }
        let average = |(cpu, length): (i128, i128)| i64::try_from(cpu.checked_div(length)?).ok();
        sums.into_iter().map(average).collect()
    }
}

/// The length of a window in microseconds, at least 1.
fn length(window: &v1::UsageWindow) -> i128 {
    let length = window.length.as_ref();
    let length = length.map_or(0, |length| {
        i128::from(length.seconds) * 1_000_000 + i128::from(length.nanos) / 1_000
    });
    length.clamp(1, WINDOW_MICROS.into())
}

/// The curve of values, of which `most` is the highest level; a gap is a space.
pub(crate) fn curve(values: &[Option<i64>], most: i64) -> String {
    let top = i64::try_from(LEVELS.len()).unwrap_or(i64::MAX);
    let level = |value: &Option<i64>| match value {
        None => ' ',
        Some(value) => {
            let scaled = i128::from(*value) * i128::from(top) / i128::from(most.max(1));
            let level = usize::try_from(scaled).unwrap_or_default();
            LEVELS[level.min(LEVELS.len() - 1)]
        }
    };
    values.iter().map(level).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A window of the slot with this number.
    pub(crate) fn window(slot: u64, cpu: Option<i64>) -> Window {
        part(slot, 0, 300, cpu)
    }

    fn part(slot: u64, after: u64, seconds: i64, cpu: Option<i64>) -> Window {
        let average = Some(v1::Measured { cpu_milli: cpu, ..v1::Measured::default() });
        let window = v1::UsageWindow {
            start: slot * WINDOW_MICROS + after * 1_000_000,
            length: Some(api::Duration { seconds, nanos: 0 }),
            average,
            ..v1::UsageWindow::default()
        };
        Window { generation: 1, window: Some(window) }
    }

    #[test]
    fn a_curve_has_a_level_for_each_eighth() {
        let values: Vec<_> = (0..=8).map(|eighth| Some(eighth * 100)).collect();
        assert_eq!(curve(&values, 800), "▁▂▃▄▅▆▇██");
        assert_eq!(curve(&[Some(0), None, Some(0)], 0), "▁ ▁");
        assert_eq!(curve(&[Some(i64::MAX), Some(-1)], i64::MAX), "█▁");
        assert_eq!(curve(&[], 5), "");
    }

    #[test]
    fn slots_reach_from_the_first_window_to_the_last_closed_one() {
        let at = |slot: u64| slot * WINDOW_MICROS + 1;
        let of = |slots: &[u64], since, until| {
            let windows: Vec<Window> = slots.iter().map(|slot| window(*slot, Some(1))).collect();
            let Slots { first, end } = Slots::of(&windows, since, until);
            (first, end)
        };
        for (slots, since, until, expected) in [
            (&[][..], 10, 20, (20, 20)),
            (&[12, 13], 10, 20, (12, 20)),
            (&[8, 12], 10, 20, (12, 20)),
            (&[19], 10, 20, (19, 20)),
            // The open window closed early, because its task ended.
            (&[19, 20], 10, 20, (19, 21)),
            // Clocks that are ahead.
            (&[19, 900_000_000], 10, 20, (19, 20)),
            (&[1, 999], 0, 1_000, (1_000 - SLOTS_MAX, 1_000)),
        ] {
            assert_eq!(of(slots, at(since), at(until)), expected, "{slots:?}");
        }
        assert_eq!(of(&[3], u64::MAX, 0), (0, 0));
    }

    #[test]
    fn incarnations_in_one_slot_count_by_their_length() {
        let windows = [
            window(10, Some(100)),
            part(11, 0, 100, Some(300)),
            part(11, 200, 50, Some(0)),
            window(13, None),
            window(14, Some(-7)),
            window(99, Some(1)),
            Window { generation: 2, window: None },
        ];
        let slots = Slots { first: 10, end: 15 };
        assert_eq!(slots.cpu(&windows), [Some(100), Some(200), None, None, None]);
    }
}

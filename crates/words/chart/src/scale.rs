//! Axes: where their ticks are, and what the ticks of time say.

/// A microsecond is the unit of time.
const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Distances of ticks of time that people count in.
const STEPS: [u64; 24] = [
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    3 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    56 * DAY,
];

/// Ticks of numbers are nice at these times a power of ten.
const NICE: [u32; 3] = [1, 2, 5];

/// Between two ticks of values there is at most a quarter of the axis.
const PARTS: f64 = 4.0;

/// Values below this count as 0.
const LEAST: f64 = 1e-9;

/// What values count, which decides where ticks are nice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Numbers: ticks at 1, 2 or 5 times a power of ten.
    Decimal,
    /// Bytes: ticks at powers of two, at least 1.
    Binary,
    /// Things that have no parts: as numbers, and at least 1.
    Whole,
}

/// The ticks of values from 0 to a nice maximum that is at least `most`: 3 to 5 of them, or only two
/// if there is nothing between them.
pub(super) fn ticks(most: f64, unit: Unit) -> Vec<f64> {
    let most = match unit {
        _ if most >= LEAST => most,
        Unit::Decimal | Unit::Whole => 1.0,
        Unit::Binary => 1024.0,
    };
    let parts = |step: f64| (most / step - LEAST).ceil();
    // The factor and the divisor of the step: a division by a power of ten is exact where a
    // multiplication by 0.1 is not.
    let (times, by) = match unit {
        Unit::Binary => ((most / PARTS - LEAST).log2().ceil().exp2().max(1.0), 1.0),
        Unit::Whole if most <= PARTS => (1.0, 1.0),
        Unit::Decimal | Unit::Whole => {
            let exponent = super::whole((most / PARTS).log10().floor());
            let (times, by) = if exponent < 0 {
                (1.0, 10f64.powi(-exponent))
            } else {
                (10f64.powi(exponent), 1.0)
            };
            let nice = NICE.into_iter().map(|nice| f64::from(nice) * times);
            (nice.into_iter().find(|times| parts(times / by) <= PARTS).unwrap_or(10.0 * times), by)
        }
    };
    let last = super::whole(parts(times / by)).max(1);
    (0..=last).map(|tick| f64::from(tick) * times / by).collect()
}

/// The distance of ticks of whole numbers: the next of 1, 2, 5, 10, 20, 50, ….
pub(super) fn whole_step(at_least: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for nice in NICE {
            let step = power.saturating_mul(u64::from(nice));
            if step >= at_least {
                return step;
            }
        }
        match power.checked_mul(10) {
            Some(more) => power = more,
            None => return at_least,
        }
    }
}

/// A tick of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Microseconds since the epoch.
    pub(super) at: u64,
    /// A time of the day or a day, in UTC.
    pub(super) label: String,
    /// A narrow chart has no room for it.
    pub(super) minor: bool,
}

/// The ticks of time: at most 6 for narrow charts, and at most 10 with the minor ones. Fewer, if
/// seconds make their labels long.
pub(super) fn moments(from: u64, to: u64) -> Vec<Moment> {
    let count = |step: u64| to / step - from.saturating_sub(1) / step;
    let longest = STEPS[STEPS.len() - 1];
    let long = (1..).map(|times| longest.saturating_mul(1 << times.min(62)));
    let fits = |step: u64| count(step) <= if step < MINUTE { 4 } else { 6 };
    let major = STEPS.into_iter().chain(long).find(|&step| fits(step)).unwrap_or(longest);
    let fits = |step: u64| {
        let most = if step < MINUTE { 7 } else { 10 };
        count(step) <= most && major.is_multiple_of(step) && (step < MINUTE) == (major < MINUTE)
    };
    let step = STEPS.into_iter().find(|&step| fits(step)).unwrap_or(major);
    let several_days = from / DAY != to / DAY;
    let first = from.div_ceil(step).saturating_mul(step);
    let ticks = (0..).map_while(|tick| {
        let at = step.checked_mul(tick).and_then(|after| first.checked_add(after))?;
        (at <= to).then_some(at)
    });
    let moments = ticks.map(|at| {
        let label =
            if several_days && at.is_multiple_of(DAY) { day(at) } else { clock(at, step < MINUTE) };
        Moment { at, label, minor: !at.is_multiple_of(major) }
    });
    moments.collect()
}

/// The time of the day in UTC, such as `14:05`.
pub(super) fn clock(at: u64, seconds: bool) -> String {
    let (hour, minute) = (at / HOUR % 24, at / MINUTE % 60);
    if seconds {
        return format!("{hour:02}:{minute:02}:{:02}", at / SECOND % 60);
    }
    format!("{hour:02}:{minute:02}")
}

/// The day in UTC, such as `12 Mar`.
pub(super) fn day(at: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb"];
    // Years that begin in March end with the leap day; 400 of them have always as many days.
    let days = at / DAY + 719_468;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let name = usize::try_from(month).ok().and_then(|month| MONTHS.get(month));
    format!("{day} {}", name.unwrap_or(&""))
}

/// A time as words, for a chart from `from` to `to`: with the day if there are several.
pub(super) fn moment(at: u64, from: u64, to: u64) -> String {
    let time = clock(at, to.saturating_sub(from) < HOUR);
    if from / DAY == to / DAY { time } else { format!("{} {time}", day(at)) }
}

//! Series of points: what of them is drawn, and as which path.

use std::fmt::Write as _;

use super::{finite, whole};

/// A value at a time in microseconds since the epoch; without a value it is a gap, which breaks the
/// line.
pub type Point = (u64, Option<f64>);

/// The points of a time chart that are drawn: finite, sorted, and from `from` to `to`.
///
/// If a value `holds` until the next point, the last point before `from` counts at `from`, and the
/// last of all counts until `to`.
pub(super) fn clip(points: &[Point], from: u64, to: u64, holds: bool) -> Vec<Point> {
    let mut all: Vec<Point> =
        points.iter().map(|&(at, value)| (at, value.and_then(finite))).collect();
    all.sort_by_key(|&(at, _)| at);
    let start = all.partition_point(|&(at, _)| at < from);
    let end = all.partition_point(|&(at, _)| at <= to).max(start);
    let mut clipped = Vec::with_capacity(end - start + 2);
    if holds && start > 0 && all.get(start).is_none_or(|&(at, _)| at > from) {
        clipped.push((from, all[start - 1].1));
    }
    clipped.extend_from_slice(&all[start..end]);
    if let Some(&(at, value)) = clipped.last()
        && holds
        && at < to
    {
        clipped.push((to, value));
    }
    clipped
}

/// The value at a time: that of the last point until then, unless this is the last of all and is more
/// than `slack` ago.
pub(super) fn value_at(points: &[Point], at: u64, slack: u64) -> Option<f64> {
    let next = points.partition_point(|&(time, _)| time <= at);
    let &(time, value) = points.get(next.checked_sub(1)?)?;
    if next == points.len() && time.saturating_add(slack) < at {
        return None;
    }
    value
}

/// Which of the sorted points are enough for a drawing, at most `most` of them: the first, the last,
/// and of each bucket of time the minimum, the maximum and a gap.
pub(super) fn thin(points: &[Point], most: usize) -> Vec<usize> {
    let (Some(&(first, _)), Some(&(last, _))) = (points.first(), points.last()) else {
        return Vec::new();
    };
    if points.len() <= most {
        return (0..points.len()).collect();
    }
    let each = if points.iter().any(|(_, value)| value.is_none()) { 3 } else { 2 };
    let buckets = (most.saturating_sub(2) / each).max(1) as u128;
    let bucket = |at: u64| u128::from(at - first) * buckets / (u128::from(last - first) + 1);
    let mut kept = vec![0];
    let mut start = 0;
    for chunk in points.chunk_by(|a, b| bucket(a.0) == bucket(b.0)) {
        let known = || {
            let values = chunk.iter().enumerate();
            values.filter_map(|(index, (_, value))| value.map(|value| (index, value)))
        };
        let least = known().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index);
        let most = known().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index);
        let gap = chunk.iter().position(|(_, value)| value.is_none());
        let mut indices: Vec<usize> = [least, most, gap].into_iter().flatten().collect();
        indices.sort_unstable();
        kept.extend(indices.into_iter().map(|index| start + index));
        start += chunk.len();
    }
    kept.push(points.len() - 1);
    kept.dedup();
    kept
}

/// The points of several series put on top of each other, the first at the bottom: all have the same
/// times, at most `most`, and a series that has no value at a time adds nothing there. Where no
/// series has a value, all have a gap.
pub(super) fn pile(series: &[&[Point]], most: usize) -> Vec<Vec<Point>> {
    let mut times: Vec<u64> =
        series.iter().flat_map(|points| points.iter().map(|&(at, _)| at)).collect();
    times.sort_unstable();
    times.dedup();
    let row = |at: u64| -> Vec<Option<f64>> {
        let values: Vec<Option<f64>> =
            series.iter().map(|points| value_at(points, at, 0)).collect();
        if values.iter().all(Option::is_none) {
            return values;
        }
        let mut sum = 0.0;
        let sums = values.into_iter().map(|value| {
            sum += value.unwrap_or(0.0);
            Some(sum)
        });
        sums.collect()
    };
    let rows: Vec<Vec<Option<f64>>> = times.iter().map(|&at| row(at)).collect();
    let totals: Vec<Point> =
        times.iter().zip(&rows).map(|(&at, row)| (at, row.last().copied().flatten())).collect();
    let kept = thin(&totals, most);
    (0..series.len()).map(|of| kept.iter().map(|&at| (times[at], rows[at][of])).collect()).collect()
}

/// How a path connects its points.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    /// Straight from point to point.
    Line,
    /// Level until the next point, then up or down.
    Step,
    /// Straight, and closed along the bottom, which has this coordinate.
    Area(i32),
    /// Not at all: a dot for each point between two gaps.
    Dots,
}

/// The data of a path through positions, broken at gaps: integers, relative, and short.
pub(super) fn path(positions: impl IntoIterator<Item = Option<(f64, f64)>>, join: Join) -> String {
    let mut path = String::new();
    let mut run: Vec<(i32, i32)> = Vec::new();
    for position in positions {
        match position {
            Some((x, y)) => run.push((whole(x), whole(y))),
            None => append(&mut path, &mut run, join),
        }
    }
    append(&mut path, &mut run, join);
    path
}

/// Appends a run of points without a gap, and empties it.
fn append(path: &mut String, run: &mut Vec<(i32, i32)>, join: Join) {
    let Some(&(first_x, first_y)) = run.first() else { return };
    let (mut last_x, mut last_y) = (first_x, first_y);
    match join {
        Join::Area(bottom) => text(path, format_args!("M{first_x} {bottom}V{first_y}")),
        Join::Dots => {
            // A line of no length with round ends is a dot.
            if run.len() == 1 {
                text(path, format_args!("M{first_x} {first_y}h0"));
            }
            return run.clear();
        }
        Join::Line | Join::Step => text(path, format_args!("M{first_x} {first_y}")),
    }
    let mut drawn = false;
    for (index, &(x, y)) in run.iter().enumerate().skip(1) {
        let ends = index + 1 == run.len();
        if (x, y) == (last_x, last_y) || join == Join::Step && y == last_y && !ends {
            continue;
        }
        let (right, down) = (x - last_x, y - last_y);
        if join == Join::Step {
            text(path, format_args!("h{right}"));
            if down != 0 {
                text(path, format_args!("v{down}"));
            }
        } else {
            let before = if drawn { ' ' } else { 'l' };
            let between = if down < 0 { "" } else { " " };
            text(path, format_args!("{before}{right}{between}{down}"));
        }
        (last_x, last_y) = (x, y);
        drawn = true;
    }
    match join {
        Join::Area(bottom) => text(path, format_args!("V{bottom}z")),
        Join::Line | Join::Step if !drawn => path.push_str("h0"),
        Join::Line | Join::Step | Join::Dots => {}
    }
    run.clear();
}

/// Appends text, which cannot fail.
fn text(path: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _infallible = path.write_fmt(arguments);
}

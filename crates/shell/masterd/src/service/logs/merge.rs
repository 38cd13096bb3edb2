//! Several streams in the order of their times, as far as that can be known without waiting for
//! output that has not been written yet.

use std::collections::{BTreeSet, VecDeque};

/// Streams that are merged, by their number.
#[derive(Debug)]
pub(super) struct Merge<T> {
    streams: Vec<Merged<T>>,
    /// The first of each stream that has something.
    heads: BTreeSet<(u64, usize)>,
    /// How many streams are behind and have nothing: what is earliest is not known yet.
    unknown: usize,
}

#[derive(Debug)]
struct Merged<T> {
    /// More of the past is to come.
    behind: bool,
    waiting: VecDeque<(u64, T)>,
}

impl<T> Merge<T> {
    /// So many streams, from which everything is still to come.
    pub(super) fn new(streams: usize) -> Self {
        let merged = || Merged { behind: true, waiting: VecDeque::new() };
        let all = (0..streams).map(|_| merged()).collect();
        Self { streams: all, heads: BTreeSet::new(), unknown: streams }
    }

    /// Adds what a stream has at a time, after what it has had.
    pub(super) fn push(&mut self, stream: usize, at: u64, what: T) {
        let Some(merged) = self.streams.get_mut(stream) else { return };
        if merged.waiting.is_empty() {
            self.heads.insert((at, stream));
            self.unknown -= usize::from(merged.behind);
        }
        merged.waiting.push_back((at, what));
    }

    /// A stream has ended, or has sent everything that was written before now: nobody waits for it
    /// from now on.
    pub(super) fn caught_up(&mut self, stream: usize) {
        let Some(merged) = self.streams.get_mut(stream) else { return };
        if std::mem::take(&mut merged.behind) && merged.waiting.is_empty() {
            self.unknown -= 1;
        }
    }

    /// What is next, unless that depends on a stream that is behind.
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.unknown > 0 {
            return None;
        }
        let (_, stream) = self.heads.pop_first()?;
        let merged = self.streams.get_mut(stream)?;
        let (_, what) = merged.waiting.pop_front()?;
        match merged.waiting.front() {
            Some((at, _)) => drop(self.heads.insert((*at, stream))),
            None => self.unknown += usize::from(merged.behind),
        }
        Some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word is `STREAM:TIME`, or `STREAM!` for a stream that has caught up; what comes out is
    /// `STREAM:TIME` again, after a `|` what comes out after all that.
    fn merged(streams: usize, text: &str) -> String {
        let mut merge = Merge::new(streams);
        let mut out = Vec::new();
        for word in text.split_whitespace() {
            match word.split_once(':') {
                Some((stream, at)) => {
                    let stream = stream.parse().expect("a number");
                    merge.push(stream, at.parse().expect("a number"), word.to_owned());
                }
                None => merge.caught_up(word.trim_end_matches('!').parse().expect("a number")),
            }
            let mut now = Vec::new();
            while let Some(word) = merge.pop() {
                now.push(word);
            }
            if !now.is_empty() {
                out.push(now.join(" "));
            }
        }
        out.join(" | ")
    }

    #[test]
    fn past_lines_are_merged_in_order_and_live_lines_are_not_delayed() {
        for (what, streams, text, expected) in [
            ("one stream", 1, "0:3 0:4", "0:3 | 0:4"),
            ("the other is waited for", 2, "0:3 0:4 1:1 1:9", "1:1 | 0:3 0:4"),
            ("then it ends", 2, "0:3 0:4 1:1 1!", "1:1 | 0:3 0:4"),
            ("one without output", 2, "0:3 1! 0:4", "0:3 | 0:4"),
            ("both are live", 2, "0! 1! 0:5 1:4", "0:5 | 1:4"),
            ("a live one does not delay the past", 2, "0! 0:5 1:4 1:6", "1:4 | 0:5 1:6"),
            ("at the same time by number", 3, "2:1 1:1 0:1 0! 1! 2!", "0:1 | 1:1 | 2:1"),
            ("it ends twice", 1, "0! 0! 0:1", "0:1"),
            ("nothing", 0, "", ""),
        ] {
            assert_eq!(merged(streams, text), expected, "{what}");
        }
    }
}

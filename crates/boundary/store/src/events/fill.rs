//! Takes over events that are missing here from other streams of the same history, such as those of
//! other replicas.

use super::{Cursor, Event, Events, Limit, Reader};
use crate::{Error, Result};

/// How many events are taken over at once, and how many bytes of them.
const AT_ONCE: Limit = Limit { events: 1_000, bytes: 1 << 20 };

/// What a source has handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handed {
    /// Everything that was asked for.
    Everything,
    /// Everything that it has: whether there is more is not known.
    Rest,
    /// Everything before a gap; it has more from this position on.
    UntilGap(Cursor),
}

/// Takes events from a source, in order.
pub type Take<'a> = dyn FnMut(&[Event<'_>]) -> Result<()> + 'a;

/// Another stream of the same history. One that cannot be read hands over nothing.
pub trait Source {
    /// Hands over its events from a position on, in order and without a gap, of operations before
    /// `until`.
    ///
    /// # Errors
    /// Those of `take`.
    fn hand_over(&mut self, from: Cursor, until: u64, take: &mut Take<'_>) -> Result<Handed>;
}

impl Source for Reader {
    fn hand_over(&mut self, from: Cursor, until: u64, take: &mut Take<'_>) -> Result<Handed> {
        let mut at = from;
        loop {
            let (mut batch, mut is_past) = (Vec::new(), false);
            let read = self.read(at, AT_ONCE, |event| {
                is_past |= event.index >= until;
                if event.index < until {
                    batch.push((event.index, event.sub, event.time_us, event.payload.to_vec()));
                }
                Ok::<(), Error>(())
            });
            let next = match read {
                Ok(next) => next,
                // All before it was handed over.
                Err(error) => {
                    let gap = error.goes_on().filter(|gap| *gap > at);
                    return Ok(gap.map_or(Handed::Rest, Handed::UntilGap));
                }
            };
            let events = batch.iter().map(|(index, sub, time_us, payload)| Event {
                index: *index,
                sub: *sub,
                time_us: *time_us,
                payload,
            });
            take(&events.collect::<Vec<_>>())?;
            if is_past {
                return Ok(Handed::Everything);
            }
            if next == at {
                let is_whole =
                    self.marked().is_some_and(|through| through.saturating_add(1) >= until);
                return Ok(if is_whole { Handed::Everything } else { Handed::Rest });
            }
            at = next;
        }
    }
}

impl Events {
    /// Appends the events of the operations before `until` that are missing here, as far as a source
    /// has them, and then resumes like [`Events::resume`]: what no source has is recorded as lost,
    /// and then the result is `Some(true)`. `None` if `is_over` said that there is no time: nothing
    /// but what was found is recorded then, and the call may be repeated.
    ///
    /// # Errors
    /// Those of [`Self::append`]; the call may be repeated.
    pub fn resume_from(
        &mut self,
        until: u64,
        sources: &mut [&mut dyn Source],
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<bool>> {
        let mut lost = false;
        while until > self.complete_up_to().saturating_add(1) {
            let (begun, mut gap) = (self.wanted(), None);
            for source in &mut *sources {
                if is_over() {
                    return Ok(None);
                }
                let from = self.wanted();
                match source.hand_over(from, until, &mut |batch| self.append(batch).map(drop))? {
                    Handed::Everything => {
                        self.through = self.through.max(until - 1);
                        return Ok(Some(lost));
                    }
                    Handed::Rest => {}
                    Handed::UntilGap(begin) if begin.index >= until => {}
                    Handed::UntilGap(begin) => {
                        gap = Some(gap.map_or(begin, |gap: Cursor| gap.min(begin)));
                    }
                }
            }
            if is_over() {
                return Ok(None);
            }
            if self.wanted() > begun {
                // Another may have what follows now.
                continue;
            }
            let Some(gap) = gap.filter(|gap| *gap > begun) else { break };
            self.skip_to(gap)?;
            lost = true;
        }
        Ok(Some(self.resume(until)? || lost))
    }

    /// The position from which on events are missing.
    fn wanted(&self) -> Cursor {
        self.next.max(Cursor::at(self.through.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;

    const OPERATIONS: u64 = 60;

    /// A stream with the events of some operations: two for each, in small segments.
    fn stream(has: &[(u64, u64)]) -> (tempfile::TempDir, Events) {
        let directory = tempfile::tempdir().expect("a directory");
        let options = Options { segment_bytes: 4 << 10, ..Options::default() };
        let (mut events, _) = Events::open(directory.path(), options).expect("it opens");
        for (first, last) in has {
            events.resume(*first).expect("there is room");
            for index in *first..=*last {
                append(&mut events, index);
            }
        }
        (directory, events)
    }

    fn append(events: &mut Events, index: u64) {
        let payload = vec![u8::try_from(index).expect("few"); 100];
        for sub in 0..2 {
            let event = Event { index, sub, time_us: index, payload: &payload };
            events.append(&[event]).expect("there is room");
        }
    }

    /// The operations whose events can be read, each with both of its events, and what is a gap.
    fn read(events: &Events) -> Vec<u64> {
        let (mut reader, mut at, mut found) = (events.reader(), Cursor::START, Vec::new());
        loop {
            let read = reader.read(at, AT_ONCE, |event| {
                assert_eq!(event.payload, [u8::try_from(event.index).expect("few"); 100]);
                found.push((event.index, event.sub));
                Ok::<(), Error>(())
            });
            match read {
                Ok(next) if next == at => break,
                Ok(next) => at = next,
                Err(error) => at = error.goes_on().expect("it goes on"),
            }
        }
        assert!(found.is_sorted() && found.chunks(2).all(|pair| pair[0].0 == pair[1].0));
        found.into_iter().step_by(2).map(|(index, _)| index).collect()
    }

    fn operations(spans: &[(u64, u64)]) -> Vec<u64> {
        spans.iter().flat_map(|(first, last)| *first..=*last).collect()
    }

    #[test]
    fn events_from_any_source_are_copied_and_the_rest_is_a_gap() {
        type Spans = &'static [(u64, u64)];
        let cases: [(Spans, &[Spans], Spans); 9] = [
            // Nothing is here, as after a snapshot; one has all, or nobody has.
            (&[], &[&[(1, OPERATIONS)]], &[(1, 50)]),
            (&[], &[], &[]),
            // The first has a gap that the second fills.
            (&[], &[&[(1, 20), (41, OPERATIONS)], &[(15, 45)]], &[(1, 50)]),
            (&[], &[&[(15, 45)], &[(1, 20), (41, OPERATIONS)]], &[(1, 50)]),
            // Nobody has the first ones, or some in the middle, or the last.
            (&[], &[&[(31, OPERATIONS)], &[(25, OPERATIONS)]], &[(25, 50)]),
            (&[], &[&[(1, 10), (20, 30)], &[(25, OPERATIONS)]], &[(1, 10), (20, 50)]),
            (&[], &[&[(1, 10)], &[(1, 12)]], &[(1, 12)]),
            // Some are here.
            (&[(1, 20)], &[&[(10, OPERATIONS)]], &[(1, 50)]),
            (&[(1, 20)], &[&[(30, OPERATIONS)]], &[(1, 20), (30, 50)]),
        ];
        for (here, there, expected) in cases {
            let (_kept, mut events) = stream(here);
            let others: Vec<_> = there.iter().map(|has| stream(has)).collect();
            let mut readers: Vec<_> = others.iter().map(|(_, events)| events.reader()).collect();
            let mut sources: Vec<&mut dyn Source> =
                readers.iter_mut().map(|reader| -> &mut dyn Source { reader }).collect();
            let lost = events.resume_from(51, &mut sources, &|| false).expect("there is room");
            assert_eq!(read(&events), operations(expected), "{here:?} {there:?}");
            let is_whole = operations(expected) == operations(&[(1, 50)]);
            assert_eq!(lost, Some(!is_whole), "{here:?} {there:?}");
            assert_eq!(events.complete_up_to(), 50);
            // What comes later follows.
            append(&mut events, 51);
            let follows: Vec<_> = expected.iter().copied().chain([(51, 51)]).collect();
            assert_eq!(read(&events), operations(&follows), "{here:?} {there:?}");
        }
    }

    #[test]
    fn events_are_not_called_lost_before_the_search_ends() {
        let (_kept, mut events) = stream(&[(1, 10)]);
        let (_other, there) = stream(&[(20, OPERATIONS)]);
        let mut reader = there.reader();
        assert_eq!(events.resume_from(51, &mut [&mut reader], &|| true).expect("no error"), None);
        assert_eq!(events.complete_up_to(), 9);
        let found = events.resume_from(51, &mut [&mut reader], &|| false).expect("there is room");
        assert_eq!((found, read(&events)), (Some(true), operations(&[(1, 10), (20, 50)])));
    }

    /// Operations without events come last: a mark says that nothing is missing.
    #[test]
    fn a_mark_says_that_there_is_no_more() {
        for (marked, lost) in [(50, false), (49, true)] {
            let (_kept, mut events) = stream(&[]);
            let (_other, mut there) = stream(&[(1, 30)]);
            there.sync(marked).expect("it syncs");
            let mut reader = there.reader();
            let found = events.resume_from(51, &mut [&mut reader], &|| false);
            assert_eq!(found.expect("there is room"), Some(lost), "{marked}");
        }
    }
}

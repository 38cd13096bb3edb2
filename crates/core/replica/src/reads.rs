//! Linearizable reads: the replica asks the leader for its commit index, which takes a round of
//! heartbeats, and the read waits until that index is applied here. All reads that wait when a
//! round starts share it.

use std::collections::VecDeque;

use model::{LogIndex, ReplicaId, Span, Time};

use crate::Ticket;

/// How many ticks of consensus a round may take before it is repeated: its request or answer may be
/// lost.
const ROUND_TICKS: u64 = 4;
/// The maximum number of unanswered rounds. Beyond it, the oldest one shares the answer of the
/// next. So if answers took longer than this many rounds, none would ever arrive; no caller waits
/// that long.
const ROUNDS_MAX: usize = 64;

/// Waiting reads.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    waiting: Vec<Ticket>,
    /// Unanswered rounds, the oldest first.
    rounds: VecDeque<ReadRound>,
    /// When the newest of them started.
    asked: Time,
    /// Reads whose round is answered, until their index is applied.
    confirmed: Vec<(LogIndex, Vec<Ticket>)>,
    last: u64,
}

#[derive(Debug)]
struct ReadRound {
    context: Vec<u8>,
    tickets: Vec<Ticket>,
}

impl Reads {
    /// The number of waiting reads.
    pub(crate) fn len(&self) -> usize {
        let asked: usize = self.rounds.iter().map(|round| round.tickets.len()).sum();
        let confirmed: usize = self.confirmed.iter().map(|(_, tickets)| tickets.len()).sum();
        self.waiting.len() + asked + confirmed
    }

    pub(crate) fn ask(&mut self, ticket: Ticket) {
        self.waiting.push(ticket);
    }

    /// The context of the request to send to the leader now, if any: for new reads, or repeated
    /// because no answer came. Contexts are unique across replicas and their processes, because
    /// answers may arrive late and at a process that did not ask.
    pub(crate) fn question(&mut self, now: Time, tick: Span, me: ReplicaId) -> Option<Vec<u8>> {
        let is_due = match self.rounds.is_empty() {
            true => !self.waiting.is_empty(),
            // Reads that arrive meanwhile can share the next round, which starts after them.
            false => now.since(self.asked) >= tick.saturating_mul(ROUND_TICKS),
        };
        if !is_due {
            return None;
        }
        self.last += 1;
        self.asked = now;
        let context: Vec<u8> = [me.0, now.0, self.last].map(u64::to_le_bytes).concat();
        let mut tickets = std::mem::take(&mut self.waiting);
        if self.rounds.len() >= ROUNDS_MAX
            && let Some(mut oldest) = self.rounds.pop_front()
        {
            let next = self.rounds.front_mut().map_or(&mut tickets, |round| &mut round.tickets);
            next.append(&mut oldest.tickets);
        }
        self.rounds.push_back(ReadRound { context: context.clone(), tickets });
        Some(context)
    }

    /// There is a new leader: unanswered rounds are repeated at once.
    pub(crate) fn again(&mut self) {
        self.asked = Time::ZERO;
    }

    /// The leader's answer to the request with this context; it is also valid for earlier rounds.
    pub(crate) fn answered(&mut self, context: &[u8], index: LogIndex) {
        let Some(newest) = self.rounds.iter().position(|round| round.context == context) else {
            return;
        };
        let answered = self.rounds.drain(..=newest).flat_map(|round| round.tickets);
        self.confirmed.push((index, answered.collect()));
        if self.rounds.iter().all(|round| round.tickets.is_empty()) {
            self.rounds.clear();
        }
    }

    /// The reads that can be answered once this index is applied.
    pub(crate) fn readable(&mut self, applied: LogIndex) -> impl Iterator<Item = Ticket> {
        let readable = self.confirmed.extract_if(.., move |(index, _)| *index <= applied);
        readable.flat_map(|(_, tickets)| tickets).collect::<Vec<_>>().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_reads_share_a_round_and_an_unanswered_round_is_repeated() {
        let tick = Span::from_millis(50);
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        let me = ReplicaId(1);
        let mut reads = Reads::default();
        assert_eq!(reads.question(at(0), tick, me), None, "nobody asks");
        reads.ask(Ticket(1));
        reads.ask(Ticket(2));
        let first = reads.question(at(0), tick, me).expect("a question");
        reads.ask(Ticket(3));
        assert_eq!(reads.question(at(199), tick, me), None, "it waits for its answer");
        let second = reads.question(at(200), tick, me).expect("it is put again");
        assert_eq!(reads.question(at(399), tick, me), None);
        reads.answered(&second, LogIndex(7));
        assert_eq!(reads.len(), 3);
        assert_eq!(reads.readable(LogIndex(6)).count(), 0, "not applied yet");
        let readable: Vec<_> = reads.readable(LogIndex(7)).collect();
        assert_eq!(readable, [Ticket(1), Ticket(2), Ticket(3)]);
        reads.answered(&first, LogIndex(5));
        assert_eq!((reads.len(), reads.question(at(900), tick, me)), (0, None));
    }

    /// As when a majority takes a second for every sync, and answers no sooner.
    #[test]
    fn an_answer_that_comes_after_the_question_was_repeated_is_an_answer() {
        let tick = Span::from_millis(50);
        let me = ReplicaId(1);
        let mut reads = Reads::default();
        let mut asked = VecDeque::new();
        let mut answered = Vec::new();
        for ms in (0..5_000).step_by(50) {
            reads.ask(Ticket(ms));
            let now = Time::ZERO + Span::from_millis(ms);
            asked.extend(reads.question(now, tick, me).map(|context| (ms, context)));
            while let Some((_, context)) = asked.pop_front_if(|(then, _)| *then + 1_000 <= ms) {
                reads.answered(&context, LogIndex(1));
            }
            answered.extend(reads.readable(LogIndex(1)).map(|Ticket(then)| ms - then));
        }
        assert!(answered.len() > 70, "{answered:?}");
        assert_eq!(
            answered.iter().max(),
            Some(&1_150),
            "a question's time and that to the next one"
        );
    }

    #[test]
    fn questions_without_an_answer_are_bounded_and_nobody_is_lost() {
        let tick = Span::from_millis(50);
        let mut reads = Reads::default();
        let mut newest = Vec::new();
        for round in 1..=200 {
            reads.ask(Ticket(round));
            let now = Time::ZERO + Span::from_millis(200 * round);
            newest = reads.question(now, tick, ReplicaId(1)).expect("a question");
        }
        assert_eq!((reads.rounds.len(), reads.len()), (ROUNDS_MAX, 200));
        reads.answered(&newest, LogIndex(1));
        assert_eq!(reads.readable(LogIndex(1)).count(), 200);
    }

    #[test]
    fn no_two_questions_have_the_same_context() {
        let question = |now, me| {
            let mut reads = Reads::default();
            reads.ask(Ticket(1));
            reads.question(Time(now), Span::from_millis(50), ReplicaId(me)).expect("a question")
        };
        let first = question(5, 1);
        assert_ne!(question(5, 2), first, "of another replica");
        assert_ne!(question(6, 1), first, "of another incarnation");
    }
}

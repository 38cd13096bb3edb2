//! Reads of what is true now: the leader is asked, with a round of heartbeats, up to where
//! everybody agrees, and the read waits until this replica has applied that much. All that wait
//! when a round begins share it.

use model::{LogIndex, ReplicaId, Span, Time};

use crate::Ticket;

/// For how many ticks of consensus a round may go without an answer.
const ROUND_TICKS: u64 = 4;

/// Reads that wait.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    waiting: Vec<Ticket>,
    round: Option<Round>,
    /// Those whose round is over, until their index is applied.
    confirmed: Vec<(LogIndex, Vec<Ticket>)>,
    last: u64,
}

#[derive(Debug)]
struct Round {
    context: Vec<u8>,
    since: Time,
    tickets: Vec<Ticket>,
}

impl Reads {
    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        let round = self.round.as_ref().map_or(0, |round| round.tickets.len());
        let confirmed: usize = self.confirmed.iter().map(|(_, tickets)| tickets.len()).sum();
        self.waiting.len() + round + confirmed
    }

    pub(crate) fn ask(&mut self, ticket: Ticket) {
        self.waiting.push(ticket);
    }

    /// The context of the question to put to the leader now, if one is to be put: for those who
    /// wait, or once more where no answer came. No other replica ever has the same, nor this one in
    /// another life: answers may come late, and to a process that did not ask.
    pub(crate) fn question(&mut self, now: Time, tick: Span, me: ReplicaId) -> Option<Vec<u8>> {
        let tickets = match self.round.take() {
            Some(round) if now.since(round.since) < tick.saturating_mul(ROUND_TICKS) => {
                self.round = Some(round);
                return None;
            }
            // Those who came meanwhile can share the next one: it begins after they asked.
            Some(mut late) => {
                late.tickets.append(&mut self.waiting);
                late.tickets
            }
            None => std::mem::take(&mut self.waiting),
        };
        if tickets.is_empty() {
            return None;
        }
        self.last += 1;
        let context: Vec<u8> = [me.0, now.0, self.last].map(u64::to_le_bytes).concat();
        self.round = Some(Round { context: context.clone(), since: now, tickets });
        Some(context)
    }

    /// There is somebody to ask now: what had no answer is asked again at once.
    pub(crate) fn again(&mut self) {
        if let Some(round) = &mut self.round {
            round.since = Time::ZERO;
        }
    }

    /// The leader's answer to the question with this context.
    pub(crate) fn answered(&mut self, context: &[u8], index: LogIndex) {
        let asked = self.round.take_if(|round| round.context == context);
        self.confirmed.extend(asked.map(|round| (index, round.tickets)));
    }

    /// Those that can be answered now that so much is applied.
    pub(crate) fn readable(&mut self, applied: LogIndex) -> impl Iterator<Item = Ticket> {
        let readable = self.confirmed.extract_if(.., move |(index, _)| *index <= applied);
        readable.flat_map(|(_, tickets)| tickets).collect::<Vec<_>>().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_wait_share_a_round_and_one_without_an_answer_is_repeated() {
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
        reads.answered(&first, LogIndex(5));
        assert_eq!(reads.readable(LogIndex(9)).count(), 0, "too late: others share the next one");
        reads.answered(&second, LogIndex(7));
        assert_eq!(reads.len(), 3);
        assert_eq!(reads.readable(LogIndex(6)).count(), 0, "not applied yet");
        let readable: Vec<_> = reads.readable(LogIndex(7)).collect();
        assert_eq!(readable, [Ticket(1), Ticket(2), Ticket(3)]);
        assert_eq!((reads.len(), reads.question(at(900), tick, me)), (0, None));
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
        assert_ne!(question(6, 1), first, "of another life");
    }
}

//! The clients of the master: each repeats a request in its session until it is answered, and
//! occasionally once more after that.

use std::collections::VecDeque;

use cell::{Mutation, Outcome, Rejection, Reply, RequestId};
use model::{LogIndex, SessionId, Span, Time, UserName};
use replica::{Codec, Refusal};

use crate::network::{Fate, Node};
use crate::world::{Event, World};

/// How long a client waits for an answer before it retries.
const PATIENCE: Span = Span::from_secs(5);
/// The delay after a rejection.
const REST: Span = Span::from_millis(200);
/// Maximum number of queued requests per client; further ones are dropped.
const QUEUE_MAX: usize = 100_000;

/// A request in flight.
#[derive(Clone, Debug)]
pub(crate) struct ClientRequest {
    /// The receiving replica.
    pub(crate) host: usize,
    pub(crate) client: usize,
    pub(crate) attempt: u64,
    /// The id of the request that it repeats, if that was already answered.
    pub(crate) again: Option<RequestId>,
    /// The request; `None` to open a session.
    pub(crate) what: Option<(RequestId, Mutation)>,
}

/// An answer in flight.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    client: usize,
    attempt: u64,
    again: Option<RequestId>,
    answer: Result<(LogIndex, Outcome), Refusal>,
}

/// The clients, one per user.
#[derive(Debug)]
pub(crate) struct Clients {
    all: Vec<SimulatedClient>,
}

#[derive(Debug)]
struct SimulatedClient {
    user: UserName,
    session: Option<SessionId>,
    sequence: u64,
    queue: VecDeque<Mutation>,
    /// The replica that it sends requests to.
    host: usize,
    /// Whether it waits for an answer, and the number of the attempt.
    asking: bool,
    attempt: u64,
    /// When it first wanted what it waits for.
    since: Time,
    /// The last answered request, with its answer.
    answered: Option<(RequestId, Mutation, Result<Reply, Rejection>)>,
}

impl Clients {
    pub(crate) fn new(users: Vec<UserName>) -> Self {
        let client = |user| SimulatedClient {
            user,
            session: None,
            sequence: 1,
            queue: VecDeque::new(),
            host: 0,
            asking: false,
            attempt: 0,
            since: Time::ZERO,
            answered: None,
        };
        Self { all: users.into_iter().map(client).collect() }
    }

    pub(crate) fn administrator(&self) -> Option<UserName> {
        self.all.first().map(|client| client.user.clone())
    }

    pub(crate) fn user(&self, number: usize) -> UserName {
        self.all[number].user.clone()
    }

    /// The client of a user.
    fn of(&self, user: &UserName) -> Option<usize> {
        self.all.iter().position(|client| client.user == *user)
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether no client waits for anything.
    pub(crate) fn are_done(&self) -> bool {
        self.all.iter().all(|client| client.queue.is_empty())
    }

    /// Since when the longest-waiting client waits for an answer.
    pub(crate) fn waits_since(&self) -> Option<Time> {
        let waiting = self.all.iter().filter(|client| client.asking);
        waiting.map(|client| client.since).min()
    }

    /// Whether a client waits for the answer to a request of that kind.
    pub(crate) fn waits(&self, client: usize, is: impl Fn(&Mutation) -> bool) -> bool {
        self.all.get(client).is_some_and(|client| client.queue.iter().any(is))
    }

    /// The cell was restored from a backup, which does not have their sessions.
    pub(crate) fn forget_sessions(&mut self) {
        self.all.iter_mut().for_each(|client| {
            client.session = None;
            client.answered = None;
        });
    }
}

impl<C: Codec> World<C> {
    /// Queues a request of a user's client.
    pub(crate) fn ask(&mut self, client: usize, mutation: Mutation) {
        if self.clients.all[client].queue.len() < QUEUE_MAX {
            self.clients.all[client].queue.push_back(mutation);
        }
        if !self.clients.all[client].asking {
            self.clients.all[client].since = self.now;
            self.attempt(client);
        }
    }

    /// Sends a user's request; false if the user has no client.
    pub(crate) fn ask_as(&mut self, user: &UserName, mutation: Mutation) -> bool {
        let Some(client) = self.clients.of(user) else { return false };
        self.ask(client, mutation);
        true
    }

    /// Sends the first queued request, or opens a session for it.
    fn attempt(&mut self, number: usize) {
        let client = &mut self.clients.all[number];
        client.attempt += 1;
        let attempt = client.attempt;
        let what = match (client.session, client.queue.front()) {
            (_, None) => {
                client.asking = false;
                return;
            }
            (None, Some(_)) => None,
            (Some(session), Some(mutation)) => {
                let id = RequestId { session, sequence: client.sequence };
                self.invariants.asked(&client.user, mutation);
                Some((id, mutation.clone()))
            }
        };
        client.asking = true;
        let host = client.host;
        self.send_request(ClientRequest { host, client: number, attempt, again: None, what });
        let given_up = Event::GivesUp { client: number, attempt };
        self.agenda.at(self.now + PATIENCE, given_up);
    }

    fn send_request(&mut self, asked: ClientRequest) {
        if let Fate::Arrives(delay, again) =
            self.network.send(Node::Clients, Node::Master(asked.host))
        {
            if let Some(again) = again {
                self.agenda.at(self.now + again, Event::Asked(Box::new(asked.clone())));
            }
            self.agenda.at(self.now + delay, Event::Asked(Box::new(asked)));
        }
    }

    pub(crate) fn gives_up(&mut self, number: usize, attempt: u64) {
        let client = &self.clients.all[number];
        if client.asking && client.attempt == attempt {
            // The replica does not answer, or is not the leader.
            self.clients.all[number].host = self.another_master(client.host);
            self.attempt(number);
        }
    }

    pub(crate) fn answer_client(
        &mut self,
        host: usize,
        client: usize,
        attempt: u64,
        again: Option<RequestId>,
        answer: Result<(LogIndex, Outcome), Refusal>,
    ) {
        if let Fate::Arrives(delay, _) = self.network.send(Node::Master(host), Node::Clients) {
            let told = Told { client, attempt, again, answer };
            self.agenda.at(self.now + delay, Event::Told(Box::new(told)));
        }
    }

    pub(crate) fn told(&mut self, told: Told) {
        let Told { client: number, attempt, again, answer } = told;
        if let Some(id) = again {
            return self.told_again(number, id, answer);
        }
        let client = &mut self.clients.all[number];
        if !client.asking || client.attempt != attempt {
            return;
        }
        match answer {
            Ok((_, Outcome::Request(Ok(Reply::Session(session))))) => {
                (client.session, client.sequence) = (Some(session), 1);
                self.attempt(number);
            }
            Ok((_, Outcome::Request(Err(Rejection::NoSuchSession(_))))) => {
                client.session = None;
                self.attempt(number);
            }
            Ok((index, Outcome::Request(answer))) => self.answered_request(number, index, answer),
            Ok(_) => {
                self.invariants.violated("a client received the wrong kind of answer".to_owned());
            }
            // A refusal by the replica does not tell whether the request was applied: the client
            // retries.
            Err(_) => {
                let given_up = Event::GivesUp { client: number, attempt };
                self.agenda.at(self.now + REST, given_up);
            }
        }
    }

    fn answered_request(
        &mut self,
        number: usize,
        index: LogIndex,
        answer: Result<Reply, Rejection>,
    ) {
        let client = &mut self.clients.all[number];
        let (Some(mutation), Some(session)) = (client.queue.pop_front(), client.session) else {
            return;
        };
        let id = RequestId { session, sequence: client.sequence };
        client.sequence += 1;
        if let Ok(reply) = &answer {
            self.invariants.promises.made(index, &client.user, &mutation, reply);
            let (since, locks) = (client.since, &mut self.invariants.locks);
            if let Err(wrong) = locks.answered(since, self.now, &mutation, reply) {
                self.invariants.violated(wrong);
            }
        }
        self.load.answered(&client.user, &mutation, &answer);
        client.answered = Some((id, mutation, answer));
        client.since = self.now;
        self.attempt(number);
    }

    /// A client repeats its last answered request, as if the answer had been lost.
    pub(crate) fn repeat(&mut self, number: usize) {
        let client = &self.clients.all[number];
        if let Some((id, mutation, _)) = client.answered.clone() {
            let (host, again, what) = (client.host, Some(id), Some((id, mutation)));
            self.send_request(ClientRequest { host, client: number, attempt: 0, again, what });
        }
    }

    /// The answer has to be the same.
    fn told_again(
        &mut self,
        number: usize,
        id: RequestId,
        answer: Result<(LogIndex, Outcome), Refusal>,
    ) {
        let client = &self.clients.all[number];
        let (Ok((_, Outcome::Request(again))), Some((last, _, first))) = (answer, &client.answered)
        else {
            return;
        };
        if *last != id {
            return;
        }
        let forgotten =
            matches!(again, Err(Rejection::AnswerForgotten { .. } | Rejection::NoSuchSession(_)));
        if again != *first && !forgotten {
            let (session, sequence) = (id.session, id.sequence);
            self.invariants.violated(format!(
                "request {sequence} of session {session} was first answered {first:?}, then {again:?}"
            ));
        }
    }
}

//! Those who ask the master for something: each repeats a request in its session until it is
//! answered, and now and then once more after that.

use std::collections::VecDeque;

use cell::{Mutation, Outcome, Rejection, Reply, RequestId};
use model::{LogIndex, SessionId, Span, Time, UserName};
use replica::{Codec, Refusal};

use crate::network::{Fate, Node};
use crate::world::{Event, World};

/// How long a client waits for an answer before it asks again.
const PATIENCE: Span = Span::from_secs(5);
/// The wait after a refusal.
const REST: Span = Span::from_millis(200);
/// How many things may wait to be asked by one client: what is beyond it is not asked.
const QUEUE_MAX: usize = 100_000;

/// A request on its way.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Which replica is asked.
    pub(crate) host: usize,
    pub(crate) client: usize,
    pub(crate) attempt: u64,
    /// The request that it is, where that was answered before.
    pub(crate) again: Option<RequestId>,
    /// What; a session where nothing is said.
    pub(crate) what: Option<(RequestId, Mutation)>,
}

/// An answer on its way.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    client: usize,
    attempt: u64,
    again: Option<RequestId>,
    answer: Result<(LogIndex, Outcome), Refusal>,
}

/// The clients, one of each user.
#[derive(Debug)]
pub(crate) struct Clients {
    all: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    user: UserName,
    session: Option<SessionId>,
    sequence: u64,
    queue: VecDeque<Mutation>,
    /// Which replica it asks.
    host: usize,
    /// What it waits for, and which attempt that is.
    asking: bool,
    attempt: u64,
    /// Since when it wants what it waits for.
    since: Time,
    /// The last request that was answered, with its answer.
    answered: Option<(RequestId, Mutation, Result<Reply, Rejection>)>,
}

impl Clients {
    pub(crate) fn new(users: Vec<UserName>) -> Self {
        let client = |user| Client {
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

    /// Whether nobody waits for anything.
    pub(crate) fn are_done(&self) -> bool {
        self.all.iter().all(|client| client.queue.is_empty())
    }

    /// Since when somebody waits for an answer, of those who do: who has waited longest.
    pub(crate) fn waits_since(&self) -> Option<Time> {
        let waiting = self.all.iter().filter(|client| client.asking);
        waiting.map(|client| client.since).min()
    }

    /// Whether one waits for the answer to something of that kind.
    pub(crate) fn waits(&self, client: usize, is: impl Fn(&Mutation) -> bool) -> bool {
        self.all.get(client).is_some_and(|client| client.queue.iter().any(is))
    }

    /// The cell went on from a backup, which does not know their sessions.
    pub(crate) fn forget_sessions(&mut self) {
        self.all.iter_mut().for_each(|client| {
            client.session = None;
            client.answered = None;
        });
    }
}

impl<C: Codec> World<C> {
    /// A user's client asks for something, after what it has asked for before.
    pub(crate) fn ask(&mut self, client: usize, mutation: Mutation) {
        if self.clients.all[client].queue.len() < QUEUE_MAX {
            self.clients.all[client].queue.push_back(mutation);
        }
        if !self.clients.all[client].asking {
            self.clients.all[client].since = self.now;
            self.attempt(client);
        }
    }

    /// A user asks for something; false if no client is that user's.
    pub(crate) fn ask_as(&mut self, user: &UserName, mutation: Mutation) -> bool {
        let Some(client) = self.clients.of(user) else { return false };
        self.ask(client, mutation);
        true
    }

    /// Asks for the first thing that waits, or for a session to do so in.
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
        self.send_request(Asked { host, client: number, attempt, again: None, what });
        let given_up = Event::GivesUp { client: number, attempt };
        self.agenda.at(self.now + PATIENCE, given_up);
    }

    fn send_request(&mut self, asked: Asked) {
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
            // It does not answer, or does not lead.
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
            Ok(_) => self.invariants.violated("a client was answered something else".to_owned()),
            // A refusal says nothing about what was done: it is asked again in a moment.
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
        }
        self.load.answered(&client.user, &mutation, &answer);
        client.answered = Some((id, mutation, answer));
        client.since = self.now;
        self.attempt(number);
    }

    /// A client asks for what it was answered before, as one does whose answer was lost.
    pub(crate) fn repeat(&mut self, number: usize) {
        let client = &self.clients.all[number];
        if let Some((id, mutation, _)) = client.answered.clone() {
            let (host, again, what) = (client.host, Some(id), Some((id, mutation)));
            self.send_request(Asked { host, client: number, attempt: 0, again, what });
        }
    }

    /// It has to be the same answer.
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
                "request {sequence} of session {session} was answered {first:?}, and again {again:?}"
            ));
        }
    }
}

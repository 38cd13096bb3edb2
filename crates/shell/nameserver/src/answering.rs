//! How a request gets its reply: at once, or after a lookup.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use dns::{Failure, Lookup, Names, Outcome, Question, RateLimiter, Via};
use model::{Random, Span, Time};
use tokio::time::timeout;

use crate::lookups::Lookups;
use crate::metrics::Metrics;
use crate::places::{Place, Places};
use crate::upstream::Upstream;
use crate::{Client, Settings, Source};

/// What the sockets share.
pub(crate) struct ServerState<S> {
    pub(crate) settings: Settings,
    pub(crate) source: Arc<S>,
    pub(crate) metrics: Arc<Metrics>,
    upstream: Upstream,
    lookups: Lookups,
    limiter: Mutex<RateLimiter<Client>>,
    waiting: Places,
    started: Instant,
}

/// What comes of a request at once.
pub(crate) enum Next {
    /// This reply is sent.
    Reply(Vec<u8>),
    /// [`ServerState::wait`] has the reply.
    Wait(Pending),
    /// Nothing is sent.
    Nothing,
}

/// A request that has to wait for its reply.
pub(crate) struct Pending {
    request: Vec<u8>,
    via: Via,
    /// What to look up at a replica; `None` for a foreign name.
    question: Option<Question>,
    _waiting: Place,
}

impl<S: Source> ServerState<S> {
    pub(crate) fn new(settings: Settings, source: Arc<S>, metrics: Arc<Metrics>) -> Self {
        Self {
            upstream: Upstream::new(settings.resolvers.clone(), settings.resolver_timeout),
            lookups: Lookups::default(),
            limiter: Mutex::new(RateLimiter::new(settings.rate, settings.clients_max)),
            waiting: Places::new(settings.waiting_max),
            started: Instant::now(),
            settings,
            source,
            metrics,
        }
    }

    /// A generator with a seed of the system.
    pub(crate) fn random() -> Random {
        Random::new(RandomState::new().hash_one(0))
    }

    /// The reply to a request, if nothing has to be waited for.
    pub(crate) fn answer(
        &self,
        request: &[u8],
        via: Via,
        peer: SocketAddr,
        random: &mut Random,
    ) -> Next {
        Metrics::count(&self.metrics.queries);
        let client = self.source.client(peer, via);
        if !self.allows(client) {
            Metrics::count(&self.metrics.limited);
            return self.failure(request, via, Failure::Refused);
        }
        let question =
            match dns::answer(request, via, &*self.source, &self.settings.answers, random) {
                Outcome::Reply(reply) => {
                    self.metrics.count_code(usize::from(reply.code));
                    if reply.stale {
                        Metrics::count(&self.metrics.stale);
                    }
                    return Next::Reply(reply.message);
                }
                Outcome::Drop => {
                    Metrics::count(&self.metrics.dropped);
                    return Next::Nothing;
                }
                Outcome::Miss(question) => {
                    Metrics::count(&self.metrics.misses);
                    Some(question)
                }
                Outcome::Forward => None,
            };
        match self.waiting.take(self.source.owner(client)) {
            Some(waiting) => {
                Next::Wait(Pending { request: request.to_vec(), via, question, _waiting: waiting })
            }
            None => {
                Metrics::count(&self.metrics.overloaded);
                self.failure(request, via, Failure::ServerFailure)
            }
        }
    }

    /// Waits for the reply to a request.
    pub(crate) async fn wait(&self, pending: Pending, random: &mut Random) -> Option<Vec<u8>> {
        let Pending { request, via, question, .. } = &pending;
        if let Some(question) = question {
            let lookup = self
                .lookups
                .share(question, self.resolve(question), &self.metrics.shared_lookups)
                .await;
            let names = Resolved { lookup, serial: self.source.serial() };
            match dns::answer(request, *via, &names, &self.settings.answers, random) {
                Outcome::Reply(reply) => {
                    self.metrics.count_code(usize::from(reply.code));
                    if reply.stale {
                        Metrics::count(&self.metrics.stale);
                    }
                    return Some(reply.message);
                }
                // An address that the cell does not know.
                Outcome::Forward => {}
                Outcome::Miss(_) | Outcome::Drop => {
                    return self.failed(request, *via, Failure::ServerFailure);
                }
            }
        }
        Metrics::count(&self.metrics.forwarded);
        let Some(reply) = self.upstream.ask(request, *via).await else {
            Metrics::count(&self.metrics.unanswered);
            return self.failed(request, *via, Failure::ServerFailure);
        };
        self.metrics.count_reply(&reply);
        if *via == Via::Udp && reply.len() > dns::reply_limit(request) {
            return dns::truncated(request, self.settings.answers.recursion);
        }
        Some(reply)
    }

    async fn resolve(&self, question: &Question) -> Lookup {
        let lookup = self.source.resolve(question.clone());
        timeout(self.settings.resolve_timeout, lookup).await.unwrap_or(Lookup::Missing)
    }

    fn allows(&self, client: Client) -> bool {
        let now = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        limiter.allows(client, Time::ZERO + Span(now))
    }

    fn failure(&self, request: &[u8], via: Via, failure: Failure) -> Next {
        self.failed(request, via, failure).map_or(Next::Nothing, Next::Reply)
    }

    fn failed(&self, request: &[u8], via: Via, failure: Failure) -> Option<Vec<u8>> {
        let reply = dns::failure(request, via, failure, self.settings.answers.recursion)?;
        self.metrics.count_reply(&reply);
        Some(reply)
    }
}

/// The one question of a request, looked up.
struct Resolved {
    lookup: Lookup,
    serial: u32,
}

impl Names for Resolved {
    fn lookup(&self, _: &Question) -> Lookup {
        self.lookup.clone()
    }

    fn serial(&self) -> u32 {
        self.serial
    }
}

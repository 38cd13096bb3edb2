//! Limits with a total and a share per client: connections of a server, and other resources that
//! clients may hold indefinitely.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{Asker, Beyond, Held, SharedBound};

use crate::Identity;

/// A limiter; clones share their state.
#[derive(Debug)]
pub struct Limiter<Who: Eq + Hash>(Arc<Inner<Who>>);

#[derive(Debug)]
struct Inner<Who> {
    /// The maximum of all clients together.
    max: usize,
    per_client: PerClient,
    held: Mutex<PermitCounts<Who>>,
    rejected: AtomicU64,
}

/// What one client may hold.
#[derive(Debug, Clone, Copy)]
enum PerClient {
    /// So many units, however many others hold: clients that are processes, hosts or machines.
    AtMost(usize),
    /// The share of a user.
    Share,
}

#[derive(Debug)]
struct PermitCounts<Who> {
    all: usize,
    by_one: HashMap<Who, usize>,
}

/// One or several units, held until dropped.
#[derive(Debug)]
pub struct Permit<Who: Eq + Hash> {
    limiter: Limiter<Who>,
    /// The holder; `None` after release.
    who: Option<Who>,
    /// The number of units.
    number: usize,
}

/// Why a permit was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Full<Who> {
    /// The client holds its maximum of this many units.
    One(Who, usize),
    /// All clients together hold this many units.
    All(usize),
}

impl<Who: Eq + Hash + Clone> Limiter<Who> {
    /// Creates a limiter with a maximum for all clients together, and for each of them.
    #[must_use]
    pub fn new(max: usize, max_per_client: usize) -> Self {
        Self::with(max, PerClient::AtMost(max_per_client))
    }

    /// Creates a limiter whose clients are users. Each user gets its share: see [`SharedBound`].
    #[must_use]
    pub fn shared(max: usize) -> Self {
        Self::with(max, PerClient::Share)
    }

    fn with(max: usize, per_client: PerClient) -> Self {
        let held = Mutex::new(PermitCounts { all: 0, by_one: HashMap::new() });
        Self(Arc::new(Inner { max, per_client, held, rejected: AtomicU64::new(0) }))
    }

    /// Takes one unit for a client.
    ///
    /// # Errors
    /// [`Full`].
    pub fn acquire(&self, who: Who) -> Result<Permit<Who>, Full<Who>> {
        self.acquire_many(who, 1, Asker::User)
    }

    /// Takes several units for a client, or none: for a resource that counts as several. An administrator
    /// takes from the whole of what users share.
    ///
    /// # Errors
    /// [`Full`].
    pub fn acquire_many(
        &self,
        who: Who,
        number: usize,
        asker: Asker,
    ) -> Result<Permit<Who>, Full<Who>> {
        self.taken(who, number, asker).inspect_err(|_| {
            self.0.rejected.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn taken(&self, who: Who, number: usize, asker: Asker) -> Result<Permit<Who>, Full<Who>> {
        let mut held = self.held();
        let of_one = held.by_one.get(&who).copied().unwrap_or_default();
        match self.0.per_client {
            PerClient::AtMost(most) if number > most.saturating_sub(of_one) => {
                return Err(Full::One(who, of_one));
            }
            PerClient::AtMost(_) if number > self.0.max.saturating_sub(held.all) => {
                return Err(Full::All(held.all));
            }
            PerClient::AtMost(_) => {}
            PerClient::Share => {
                let now = Held { all: units(held.all), own: units(of_one) };
                match SharedBound::new(units(self.0.max)).take(now, units(number), asker) {
                    Ok(()) => {}
                    Err(Beyond::Share { .. }) => return Err(Full::One(who, of_one)),
                    Err(Beyond::Bound { .. }) => return Err(Full::All(held.all)),
                }
            }
        }
        held.all += number;
        held.by_one.insert(who.clone(), of_one + number);
        drop(held);
        Ok(Permit { limiter: self.clone(), who: Some(who), number })
    }

    /// The maximum of all clients together.
    #[must_use]
    pub fn max(&self) -> usize {
        self.0.max
    }

    /// Who holds how many units, in no order.
    #[must_use]
    pub fn holders(&self) -> Vec<(Who, usize)> {
        self.held().by_one.iter().map(|(who, number)| (who.clone(), *number)).collect()
    }

    /// How many requests for units were rejected.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.0.rejected.load(Ordering::Relaxed)
    }
}

/// A number of units in the measure of a bound.
fn units(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl<Who: Eq + Hash> Limiter<Who> {
    fn give_back(&self, who: Who, number: usize) {
        let mut held = self.held();
        held.all = held.all.saturating_sub(number);
        let of_one = held.by_one.get(&who).copied().unwrap_or_default();
        if of_one > number {
            held.by_one.insert(who, of_one - number);
        } else {
            held.by_one.remove(&who);
        }
    }

    fn held(&self) -> MutexGuard<'_, PermitCounts<Who>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Who: Eq + Hash> Clone for Limiter<Who> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Who: Eq + Hash> Drop for Permit<Who> {
    fn drop(&mut self) {
        if let Some(who) = self.who.take() {
            self.limiter.give_back(who, self.number);
        }
    }
}

/// The holder of a connection. Peers without an identity of the cell share one client's maximum.
type ConnectionHolder = Option<Identity>;

/// The limits of a server's connections.
#[derive(Debug)]
pub(super) struct Connections {
    of_all: Limiter<ConnectionHolder>,
    /// Limits the tasks of each user together, since a user can have any number of them.
    of_tasks: Limiter<String>,
    /// Limits what one host can take of the share of those without an identity.
    of_hosts: Limiter<IpAddr>,
}

/// The permits of a connection. Masters need none.
#[derive(Debug)]
pub(super) struct OfConnection {
    _one: Option<Permit<ConnectionHolder>>,
    _task: Option<Permit<String>>,
    _host: Option<Permit<IpAddr>>,
}

impl Connections {
    /// A total for all but masters, a maximum for each identity, a quarter of the total for all tasks of
    /// one user, and a quarter of the maximum of a client for those at one address without an identity.
    pub(super) fn new(max: usize, max_per_client: usize) -> Self {
        let of_tasks = Limiter::new(max, (max / 4).max(max_per_client));
        let of_hosts = Limiter::new(max, max_per_client.div_ceil(4));
        Self { of_all: Limiter::new(max, max_per_client), of_tasks, of_hosts }
    }

    /// Takes permits for an authenticated connection; the error says which limit is reached.
    pub(super) fn acquire(
        &self,
        who: ConnectionHolder,
        from: IpAddr,
    ) -> Result<OfConnection, String> {
        let task = match &who {
            Some(Identity::Task { user, .. }) => {
                let place = self.of_tasks.acquire(user.clone());
                Some(place.map_err(|full| {
                    let (Full::One(_, number) | Full::All(number)) = full;
                    format!(
                        "the tasks of {user} have {number} connections, the maximum for the tasks of one user: \
                         look for a task that does not close them"
                    )
                })?)
            }
            _ => None,
        };
        let host = match who {
            Some(_) => None,
            None => Some(self.of_hosts.acquire(from).map_err(|full| {
                let (Full::One(_, number) | Full::All(number)) = full;
                format!(
                    "clients at {from} without an identity of this cell have {number} connections, the \
                     maximum for one address"
                )
            })?),
        };
        let one = if who == Some(Identity::Master) {
            Ok(None)
        } else {
            self.of_all.acquire(who).map(Some)
        };
        Ok(OfConnection { _one: one.map_err(|full| full.to_string())?, _task: task, _host: host })
    }
}

impl fmt::Display for Full<ConnectionHolder> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(Some(who), number) => write!(
                f,
                "{who} has {number} connections, the maximum for one client: look for a program that does not \
                 close them"
            ),
            Self::One(None, number) => {
                write!(
                    f,
                    "clients without an identity of this cell have {number} connections, their maximum"
                )
            }
            Self::All(number) => write!(
                f,
                "there are {number} connections, and the rest is reserved for masters: look for \
                 clients with many connections"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// An identity by name, or `None` for a peer outside of the cell.
    fn who(text: &str) -> Option<Identity> {
        (text != "nobody").then(|| text.parse().unwrap())
    }

    #[test]
    fn client_connections_are_bounded_per_client_and_in_total_except_for_masters() {
        let limiter = Connections::new(5, 2);
        let mut held = Vec::new();
        for (text, refused) in [
            ("user/ana", None),
            ("user/ana", None),
            ("user/ana", Some("user/ana has 2 connections, the maximum for one client")),
            ("task/ana/j/0", None),
            ("nobody", None),
            ("join/borglet/m1", None),
            ("user/ben", Some("there are 5 connections, and the rest is reserved for masters")),
            ("user/ana", Some("user/ana has 2 connections")),
            ("master", None),
            ("master", None),
            ("master", None),
        ] {
            match (limiter.acquire(who(text), HERE), refused) {
                (Ok(place), None) => held.push((text, place)),
                (Err(why), Some(refused)) => assert!(why.starts_with(refused), "{text}: {why}"),
                (taken, refused) => panic!("{text}: {taken:?}, not {refused:?}"),
            }
        }
        // Masters hold no permits to release.
        held.retain(|(text, _)| *text != "master");
        assert!(limiter.acquire(who("user/ben"), HERE).is_err());
        held.remove(0);
        held.push(("user/ben", limiter.acquire(who("user/ben"), HERE).unwrap()));
        assert!(limiter.acquire(who("user/ana"), HERE).is_err());
        drop(held);
        let (of_all, of_tasks) = (limiter.of_all.held(), limiter.of_tasks.held());
        assert!(of_all.by_one.is_empty() && of_all.all == 0);
        assert!(limiter.of_hosts.held().by_one.is_empty());
        assert!(of_tasks.by_one.is_empty() && of_tasks.all == 0);
    }

    #[test]
    fn one_host_leaves_room_for_other_browsers() {
        let limiter = Connections::new(16, 6);
        let there = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let held = [HERE, HERE, there].map(|from| limiter.acquire(None, from).unwrap());
        let why = limiter.acquire(None, HERE).unwrap_err();
        let expected = "clients at 127.0.0.1 without an identity of this cell have 2 connections, ";
        assert!(why.starts_with(expected), "{why}");
        limiter.acquire(None, there).unwrap();
        limiter.acquire(who("user/ana"), HERE).unwrap();
        drop(held);
        limiter.acquire(None, HERE).unwrap();
    }

    #[test]
    fn a_request_for_several_permits_gets_all_or_none() {
        let limiter = Limiter::new(8, 5);
        let held = limiter.acquire_many("ana", 3, Asker::User).unwrap();
        assert_eq!(limiter.acquire_many("ana", 3, Asker::User).unwrap_err(), Full::One("ana", 3));
        let two = limiter.acquire_many("ana", 2, Asker::User).unwrap();
        assert_eq!(limiter.acquire_many("ben", 4, Asker::User).unwrap_err(), Full::All(5));
        drop(held);
        let _four = limiter.acquire_many("ben", 4, Asker::User).unwrap();
        drop(two);
        let _ana = limiter.acquire_many("ana", 4, Asker::User).unwrap();
        assert_eq!(limiter.acquire("eva").unwrap_err(), Full::All(8));
    }

    #[test]
    fn users_share_and_administrators_have_room() {
        let limiter = Limiter::shared(16);
        let take = |who, number, asker| limiter.acquire_many(who, number, asker);
        let ana = take("ana", 7, Asker::User).unwrap();
        assert_eq!(take("ana", 1, Asker::User).unwrap_err(), Full::One("ana", 7));
        let _ben = take("ben", 4, Asker::User).unwrap();
        let _eva = take("eva", 2, Asker::User).unwrap();
        let _max = take("max", 1, Asker::User).unwrap();
        assert_eq!(take("amy", 1, Asker::User).unwrap_err(), Full::All(14));
        let _admin = take("root", 1, Asker::Administrator).unwrap();
        assert_eq!(take("root", 1, Asker::Administrator).unwrap_err(), Full::One("root", 1));
        assert_eq!((limiter.max(), limiter.rejected(), limiter.holders().len()), (16, 3, 5));
        drop(ana);
        let _eva_too = take("eva", 1, Asker::User).unwrap();
    }

    #[test]
    fn the_tasks_of_one_user_leave_room_for_others() {
        let limiter = Connections::new(16, 3);
        let take = |index: u32| limiter.acquire(who(&format!("task/ana/j/{index}")), HERE);
        let held: Vec<_> = (0..4).map(|index| take(index).unwrap()).collect();
        let why = take(4).unwrap_err();
        assert!(
            why.starts_with(
                "the tasks of ana have 4 connections, the maximum for the tasks of one"
            ),
            "{why}"
        );
        for others in ["user/ana", "task/ben/j/0"] {
            limiter.acquire(who(others), HERE).unwrap();
        }
        drop(held);
        take(4).unwrap();
    }
}

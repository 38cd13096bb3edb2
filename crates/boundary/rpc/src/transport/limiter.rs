//! Places of which there are a few for all, and fewer for each: connections of a server, and whatever
//! else somebody may hold for as long as they like.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Identity;

/// The places, and who has how many of them. Clones count together.
#[derive(Debug)]
pub struct Limiter<Who: Eq + Hash>(Arc<Inner<Who>>);

#[derive(Debug)]
struct Inner<Who> {
    /// As many as all of them may have, and as one of them may.
    most: usize,
    most_of_one: usize,
    held: Mutex<Counts<Who>>,
}

#[derive(Debug)]
struct Counts<Who> {
    all: usize,
    by_one: HashMap<Who, usize>,
}

/// A place, or several, held until it is dropped.
#[derive(Debug)]
pub struct Permit<Who: Eq + Hash> {
    limiter: Limiter<Who>,
    /// Whose it is; none when it is given back.
    who: Option<Who>,
    /// How many places it is.
    number: usize,
}

/// Why somebody gets no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Full<Who> {
    /// They have so many, which is as many as one may have.
    One(Who, usize),
    /// All together have so many.
    All(usize),
}

impl<Who: Eq + Hash + Clone> Limiter<Who> {
    /// So many places for all, and so many for each.
    #[must_use]
    pub fn new(most: usize, most_of_one: usize) -> Self {
        let held = Mutex::new(Counts { all: 0, by_one: HashMap::new() });
        Self(Arc::new(Inner { most, most_of_one, held }))
    }

    /// One more place for somebody.
    ///
    /// # Errors
    /// [`Full`].
    pub fn take(&self, who: Who) -> Result<Permit<Who>, Full<Who>> {
        self.take_several(who, 1)
    }

    /// So many more places for somebody, or none of them: for what is worth as much as several.
    ///
    /// # Errors
    /// [`Full`].
    pub fn take_several(&self, who: Who, number: usize) -> Result<Permit<Who>, Full<Who>> {
        let mut held = self.held();
        let of_one = held.by_one.get(&who).copied().unwrap_or_default();
        if number > self.0.most_of_one.saturating_sub(of_one) {
            return Err(Full::One(who, of_one));
        }
        if number > self.0.most.saturating_sub(held.all) {
            return Err(Full::All(held.all));
        }
        held.all += number;
        held.by_one.insert(who.clone(), of_one + number);
        drop(held);
        Ok(Permit { limiter: self.clone(), who: Some(who), number })
    }

    /// How many places one may have.
    #[must_use]
    pub fn most_of_one(&self) -> usize {
        self.0.most_of_one
    }
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

    fn held(&self) -> MutexGuard<'_, Counts<Who>> {
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

/// Of whom a connection is. Those who are nobody of the cell share what one may have.
type Holder = Option<Identity>;

/// The places of a server's connections.
#[derive(Debug)]
pub(super) struct Connections {
    of_all: Limiter<Holder>,
    /// A user's tasks are as many as they like.
    of_tasks: Limiter<String>,
}

/// What a connection holds. Masters' hold nothing.
#[derive(Debug)]
pub(super) struct OfConnection {
    _one: Option<Permit<Holder>>,
    _task: Option<Permit<String>>,
}

impl Connections {
    /// So many for all but masters, so many for each, and a quarter of all for the tasks of one user.
    pub(super) fn new(most: usize, most_of_one: usize) -> Self {
        let of_tasks = Limiter::new(most, (most / 4).max(most_of_one));
        Self { of_all: Limiter::new(most, most_of_one), of_tasks }
    }

    /// A place for a connection of whoever has just shown their certificate, or why there is none.
    pub(super) fn take(&self, who: Holder) -> Result<OfConnection, String> {
        let task = match &who {
            Some(Identity::Task { user, .. }) => {
                let place = self.of_tasks.take(user.clone());
                Some(place.map_err(|full| {
                    let (Full::One(_, number) | Full::All(number)) = full;
                    format!(
                        "the tasks of {user} have {number} connections, as many as those of one user \
                         may have: look for what does not close them"
                    )
                })?)
            }
            _ => None,
        };
        let one =
            if who == Some(Identity::Master) { Ok(None) } else { self.of_all.take(who).map(Some) };
        Ok(OfConnection { _one: one.map_err(|full| full.to_string())?, _task: task })
    }
}

impl fmt::Display for Full<Holder> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(Some(who), number) => write!(
                f,
                "{who} has {number} connections, as many as one may have: look for what does not \
                 close them"
            ),
            Self::One(None, number) => {
                write!(f, "those who are nobody of this cell have {number} connections")
            }
            Self::All(number) => write!(
                f,
                "there are {number} connections, and what is left is kept for masters: look for \
                 whoever has so many"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody by name, or nobody of the cell.
    fn who(text: &str) -> Option<Identity> {
        (text != "nobody").then(|| text.parse().unwrap())
    }

    #[test]
    fn each_has_a_share_all_have_a_bound_and_masters_have_neither() {
        let limiter = Connections::new(5, 2);
        let mut held = Vec::new();
        for (text, refused) in [
            ("user/ana", None),
            ("user/ana", None),
            ("user/ana", Some("user/ana has 2 connections, as many as one may have")),
            ("task/ana/j/0", None),
            ("nobody", None),
            ("join/borglet/m1", None),
            ("user/ben", Some("there are 5 connections, and what is left is kept for masters")),
            ("user/ana", Some("user/ana has 2 connections")),
            ("master", None),
            ("master", None),
            ("master", None),
        ] {
            match (limiter.take(who(text)), refused) {
                (Ok(place), None) => held.push((text, place)),
                (Err(why), Some(refused)) => assert!(why.starts_with(refused), "{text}: {why}"),
                (taken, refused) => panic!("{text}: {taken:?}, not {refused:?}"),
            }
        }
        // What a master gives back is nobody's.
        held.retain(|(text, _)| *text != "master");
        assert!(limiter.take(who("user/ben")).is_err());
        held.remove(0);
        held.push(("user/ben", limiter.take(who("user/ben")).unwrap()));
        assert!(limiter.take(who("user/ana")).is_err());
        drop(held);
        let (of_all, of_tasks) = (limiter.of_all.held(), limiter.of_tasks.held());
        assert!(of_all.by_one.is_empty() && of_all.all == 0);
        assert!(of_tasks.by_one.is_empty() && of_tasks.all == 0);
    }

    #[test]
    fn what_is_worth_several_places_takes_all_of_them_or_none() {
        let limiter = Limiter::new(8, 5);
        let held = limiter.take_several("ana", 3).unwrap();
        assert_eq!(limiter.take_several("ana", 3).unwrap_err(), Full::One("ana", 3));
        let two = limiter.take_several("ana", 2).unwrap();
        assert_eq!(limiter.take_several("ben", 4).unwrap_err(), Full::All(5));
        drop(held);
        let _four = limiter.take_several("ben", 4).unwrap();
        drop(two);
        let _ana = limiter.take_several("ana", 4).unwrap();
        assert_eq!(limiter.take("eva").unwrap_err(), Full::All(8));
    }

    #[test]
    fn the_tasks_of_one_user_leave_room_for_others() {
        let limiter = Connections::new(16, 3);
        let take = |index: u32| limiter.take(who(&format!("task/ana/j/{index}")));
        let held: Vec<_> = (0..4).map(|index| take(index).unwrap()).collect();
        let why = take(4).unwrap_err();
        assert!(
            why.starts_with("the tasks of ana have 4 connections, as many as those of one"),
            "{why}"
        );
        for others in ["user/ana", "task/ben/j/0"] {
            limiter.take(who(others)).unwrap();
        }
        drop(held);
        take(4).unwrap();
    }
}

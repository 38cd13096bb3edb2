//! Places of which there are a few for all, and fewer for each: connections of a server, and whatever
//! else somebody may hold for as long as they like.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Identity;

/// The places, and who has how many of them. Clones count together.
#[derive(Debug)]
pub struct Places<Who: Eq + Hash>(Arc<Inner<Who>>);

#[derive(Debug)]
struct Inner<Who> {
    /// As many as all of them may have, and as one of them may.
    most: usize,
    most_of_one: usize,
    held: Mutex<Held<Who>>,
}

#[derive(Debug)]
struct Held<Who> {
    all: usize,
    by_one: HashMap<Who, usize>,
}

/// A place that is held until it is dropped.
#[derive(Debug)]
pub struct Place<Who: Eq + Hash> {
    places: Places<Who>,
    /// Whose it is; none when it is given back.
    who: Option<Who>,
}

/// Why somebody gets no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Full<Who> {
    /// They have so many, which is as many as one may have.
    One(Who, usize),
    /// All together have so many.
    All(usize),
}

impl<Who: Eq + Hash + Clone> Places<Who> {
    /// So many places for all, and so many for each.
    #[must_use]
    pub fn new(most: usize, most_of_one: usize) -> Self {
        let held = Mutex::new(Held { all: 0, by_one: HashMap::new() });
        Self(Arc::new(Inner { most, most_of_one, held }))
    }

    /// One more place for somebody.
    ///
    /// # Errors
    /// [`Full`].
    pub fn take(&self, who: Who) -> Result<Place<Who>, Full<Who>> {
        let mut held = self.held();
        let of_one = held.by_one.get(&who).copied().unwrap_or_default();
        if of_one >= self.0.most_of_one {
            return Err(Full::One(who, of_one));
        }
        if held.all >= self.0.most {
            return Err(Full::All(held.all));
        }
        held.all += 1;
        held.by_one.insert(who.clone(), of_one + 1);
        drop(held);
        Ok(Place { places: self.clone(), who: Some(who) })
    }
}

impl<Who: Eq + Hash> Places<Who> {
    fn give_back(&self, who: Who) {
        let mut held = self.held();
        held.all = held.all.saturating_sub(1);
        let of_one = held.by_one.get(&who).copied().unwrap_or_default();
        if of_one > 1 {
            held.by_one.insert(who, of_one - 1);
        } else {
            held.by_one.remove(&who);
        }
    }

    fn held(&self) -> MutexGuard<'_, Held<Who>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Who: Eq + Hash> Clone for Places<Who> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Who: Eq + Hash> Drop for Place<Who> {
    fn drop(&mut self) {
        if let Some(who) = self.who.take() {
            self.places.give_back(who);
        }
    }
}

/// Of whom a connection is. Those who are nobody of the cell share what one may have.
pub(super) type Holder = Option<Identity>;

/// A place for a connection of whoever has just shown their certificate. Masters need none.
pub(super) fn for_connection(
    places: &Places<Holder>,
    who: Holder,
) -> Result<Option<Place<Holder>>, Full<Holder>> {
    if who == Some(Identity::Master) { Ok(None) } else { places.take(who).map(Some) }
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
        let places: Places<Holder> = Places::new(5, 2);
        let mut held = Vec::new();
        let one = |text: &str| Some(Full::One(who(text), 2));
        for (text, refused) in [
            ("user/ana", None),
            ("user/ana", None),
            ("user/ana", one("user/ana")),
            ("task/ana/j/0", None),
            ("nobody", None),
            ("join/borglet/m1", None),
            ("user/ben", Some(Full::All(5))),
            ("user/ana", one("user/ana")),
            ("master", None),
            ("master", None),
            ("master", None),
        ] {
            match for_connection(&places, who(text)) {
                Ok(place) => held.push((text, place)),
                Err(full) => {
                    assert_eq!(Some(full), refused, "{text}");
                    continue;
                }
            }
            assert_eq!(refused, None, "{text}");
        }
        // What a master gives back is nobody's.
        held.retain(|(text, _)| *text != "master");
        assert_eq!(places.take(who("user/ben")).unwrap_err(), Full::All(5));
        held.remove(0);
        held.push(("user/ben", Some(places.take(who("user/ben")).unwrap())));
        assert_eq!(places.take(who("user/ana")).unwrap_err(), Full::All(5));
        drop(held);
        assert!(places.held().by_one.is_empty() && places.held().all == 0);
    }
}

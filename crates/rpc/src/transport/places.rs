//! Who has how many of a server's connections: nobody but masters may have them all.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Identity;

/// The connections of everybody but masters, which are not counted. Clones count together.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// As many as all of them may have, and as one of them may.
    most: usize,
    most_of_one: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    /// By who they are. Those who are nobody of the cell share what one may have.
    by_one: HashMap<Option<Identity>, usize>,
}

/// A place that is held until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    /// Who counts as its holder; none for a master.
    counted: Option<(Places, Option<Identity>)>,
}

/// Why somebody gets no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Full {
    /// They have so many connections, which is as many as one may have.
    One(Option<Identity>, usize),
    /// All together have so many.
    All(usize),
}

impl Places {
    pub(super) fn new(most: usize, most_of_one: usize) -> Self {
        Self(Arc::new(Inner { most, most_of_one, held: Mutex::default() }))
    }

    /// A place for whoever has just shown their certificate.
    pub(super) fn take(&self, who: Option<Identity>) -> Result<Place, Full> {
        if who == Some(Identity::Master) {
            return Ok(Place { counted: None });
        }
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
        Ok(Place { counted: Some((self.clone(), who)) })
    }

    fn give_back(&self, who: Option<Identity>) {
        let mut held = self.held();
        held.all = held.all.saturating_sub(1);
        let of_one = held.by_one.get(&who).copied().unwrap_or_default();
        if of_one > 1 {
            held.by_one.insert(who, of_one - 1);
        } else {
            held.by_one.remove(&who);
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((places, who)) = self.counted.take() {
            places.give_back(who);
        }
    }
}

impl fmt::Display for Full {
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
        let places = Places::new(5, 2);
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
            match places.take(who(text)) {
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
        held.push(("user/ben", places.take(who("user/ben")).unwrap()));
        assert_eq!(places.take(who("user/ana")).unwrap_err(), Full::All(5));
        drop(held);
        assert!(places.held().by_one.is_empty() && places.held().all == 0);
    }
}

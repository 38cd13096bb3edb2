//! Where in the stream of events a reader is.

use std::fmt;

/// A place in the stream: in front of the event of this name, whether there is one or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Cursor {
    /// The index of the operation in the log.
    pub index: u64,
    /// The event's place among those of the operation, from 0.
    pub sub: u32,
}

impl Cursor {
    /// In front of every event.
    pub const START: Self = Self { index: 0, sub: 0 };

    /// In front of all events of an operation.
    #[must_use]
    pub fn at(index: u64) -> Self {
        Self { index, sub: 0 }
    }

    /// Right behind the event of this name.
    #[must_use]
    pub fn after(self) -> Self {
        match self.sub.checked_add(1) {
            Some(sub) => Self { sub, ..self },
            None => Self::at(self.index.saturating_add(1)),
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.sub)
    }
}

//! A machine that is short of a resource although its tasks are within what they reserved.

use crate::Dimension;

/// A machine that is, or was a while ago, short of a resource: the reservations of its tasks were
/// wrong (paper, section 5.5). Its Borglet throttles and evicts at once; this is for the master, which
/// moves tasks away if that does not help (paper, section 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shortage {
    /// The resource.
    pub dimension: Dimension,
    /// Whether it goes on.
    pub state: ShortageState,
}

/// Whether a shortage goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShortageState {
    /// It goes on although the machine throttled or evicted tasks.
    Persists,
    /// It is over, and lately was not.
    Eased,
}

impl Shortage {
    /// Whether it goes on.
    #[must_use]
    pub fn persists(&self) -> bool {
        self.state == ShortageState::Persists
    }
}

/// `short of memory`, `lately short of CPU`.
impl std::fmt::Display for Shortage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lately = if self.persists() { "" } else { "lately " };
        write!(f, "{lately}short of {}", self.dimension)
    }
}

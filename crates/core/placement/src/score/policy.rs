//! Packing policies.

/// How tasks are packed (paper, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Leaves as little as possible of one resource that is unusable for lack of another.
    #[default]
    Hybrid,
    /// Leaves as little as possible of the machine.
    BestFit,
    /// Chooses the machine whose cost rises least: tasks are spread, with headroom everywhere.
    EPvm,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Hybrid, Self::BestFit, Self::EPvm];

    /// Its name in flags and output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::BestFit => "best-fit",
            Self::EPvm => "e-pvm",
        }
    }
}

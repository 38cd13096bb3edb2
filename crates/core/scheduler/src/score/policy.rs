//! Packing policies.

/// How tasks are packed (paper, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// As little as possible is left of one resource that cannot be used for want of another.
    #[default]
    Hybrid,
    /// As little as possible is left of the machine.
    BestFit,
    /// The machine whose cost rises least: tasks are spread, with headroom everywhere.
    EPvm,
}

impl Policy {
    /// All of them.
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

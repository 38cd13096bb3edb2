//! How tasks are packed onto machines (paper, section 3.2).

use std::fmt;
use std::str::FromStr;

use crate::NotListed;

/// Which machine is best for a task of those on which it fits equally well otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PackingPolicy {
    /// Leaves as little as possible of one resource that is unusable for lack of another: the policy of a new cell.
    #[default]
    Hybrid,
    /// Leaves as little as possible of the machine.
    BestFit,
    /// Chooses the machine whose cost rises least (E-PVM): tasks are spread, with headroom everywhere.
    WorstFit,
}

impl PackingPolicy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Hybrid, Self::BestFit, Self::WorstFit];

    /// The name used in commands, files and output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::BestFit => "best-fit",
            Self::WorstFit => "worst-fit",
        }
    }
}

impl FromStr for PackingPolicy {
    type Err = NotListed;

    fn from_str(text: &str) -> Result<Self, NotListed> {
        Self::ALL.into_iter().find(|policy| policy.name() == text).ok_or_else(|| {
            let known = Self::ALL.into_iter().map(Self::name).collect();
            NotListed { text: text.to_owned(), what: "packing policy", known }
        })
    }
}

impl fmt::Display for PackingPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_are_shown() {
        for policy in PackingPolicy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!(
            "E-PVM".parse::<PackingPolicy>().expect_err("not one").to_string(),
            "'E-PVM' is not a packing policy: use one of hybrid, best-fit, worst-fit"
        );
    }
}

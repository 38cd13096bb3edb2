//! Sums of resources that cannot overflow.

use model::{Dimension, Resources};

/// Exact sums of resources: the sum over all users may exceed 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total([u128; 4]);

impl Total {
    /// Adds resources.
    #[must_use]
    pub fn plus(self, more: impl Into<Self>) -> Self {
        self.zip(more.into(), u128::saturating_add)
    }

    /// Subtracts resources, saturating at zero in every dimension.
    #[must_use]
    pub fn minus(self, less: impl Into<Self>) -> Self {
        self.zip(less.into(), u128::saturating_sub)
    }

    /// The maximum in every dimension.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        self.zip(other, u128::max)
    }

    /// A percentage of it, rounded down.
    #[must_use]
    pub fn percent(self, percent: u32) -> Self {
        Self(self.0.map(|amount| amount.saturating_mul(percent.into()) / 100))
    }

    /// The amount in one dimension, in that dimension's unit.
    #[must_use]
    pub fn get(&self, dimension: Dimension) -> u128 {
        let [cpu, ram, disk, disk_rate] = self.0;
        match dimension {
            Dimension::Cpu => cpu,
            Dimension::Ram => ram,
            Dimension::Disk => disk,
            Dimension::DiskRate => disk_rate,
        }
    }

    /// Converts to 64 bits; every dimension is capped at `i64::MAX`, the maximum of the formats.
    #[must_use]
    pub fn resources(&self) -> Resources {
        let most = i64::MAX.unsigned_abs();
        Resources::each(|dimension| {
            u64::try_from(self.get(dimension)).map_or(most, |is| is.min(most))
        })
    }

    /// Whether some dimension exceeds both the grant and its value before.
    #[must_use]
    pub fn grows_beyond(&self, before: &Self, granted: &Self) -> bool {
        let more = |dimension: &Dimension| {
            let after = self.get(*dimension);
            after > granted.get(*dimension) && after > before.get(*dimension)
        };
        Dimension::ALL.iter().any(more)
    }

    fn zip(self, other: Self, f: impl Fn(u128, u128) -> u128) -> Self {
        let ([a, b, c, d], [e, g, h, i]) = (self.0, other.0);
        Self([f(a, e), f(b, g), f(c, h), f(d, i)])
    }
}

impl From<Resources> for Total {
    fn from(resources: Resources) -> Self {
        Self(Dimension::ALL.map(|dimension| resources.get(dimension).into()))
    }
}

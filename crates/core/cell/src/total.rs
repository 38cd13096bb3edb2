//! Sums of resources that cannot overflow.

use model::{Dimension, Resources};

/// Exact sums of resources: what all users together ask for may be beyond a 64-bit number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total([u128; 4]);

impl Total {
    /// With so much more.
    #[must_use]
    pub fn plus(self, more: impl Into<Self>) -> Self {
        self.zip(more.into(), u128::saturating_add)
    }

    /// With so much less, in every dimension at least nothing.
    #[must_use]
    pub fn minus(self, less: impl Into<Self>) -> Self {
        self.zip(less.into(), u128::saturating_sub)
    }

    /// The greater of both, in every dimension.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        self.zip(other, u128::max)
    }

    /// So many hundredths of it, rounded down.
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

    /// It in 64 bits, in every dimension at most `i64::MAX`, which is what formats hold.
    #[must_use]
    pub fn resources(&self) -> Resources {
        let most = i64::MAX.unsigned_abs();
        Resources::each(|dimension| {
            u64::try_from(self.get(dimension)).map_or(most, |is| is.min(most))
        })
    }

    /// Whether in some dimension it is more than is granted, and more than it was.
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

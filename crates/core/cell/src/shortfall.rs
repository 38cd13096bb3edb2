//! Why quota is insufficient or will be, and what would be admitted.

use model::{Band, JobName, Resources, Time, UserName};

use crate::Total;

/// The quota that a user lacks for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The user.
    pub user: UserName,
    /// The band.
    pub band: Band,
    /// The job.
    pub job: JobName,
    /// What the job's live tasks request together.
    pub asked: Resources,
    /// What they requested before in this band; zero if the job is new.
    pub had: Resources,
    /// What the user's other jobs are charged in this band.
    pub others: Resources,
    /// What the user is currently granted in this band.
    pub granted: Resources,
    /// Number of tasks of the job.
    pub tasks: u32,
    /// Number of tasks that would be admitted; 0 if none would, or if the number cannot change.
    pub tasks_that_pass: u32,
    /// The other bands in which the whole job would be admitted, highest first. The free band,
    /// which always admits it, is not listed.
    pub bands_that_pass: Vec<Band>,
}

impl Shortfall {
    /// The missing amount in each dimension.
    #[must_use]
    pub fn short(&self) -> Resources {
        let after = Total::from(self.others).plus(self.asked);
        let before = Total::from(self.others).plus(self.had);
        let missing = after.minus(self.granted).resources();
        // Only growth is rejected, dimension by dimension.
        let grows = |dimension| after.get(dimension) > before.get(dimension);
        Resources::each(|dimension| if grows(dimension) { missing.get(dimension) } else { 0 })
    }

    /// The quota that the user's other jobs leave.
    #[must_use]
    pub fn left(&self) -> Resources {
        self.granted.minus(self.others)
    }
}

/// Quota that expires soon: grants of a user end, and from then on they are charged more in a band than
/// they are granted. That ends no task; no job is admitted or grows until they are granted more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiringQuota {
    /// The band.
    pub band: Band,
    /// When the first grant ends without which the present charge exceeds the quota.
    pub at: Time,
    /// By how much it does from then on.
    pub above: Resources,
}

/// Why the cell cannot promise a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversold {
    /// The band.
    pub band: Band,
    /// The amount to be granted.
    pub asked: Resources,
    /// The amount that can be granted for the whole period.
    pub left: Resources,
    /// The capacity of all machines together.
    pub capacity: Resources,
    /// Percent of the capacity that may be granted.
    pub percent: u32,
}

//! Why quota does not suffice, and what would pass.

use std::fmt;

use model::{Band, Dimension, JobName, Resources, UserName};

use crate::state::Total;

/// What a user's quota lacks for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Whose quota.
    pub user: UserName,
    /// In which band.
    pub band: Band,
    /// For which job.
    pub job: JobName,
    /// What its living tasks ask for together.
    pub asked: Resources,
    /// What they asked for before in this band; nothing where it is new.
    pub had: Resources,
    /// What the user's other jobs are charged in this band.
    pub others: Resources,
    /// What the user is granted in this band now.
    pub granted: Resources,
    /// How many tasks the job has.
    pub tasks: u32,
    /// With how many of them it would pass; 0 where with none, and where that cannot change.
    pub tasks_that_pass: u32,
    /// The other bands in which all of it would pass, the highest first; the free band, where it
    /// always does, is not among them.
    pub bands_that_pass: Vec<Band>,
}

impl Shortfall {
    /// How much is missing in each dimension.
    #[must_use]
    pub fn short(&self) -> Resources {
        let after = Total::from(self.others).plus(self.asked);
        let before = Total::from(self.others).plus(self.had);
        let missing = after.minus(self.granted).resources();
        // Only growth is refused, dimension by dimension.
        let grows = |dimension| after.get(dimension) > before.get(dimension);
        Resources::each(|dimension| if grows(dimension) { missing.get(dimension) } else { 0 })
    }

    /// What of the quota the user's other jobs leave.
    #[must_use]
    pub fn left(&self) -> Resources {
        self.granted.minus(self.others)
    }

    /// What would pass without more quota, in words.
    #[must_use]
    pub fn what_would_pass(&self) -> String {
        let mut ways = Vec::new();
        if self.tasks_that_pass > 0 {
            ways.push(format!("{} of its {} tasks", self.tasks_that_pass, self.tasks));
        }
        ways.extend(self.bands_that_pass.iter().map(|band| band.usual().to_string()));
        let free = format!("{}, which is never charged", Band::Free.usual());
        match ways.is_empty() {
            true => free,
            false => format!("{}, or {free}", ways.join(", ")),
        }
    }

    /// The command with which what is missing is granted.
    #[must_use]
    pub fn grant(&self) -> String {
        let short = self.short();
        let missing = Dimension::ALL.into_iter().filter(|dimension| short.get(*dimension) > 0);
        let words = missing.map(|of| format!(" {}={}", of.word(), of.write(short.get(of))));
        format!("bourg quota grant {} {}{}", self.user, self.band, words.collect::<String>())
    }
}

/// `ana's production quota is 0.5 cores short: web asks 1 core, 0.5 cores of 2 cores are left; …`.
impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, band, job, .. } = self;
        let short = self.short();
        let named = |of: &Resources| {
            // Of what is not missing nothing is said.
            Resources::each(|dimension| match short.get(dimension) {
                0 => 0,
                _ => of.get(dimension),
            })
        };
        match self.granted == Resources::default() {
            true => write!(f, "{user} has no {band} quota")?,
            false => write!(f, "{user}'s {band} quota is {} short", short.in_words())?,
        }
        write!(f, ": {job} asks {}", named(&self.asked).in_words())?;
        if self.had != Resources::default() {
            write!(f, " instead of {}", named(&self.had).in_words())?;
        }
        let (left, granted) = (named(&self.left()), named(&self.granted));
        if granted != Resources::default() {
            write!(f, ", with {} of {} left", left.in_words(), granted.in_words())?;
        } else if named(&self.others) != Resources::default() {
            write!(f, " beside {} that are charged", named(&self.others).in_words())?;
        }
        let (ways, grant) = (self.what_would_pass(), self.grant());
        write!(
            f,
            "; what would pass: {ways}; ask for more: {grant} (an administrator or a user with the \
             capability grant-quota may)"
        )
    }
}

/// Why a grant is more than the cell can promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversold {
    /// Of which band.
    pub band: Band,
    /// How much was to be granted.
    pub asked: Resources,
    /// How much of it can be, for the whole of the period.
    pub left: Resources,
    /// What the machines have together.
    pub capacity: Resources,
    /// How much of that may be granted, in percent.
    pub percent: u32,
}

impl fmt::Display for Oversold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { band, asked, left, capacity, percent } = self;
        let (asked, left, capacity) = (asked.in_words(), left.in_words(), capacity.in_words());
        match band {
            Band::Production | Band::Monitoring => write!(
                f,
                "production and monitoring quota together may not exceed the cell's capacity \
                 ({capacity}): asked: {asked}; left for the whole of that time: {left}; grant \
                 less, revoke a grant (bourg quota show), or add machines"
            ),
            _ => write!(
                f,
                "{band} quota may be {percent} % of the cell's capacity ({capacity}): asked: \
                 {asked}; left for the whole of that time: {left}; grant less, revoke a grant \
                 (bourg quota show), or oversell it further (bourg quota oversell {band} PERCENT)"
            ),
        }
    }
}

//! Why quota is insufficient, and what would be admitted.

use std::fmt;

use model::{Band, Dimension, JobName, Resources, UserName};

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

    /// What would be admitted without more quota, in words.
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

    /// The command that grants what is missing.
    #[must_use]
    pub fn grant(&self) -> String {
        let short = self.short();
        let missing = Dimension::ALL.into_iter().filter(|dimension| short.get(*dimension) > 0);
        let words = missing.map(|of| format!(" {}={}", of.word(), of.write(short.get(of))));
        format!("bourg quota grant {} {}{}", self.user, self.band, words.collect::<String>())
    }

    /// The text, given the amount that can still be granted in the band: the command that grants
    /// what is missing is named only where it would succeed.
    #[must_use]
    pub fn said(&self, grantable: &Resources) -> String {
        if self.short().first_above(grantable).is_none() {
            return self.to_string();
        }
        let (band, left) = (self.band, self.named(grantable).in_words());
        let oversell = match band {
            Band::Production | Band::Monitoring => String::new(),
            _ => format!("oversell the band further (bourg quota oversell {band} PERCENT), "),
        };
        format!(
            "{}; more cannot be granted now ({left} left to grant in {band}): revoke a grant first \
             (bourg quota show), {oversell}or add machines",
            Lacks(self)
        )
    }

    /// Dimensions in which nothing is missing are left out.
    fn named(&self, of: &Resources) -> Resources {
        let short = self.short();
        Resources::each(|dimension| match short.get(dimension) {
            0 => 0,
            _ => of.get(dimension),
        })
    }
}

/// What is missing, and what would be admitted without it.
struct Lacks<'a>(&'a Shortfall);

impl fmt::Display for Lacks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.0;
        let Shortfall { user, band, job, granted, had, others, .. } = short;
        let named = |of: &Resources| short.named(of);
        match *granted == Resources::default() {
            true => write!(f, "{user} has no {band} quota")?,
            false => write!(f, "{user}'s {band} quota is {} short", short.short().in_words())?,
        }
        write!(f, ": {job} requests {}", named(&short.asked).in_words())?;
        if *had != Resources::default() {
            write!(f, " instead of {}", named(had).in_words())?;
        }
        let (left, granted) = (named(&short.left()), named(granted));
        if granted != Resources::default() {
            write!(f, ", with {} of {} left", left.in_words(), granted.in_words())?;
        } else if named(others) != Resources::default() {
            write!(f, " in addition to {} already charged", named(others).in_words())?;
        }
        write!(f, "; what would be admitted: {}", short.what_would_pass())
    }
}

/// `ana's production quota is 0.5 cores short: web requests 1 core, 0.5 cores of 2 cores are left; …`.
impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grant = self.grant();
        write!(
            f,
            "{}; ask for more: {grant} (an administrator or a user with the capability grant-quota may)",
            Lacks(self)
        )
    }
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

#[cfg(test)]
mod tests {
    use model::{Bytes, MilliCores};

    use super::*;

    #[test]
    fn a_grant_is_proposed_only_where_it_would_be_made() {
        let of = |milli, mib: u64| Resources {
            cpu: MilliCores(milli),
            ram: Bytes(mib << 20),
            ..Resources::default()
        };
        let short = |band| Shortfall {
            user: "ana".parse().expect("a name"),
            band,
            job: "web".parse().expect("a name"),
            asked: of(300, 64),
            had: Resources::default(),
            others: Resources::default(),
            granted: of(200, 64),
            tasks: 3,
            tasks_that_pass: 2,
            bands_that_pass: Vec::new(),
        };
        let lacks = |band| {
            format!(
                "ana's {band} quota is 0.1 cores short: web requests 0.3 cores, with 0.2 cores of 0.2 cores \
                 left; what would be admitted: 2 of its 3 tasks, or free(25), which is never charged; "
            )
        };
        let says = |band, left: Resources| {
            short(band).said(&left).strip_prefix(&lacks(band)).map(str::to_owned)
        };
        for (band, left, more) in [
            (
                Band::Production,
                of(100, 0),
                "ask for more: bourg quota grant ana production cpu=0.1 (an administrator or a user with \
                 the capability grant-quota may)",
            ),
            (
                Band::Production,
                of(99, 64),
                "more cannot be granted now (0.099 cores left to grant in production): revoke a grant \
                 first (bourg quota show), or add machines",
            ),
            (
                Band::Mid,
                of(0, 64),
                "more cannot be granted now (nothing left to grant in mid): revoke a grant first (bourg \
                 quota show), oversell the band further (bourg quota oversell mid PERCENT), or add \
                 machines",
            ),
        ] {
            assert_eq!(says(band, left).as_deref(), Some(more), "{band}");
        }
    }
}

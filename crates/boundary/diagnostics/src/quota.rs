//! Why quota is insufficient, what would be admitted without it, and how to get more.

use std::fmt;

use cell::{Oversold, Shortfall};
use model::{Band, Dimension, Resources};

/// The sentence for insufficient quota. With the amount that can still be granted in the band, the command
/// that grants what is missing is named only where it would succeed.
#[must_use]
pub fn insufficient_quota(short: &Shortfall, grantable: Option<&Resources>) -> String {
    match grantable {
        Some(grantable) if short.short().first_above(grantable).is_some() => {
            let (band, left) = (short.band, named(short, grantable).in_words());
            let oversell = match band {
                Band::Production | Band::Monitoring => String::new(),
                _ => {
                    format!("oversell the band further (bourg quota oversell {band} PERCENT), ")
                }
            };
            format!(
                "{}; more cannot be granted now ({left} left to grant in {band}): revoke a grant \
                 first (bourg quota show), {oversell}or add machines",
                Lacks(short)
            )
        }
        _ => format!(
            "{}; ask for more: {} (an administrator or a user with the capability grant-quota may)",
            Lacks(short),
            grant(short)
        ),
    }
}

/// What would be admitted without more quota.
fn what_would_pass(short: &Shortfall) -> String {
    let mut ways = Vec::new();
    if short.tasks_that_pass > 0 {
        ways.push(format!("{} of its {} tasks", short.tasks_that_pass, short.tasks));
    }
    ways.extend(short.bands_that_pass.iter().map(|band| band.usual().to_string()));
    let free = format!("{}, which is never charged", Band::Free.usual());
    match ways.is_empty() {
        true => free,
        false => format!("{}, or {free}", ways.join(", ")),
    }
}

/// The command that grants what is missing.
fn grant(of: &Shortfall) -> String {
    let short = of.short();
    let missing = Dimension::ALL.into_iter().filter(|dimension| short.get(*dimension) > 0);
    let words = missing.map(|of| format!(" {}={}", of.word(), of.write(short.get(of))));
    format!("bourg quota grant {} {}{}", of.user, of.band, words.collect::<String>())
}

/// An amount without the dimensions in which nothing is missing.
fn named(short: &Shortfall, of: &Resources) -> Resources {
    let short = short.short();
    Resources::each(|dimension| match short.get(dimension) {
        0 => 0,
        _ => of.get(dimension),
    })
}

/// What is missing, and what would be admitted without it.
struct Lacks<'a>(&'a Shortfall);

impl fmt::Display for Lacks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.0;
        let Shortfall { user, band, job, granted, had, others, .. } = short;
        let named = |of: &Resources| named(short, of);
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
        write!(f, "; what would be admitted: {}", what_would_pass(short))
    }
}

/// The sentence for a grant that the cell cannot promise.
#[must_use]
pub fn oversold(oversold: &Oversold) -> String {
    let Oversold { band, asked, left, capacity, percent } = oversold;
    let (asked, left, capacity) = (asked.in_words(), left.in_words(), capacity.in_words());
    match band {
        Band::Production | Band::Monitoring => format!(
            "production and monitoring quota together may not exceed the cell's capacity \
                 ({capacity}): asked: {asked}; left for the whole of that time: {left}; grant \
                 less, revoke a grant (bourg quota show), or add machines"
        ),
        _ => format!(
            "{band} quota may be {percent} % of the cell's capacity ({capacity}): asked: \
                 {asked}; left for the whole of that time: {left}; grant less, revoke a grant \
                 (bourg quota show), or oversell it further (bourg quota oversell {band} PERCENT)"
        ),
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
            insufficient_quota(&short(band), Some(&left))
                .strip_prefix(&lacks(band))
                .map(str::to_owned)
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

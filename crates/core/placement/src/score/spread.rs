//! Spread over failure domains (paper, sections 3.2 and 4): the share of the job's tasks that would
//! be lost with a machine, a rack or a power domain, before this task is placed. A job of three
//! tasks is therefore spread at almost any cost, and a job of a thousand is not: it loses little
//! with one machine.

use super::WHOLE;

pub(crate) fn share(there: u32, tasks: u32) -> u32 {
    let share = u64::from(there) * u64::from(WHOLE) / u64::from(tasks.max(1));
    u32::try_from(share).unwrap_or(WHOLE).min(WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_score_is_the_share_of_the_job() {
        for (there, tasks, expected) in
            [(0, 1, 0), (1, 2, 2_048), (2, 3, 2_730), (1, 1_000, 4), (1, 5_000, 0), (9, 3, 4_096)]
        {
            assert_eq!(share(there, tasks), expected, "{there} of {tasks}");
        }
    }
}

//! The batch queue in words: places, shares, what jobs wait for and when they are expected to start.

use api::v1;
use api::v1::queue_wait::{Lacking, What};
use model::{Resources, ShareWeights, Span, Time};

use crate::amount::UNMEASURED;

/// Shares above a hundred times the cell, such as of a resource that no machine has, are not told apart.
const SHARE_SHOWN: u64 = 100_000_000_000;

/// What a job waits for, in a word or two.
#[must_use]
pub fn queue_wait(wait: Option<&v1::QueueWait>) -> String {
    match wait.and_then(|wait| wait.what.as_ref()) {
        None => UNMEASURED.to_owned(),
        Some(What::Jobs(jobs)) => match jobs.jobs.as_slice() {
            [] => "other jobs".to_owned(),
            [one] => format!("after {one}"),
            [first, rest @ ..] => format!("after {first} +{}", rest.len()),
        },
        Some(What::AtOnce(tasks)) => format!("atOnce {tasks}"),
        Some(What::Machines(_)) => "more machines".to_owned(),
        Some(What::Pass(_)) => "next pass".to_owned(),
        Some(What::Reservation(_)) => "reservation".to_owned(),
        Some(What::Room(_)) => "room".to_owned(),
        Some(What::Turn(_)) => "turn".to_owned(),
    }
}

/// The same in a sentence without its end, with what is needed.
#[must_use]
pub fn queue_wait_in_full(wait: Option<&v1::QueueWait>, time: u64) -> String {
    match wait.and_then(|wait| wait.what.as_ref()) {
        None => "it is its user's turn and there is room".to_owned(),
        Some(What::Jobs(jobs)) => format!("these have finished: {}", jobs.jobs.join(", ")),
        Some(What::AtOnce(tasks)) => {
            format!("tasks of its own end: at most {tasks} may run at once (atOnce)")
        }
        Some(What::Machines(lacking)) => {
            let (needs, has) = amounts(lacking);
            format!(
                "there are more machines: its next tasks need {needs}, and all machines have {has}"
            )
        }
        Some(What::Pass(_)) => "the next pass enables it".to_owned(),
        Some(What::Reservation(at)) => {
            let wait = about(Time(*at).since(Time(time)));
            format!("there is room, which is reserved for it and expected in about {wait}")
        }
        Some(What::Room(lacking)) => {
            let (needs, has) = amounts(lacking);
            format!("there is room: its next tasks need {needs}, and {has} is free")
        }
        Some(What::Turn(behind)) => {
            format!("it does not delay {behind}, for which room is reserved")
        }
    }
}

fn amounts(lacking: &Lacking) -> (String, String) {
    let shown = |amount: Option<v1::Resources>| {
        let amount = amount.and_then(|amount| Resources::try_from(amount).ok());
        amount.map_or_else(|| UNMEASURED.to_owned(), |amount| amount.to_string())
    };
    (shown(lacking.needs), shown(lacking.has))
}

/// A share and its resource: `33.33 % cpu`.
#[must_use]
pub fn queue_share(share: u64, dimension: &str) -> String {
    let percent = match share {
        SHARE_SHOWN.. => "> 10000 %".to_owned(),
        share => {
            let hundredths = share / 100_000;
            format!("{}.{:02} %", hundredths / 100, hundredths % 100)
        }
    };
    format!("{percent} {dimension}").trim_end().to_owned()
}

/// When a job is expected to start: `in 9 m`, `now`; [`UNMEASURED`] if that is not known.
#[must_use]
pub fn queue_start(place: &v1::QueuePlace, time: u64) -> String {
    match place.starts {
        0 => UNMEASURED.to_owned(),
        at if at <= time => "now".to_owned(),
        at => format!("in {}", about(Time(at).since(Time(time)))),
    }
}

/// What the expected start of a job is taken from; empty if it is not known.
#[must_use]
pub fn queue_start_basis(place: &v1::QueuePlace) -> &str {
    match (place.starts, place.starts_by.as_str()) {
        (0, _) | (_, "nothing") => "",
        (_, basis) => basis,
    }
}

/// A job's place and its expected start: `3rd in ana's queue, expected to start in about 9 m (expectedRuntime)`.
#[must_use]
pub fn queue_place(place: &v1::QueuePlace, time: u64) -> String {
    let start = match place.starts {
        0 => String::new(),
        at if at <= time => ", expected to start now".to_owned(),
        at => {
            let wait = about(Time(at).since(Time(time)));
            let basis = match queue_start_basis(place) {
                "" => String::new(),
                basis => format!(" ({basis})"),
            };
            format!(", expected to start in about {wait}{basis}")
        }
    };
    format!("{}{start}", queue_position(place))
}

/// `3rd in ana's queue`.
#[must_use]
pub fn queue_position(place: &v1::QueuePlace) -> String {
    match place.place_of_user {
        0 => format!("in {}'s queue, without a turn yet", place.user),
        number => format!("{} in {}'s queue", ordinal(number), place.user),
    }
}

/// `1st`, `2nd`, `3rd`, `11th`, `21st`.
fn ordinal(number: u32) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// A user's weights, as they are set: `cpu 2, ram 1, disk 1, disk-rate 1`; `1` if all are 1.
#[must_use]
pub fn queue_weights(share: &v1::UserShare) -> String {
    let weights = share.weights.and_then(|weights| ShareWeights::try_from(weights).ok());
    match weights {
        None => UNMEASURED.to_owned(),
        Some(weights) if weights == ShareWeights::default() => "1".to_owned(),
        Some(weights) => weights.to_string(),
    }
}

/// A time to come, to the second below a minute, else to the minute.
fn about(span: Span) -> Span {
    const MINUTE: u64 = 60_000_000;
    match span.0 {
        ..MINUTE => Span(span.0.div_ceil(1_000_000) * 1_000_000),
        long => Span(long.div_ceil(MINUTE) * MINUTE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_line() {
        let place = |place_of_user, starts, by: &str| v1::QueuePlace {
            user: "ana".to_owned(),
            place_of_user,
            starts,
            starts_by: by.to_owned(),
            ..v1::QueuePlace::default()
        };
        let second = 1_000_000;
        for (place, expected) in [
            (place(0, 0, ""), "in ana's queue, without a turn yet"),
            (place(2, 0, ""), "2nd in ana's queue"),
            (place(1, 1, "nothing"), "1st in ana's queue, expected to start now"),
            (
                place(3, 521 * second, "expectedRuntime"),
                "3rd in ana's queue, expected to start in about 9 m (expectedRuntime)",
            ),
            (
                place(11, 31 * second, "assumed"),
                "11th in ana's queue, expected to start in about 30 s (assumed)",
            ),
        ] {
            assert_eq!(queue_place(&place, second), expected);
        }
    }

    #[test]
    fn numbers_have_their_endings() {
        let shown = [1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111].map(ordinal);
        let expected =
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "101st", "111th"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn shares_are_in_percent() {
        for (share, dimension, expected) in [
            (0, "", "0.00 %"),
            (333_333_333, "cpu", "33.33 % cpu"),
            (1_000_000_000, "ram", "100.00 % ram"),
            (u64::MAX, "disk", "> 10000 % disk"),
        ] {
            assert_eq!(queue_share(share, dimension), expected);
        }
    }

    #[test]
    fn waits_are_words() {
        let wait = |what| v1::QueueWait { what: Some(what) };
        let jobs = |jobs: &[&str]| {
            let jobs = jobs.iter().map(|job| (*job).to_owned()).collect();
            wait(What::Jobs(v1::queue_wait::Jobs { jobs }))
        };
        for (wait, expected) in [
            (jobs(&["ana/a"]), "after ana/a"),
            (jobs(&["ana/a", "ana/b", "ana/c"]), "after ana/a +2"),
            (wait(What::AtOnce(4)), "atOnce 4"),
            (wait(What::Reservation(9)), "reservation"),
            (wait(What::Turn("ana/a".to_owned())), "turn"),
        ] {
            assert_eq!(queue_wait(Some(&wait)), expected);
        }
        let turn = wait(What::Turn("ben/big".to_owned()));
        assert_eq!(
            queue_wait_in_full(Some(&turn), 0),
            "it does not delay ben/big, for which room is reserved"
        );
    }
}

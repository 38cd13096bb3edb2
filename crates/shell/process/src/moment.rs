//! Times formatted for people.

use model::Time;
use time::OffsetDateTime;

/// Formats a time in UTC, to the millisecond.
pub fn shown(at: Time) -> String {
    let nanos = i128::from(at.0) * 1_000;
    let Ok(at) = OffsetDateTime::from_unix_timestamp_nanos(nanos) else { return at.0.to_string() };
    format!(
        "{}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_to_the_millisecond() {
        assert_eq!(shown(Time(86_401_002_003)), "1970-01-02 00:00:01.002");
    }
}

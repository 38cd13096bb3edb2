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

/// Formats a time in UTC as in RFC 3339, to the millisecond.
pub fn rfc3339(at: Time) -> String {
    shown(at).replacen(' ', "T", 1) + "Z"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_to_the_millisecond() {
        assert_eq!(shown(Time(86_401_002_003)), "1970-01-02 00:00:01.002");
        assert_eq!(rfc3339(Time(86_401_002_003)), "1970-01-02T00:00:01.002Z");
    }
}

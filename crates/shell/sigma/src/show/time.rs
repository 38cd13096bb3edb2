//! Times: relative, with the exact one when the pointer is over it.

use maud::{Markup, html};
use model::{Span, Time};
use process::moment;

/// `3 min ago`, with the exact time; `-` for 0, which stands for never.
pub(crate) fn ago(at: u64, now: Time) -> Markup {
    if at == 0 {
        return html! { "-" };
    }
    let text = match Time(at) {
        at if at > now => format!("in {}", rough(at.since(now))),
        at => format!("{} ago", rough(now.since(at))),
    };
    html! {
        time datetime=(moment::rfc3339(Time(at))) title={ (exact(at)) " UTC" } { (text) }
    }
}

/// `2026-11-19 03:10:00.123`, in UTC.
pub(crate) fn exact(at: u64) -> String {
    moment::shown(Time(at))
}

/// `12 min`: a length of time in its two largest units at most.
pub(crate) fn span(micros: u64) -> String {
    if micros < 1_000_000 {
        return format!("{} ms", micros.div_ceil(1_000));
    }
    rough(Span(micros))
}

fn rough(span: Span) -> String {
    let seconds = span.0 / 1_000_000;
    let two = |large: u64, large_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large} {large_unit}"),
        small => format!("{large} {large_unit} {small} {small_unit}"),
    };
    match seconds {
        0 => "1 s".to_owned(),
        1..60 => format!("{seconds} s"),
        60..600 => two(seconds / 60, "min", seconds % 60, "s"),
        600..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_as_exact_as_people_need() {
        for (seconds, expected) in [
            (0, "0 ms"),
            (59, "59 s"),
            (60, "1 min"),
            (250, "4 min 10 s"),
            (3_599, "59 min"),
            (3_600, "1 h"),
            (5_400, "1 h 30 min"),
            (86_400, "1 d"),
            (180_000, "2 d 2 h"),
        ] {
            assert_eq!(span(seconds * 1_000_000), expected);
        }
        assert_eq!((span(1), span(20_400)), ("1 ms".to_owned(), "21 ms".to_owned()));
    }

    #[test]
    fn a_moment_is_relative_and_exact_when_pointed_at() {
        let shown = ago(86_400_000_000, Time(86_460_000_000)).into_string();
        let expected = "<time datetime=\"1970-01-02T00:00:00.000Z\" title=\"1970-01-02 \
                        00:00:00.000 UTC\">1 min ago</time>";
        assert_eq!(shown, expected);
        assert!(ago(9_000_000, Time(1)).into_string().contains("in 8 s"));
        assert_eq!(ago(0, Time(1)).into_string(), "-");
    }
}

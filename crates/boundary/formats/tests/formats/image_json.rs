//! Images as JSON lines: read back unchanged, and rejected with the line of an error.

use cell::Cell;
use formats::image::{
    ImageJsonError, LINE_BYTES_MAX, NotAPart, read_image, read_image_json, state_hash,
    write_image_json,
};
use proptest::prelude::*;

use crate::examples::image::full_image;
use crate::history::{history, parts, replay};

pub(crate) fn json(image: &cell::Image) -> String {
    let mut json = Vec::new();
    write_image_json(image, &mut json).expect("there is room");
    String::from_utf8(json).expect("text")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn json_gives_the_image_that_the_bytes_give(ops in history(60)) {
        let cell = replay(&ops);
        let text = json(&cell.image());
        let read = read_image_json(text.as_bytes()).expect("an image");
        let bytes = parts(&cell.image()).concat();
        prop_assert_eq!(&read, &read_image(&bytes).expect("an image"));
        prop_assert_eq!(json(&read), text);
        let read = Cell::from_image(read).expect("a cell");
        prop_assert_eq!(read.check(), vec![]);
        prop_assert_eq!(state_hash(&read), state_hash(&cell));
    }
}

fn says(text: &str) -> String {
    read_image_json(text.as_bytes()).expect_err("malformed").to_string()
}

/// The full image with one line changed.
fn with(line: usize, change: impl FnOnce(&str) -> String) -> String {
    let text = json(&full_image());
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[line - 1] = change(&lines[line - 1]);
    lines.join("\n")
}

#[test]
fn an_edited_image_is_read_and_empty_lines_say_nothing() {
    let edited = with(3, |line| line.replace("\"name\":\"m2\"", "\"name\":\"m9\""));
    let edited = format!("\n{}\r\n  \n\n", edited.replace('\n', "\r\n\n"));
    let image = read_image_json(edited.as_bytes()).expect("an image");
    assert_eq!(image.machines[1].name.as_str(), "m9");
    assert_eq!(read_image_json(json(&full_image()).as_bytes()).expect("an image"), full_image());
}

#[test]
fn a_malformed_image_is_refused_with_its_line() {
    let text = json(&full_image());
    let count = text.lines().count();
    let without_last = text.trim_end().rsplit_once('\n').expect("lines").0;
    let swapped = |one: usize, two: usize| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.swap(one - 1, two - 1);
        lines.join("\n")
    };
    let order =
        "is out of order: machines, jobs, sessions and grants follow the head, each by rising id";
    let cases = [
        (String::new(), "line 1: head: is missing".to_owned()),
        ("\n\n{}".to_owned(), "line 3: has no kind that this build knows".to_owned()),
        (swapped(1, 2), "line 1: head: is missing".to_owned()),
        (swapped(2, 3), format!("line 3: {order}")),
        (format!("{text}{text}"), format!("line {}: {order}", count + 1)),
        (
            without_last.to_owned(),
            format!("line {}: head.secrets: is 4, but there are 3", count - 1),
        ),
        (
            with(1, |line| line.replace("\"level\":1", "\"level\":99")),
            "line 1: head.level: needs level 99 of the state machine, and this build knows levels \
             up to 1: it is too old"
                .to_owned(),
        ),
        (
            with(1, |line| line.replace("\"arm64\":1", "\"arm64\":0")),
            "line 1: head.platforms[\"arm64\"]: must be 1 to 100000, is 0".to_owned(),
        ),
        (
            with(5, |line| line.replace("\"31020\"", "\"x\"").replacen("31020", "70000", 1)),
            "line 5: job.tasks[3].placement.ports[0]: must be 0 to 65535, is 70000".to_owned(),
        ),
        (
            with(3, |line| line.replace("\"down\"", "\"dwon\"")),
            "line 3: column 942: unknown field `dwon`, expected one of `id`".to_owned(),
        ),
        (with(3, |line| format!("{line} {line}")), "trailing characters".to_owned()),
        (with(4, |line| line[..line.len() / 2].to_owned()), "EOF while parsing".to_owned()),
        (
            with(5, |line| line.replace("\"10s\"", "\"--9223372036854775808s\"")),
            "invalid value: string \"--9223372036854775808s\", expected a duration".to_owned(),
        ),
        (
            with(5, |line| line.replace("\"10s\"", "\"0.000000001s\"")),
            "line 5: job.spec.notice: 0 s and 1 ns are not a span".to_owned(),
        ),
    ];
    for (text, expected) in cases {
        let says = says(&text);
        assert!(says.contains(&expected), "{says}\ninstead of\n{expected}");
    }
}

#[test]
fn what_is_said_harms_no_terminal_and_is_bounded() {
    let says = says(&format!("{{\"\\u001b[31m{}\":1}}", "x".repeat(10_000)));
    assert!(says.starts_with("line 1: column 10013: unknown field `\\u{1b}[31mxx"), "{says}");
    assert!(says.len() < 700 && !says.contains('\u{1b}'), "{says}");
}

#[test]
fn a_line_without_an_end_takes_bounded_memory_and_an_unreadable_one_is_told() {
    /// This many spaces.
    struct Spaces(u64);

    impl std::io::Read for Spaces {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let bytes = usize::try_from(self.0).unwrap_or(usize::MAX).min(buffer.len());
            if bytes == 0 {
                return Err(std::io::Error::other("the disk is gone"));
            }
            self.0 -= bytes as u64;
            buffer[..bytes].fill(b' ');
            Ok(bytes)
        }
    }

    let read = |bytes| read_image_json(std::io::BufReader::new(Spaces(bytes)));
    let refused = read(3).expect_err("it ends");
    assert_eq!(refused.to_string(), "line 1: cannot be read: the disk is gone");
    assert!(matches!(refused, ImageJsonError { line: 1, why: NotAPart::Unreadable(_) }));
    const { assert!(LINE_BYTES_MAX < u64::MAX) };
}

//! Text that comes from files, made safe to show: nothing in it moves a cursor, changes a colour,
//! reverses a line or fills a terminal.

/// Characters of a message that are shown.
const MESSAGE_CHARACTERS_MAX: usize = 600;
/// Lines of a message that are shown; only a message of the file itself (`error '…'`) has several.
const MESSAGE_LINES_MAX: usize = 8;
/// Characters of a quoted value that are shown.
const QUOTE_CHARACTERS_MAX: usize = 60;

/// A character as it may be shown: itself, or escaped where it is not printable.
pub(crate) fn push_safe(out: &mut String, character: char) {
    match character {
        // A tab's width depends on where it stands, a space's does not.
        '\t' => out.push(' '),
        '\'' | '"' | '\\' => out.push(character),
        _ => out.extend(character.escape_debug()),
    }
}

/// A line of text, at most so many characters of it.
fn safe(text: &str, characters_max: usize) -> String {
    let mut out = String::new();
    for (position, character) in text.chars().enumerate() {
        if position == characters_max {
            out.push('…');
            break;
        }
        push_safe(&mut out, character);
    }
    out
}

/// A message. Line breaks stay, indented so that they cannot be mistaken for another error.
pub(crate) fn message(text: &str) -> String {
    let text: String = text.chars().take(MESSAGE_CHARACTERS_MAX + 1).collect();
    let mut out = String::new();
    let mut left = MESSAGE_CHARACTERS_MAX;
    for (number, line) in text.trim_end().lines().enumerate() {
        if number > 0 {
            out.push_str("\n  ");
        }
        if number == MESSAGE_LINES_MAX {
            out.push('…');
            break;
        }
        out.push_str(&safe(line, left));
        left = left.saturating_sub(line.chars().count());
    }
    out
}

/// A value in quotes, shortened.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", safe(text, QUOTE_CHARACTERS_MAX))
}

/// The name of a file, shortened from the left, where the less telling part is.
pub(crate) fn file_name(name: &str) -> String {
    const MAX: usize = 200;
    let count = name.chars().count();
    match count > MAX {
        true => {
            format!("…{}", safe(&name.chars().skip(count - MAX).collect::<String>(), MAX))
        }
        false => safe(name, MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_unprintable_is_shown() {
        for (text, shown) in [
            ("plain ' \" \\ é 漢", "plain ' \" \\ é 漢"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("tab\there", "tab here"),
            ("bell\u{7}\r.", "bell\\u{7}\\r."),
            ("two\nlines", "two\n  lines"),
        ] {
            assert_eq!(message(text), shown);
        }
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(message(&"x".repeat(1 << 20)).chars().count(), MESSAGE_CHARACTERS_MAX + 1);
        assert!(message(&"x\n".repeat(1 << 20)).lines().count() <= MESSAGE_LINES_MAX + 1);
        assert_eq!(quoted(&"x".repeat(1 << 20)).chars().count(), QUOTE_CHARACTERS_MAX + 3);
        assert!(file_name(&"d/".repeat(1 << 20)).starts_with('…'));
    }
}

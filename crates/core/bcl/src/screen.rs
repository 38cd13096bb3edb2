//! Sanitises text from files for display: it cannot move a cursor, change colours, reverse a line
//! or fill a terminal.

/// Maximum characters of a message.
const MESSAGE_CHARACTERS_MAX: usize = 600;
/// Maximum lines of a message; only a message from the file itself (`error '…'`) has several.
const MESSAGE_LINES_MAX: usize = 8;
/// Maximum characters of a quoted value.
const QUOTE_CHARACTERS_MAX: usize = 60;

/// Appends a character, escaped if it is not printable.
pub(crate) fn push_safe(out: &mut String, character: char) {
    match character {
        // A tab's width depends on its column, a space's does not.
        '\t' => out.push(' '),
        '\'' | '"' | '\\' => out.push(character),
        _ => out.extend(character.escape_debug()),
    }
}

/// A line of text, cut to a number of characters.
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

/// A message. Line breaks are kept but indented, so that they cannot be mistaken for another error.
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

/// A file's name, shortened on the left, where it is less specific.
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
    fn unprintable_characters_are_escaped() {
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

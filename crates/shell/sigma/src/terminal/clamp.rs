//! Keeps the output of a program from costing more to interpret than it is long.
//!
//! The parser (`vt100` 0.16) inserts lines and characters one by one, as often as the output says: up to
//! 65,535 times for eight bytes. More than a screen has is never needed.

/// The most repetitions: no screen has more rows or columns.
const REPETITIONS_MAX: u64 = 300;
/// The most bytes of a control sequence; longer ones are left out. Real ones have a few dozen.
const SEQUENCE_BYTES_MAX: usize = 256;
/// Insert characters, insert lines, scroll down: what the parser repeats without a limit.
const REPEATED: &[u8] = b"@LT";

/// Changes control sequences (CSI) as they pass, also those that are split.
#[derive(Debug, Default)]
pub(super) struct Clamp {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Text,
    /// After an escape character.
    Escape,
    /// In a control sequence, with its parameters; none if they are too long.
    Sequence(Option<Vec<u8>>),
}

impl Clamp {
    /// Whether the next byte is in no sequence.
    pub(super) fn is_in_text(&self) -> bool {
        matches!(self.state, State::Text)
    }

    /// The output to interpret instead.
    pub(super) fn pass(&mut self, output: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(output.len());
        let mut rest = output;
        loop {
            // Most output is text.
            if self.is_in_text() {
                let text = rest.iter().position(|byte| *byte == 0x1b).unwrap_or(rest.len());
                passed.extend_from_slice(&rest[..text]);
                rest = &rest[text..];
            }
            let Some((&byte, after)) = rest.split_first() else { return passed };
            rest = after;
            let state = std::mem::take(&mut self.state);
            self.state = match (state, byte) {
                (State::Escape, b'[') => State::Sequence(Some(Vec::new())),
                // Another one begins, and the one before is cut off.
                (_, 0x1b) => State::Escape,
                (State::Text, byte) => {
                    passed.push(byte);
                    State::Text
                }
                (State::Escape, byte) => {
                    passed.extend_from_slice(&[0x1b, byte]);
                    match byte {
                        // Control characters are executed, and the sequence goes on.
                        0x00..=0x17 | 0x19 | 0x1c..=0x1f | 0x7f => State::Escape,
                        _ => State::Text,
                    }
                }
                (State::Sequence(_), 0x18 | 0x1a) => State::Text,
                (State::Sequence(parameters), 0x00..=0x1f) => {
                    passed.push(byte);
                    State::Sequence(parameters)
                }
                (State::Sequence(parameters), 0x20..=0x3f) => State::Sequence(
                    parameters.filter(|known| known.len() < SEQUENCE_BYTES_MAX).map(|mut known| {
                        known.push(byte);
                        known
                    }),
                ),
                (State::Sequence(parameters), 0x40..=0x7e) => {
                    if let Some(parameters) = parameters {
                        passed.extend_from_slice(b"\x1b[");
                        passed.extend_from_slice(&clamped(&parameters, byte));
                        passed.push(byte);
                    }
                    State::Text
                }
                // Ignored there.
                (State::Sequence(parameters), 0x7f..) => State::Sequence(parameters),
            };
        }
    }
}

/// The parameters of a sequence that ends with this letter.
fn clamped(parameters: &[u8], letter: u8) -> Vec<u8> {
    let digits: Vec<u8> = parameters.iter().copied().take_while(u8::is_ascii_digit).collect();
    let number = digits.iter().fold(0_u64, |number, digit| {
        number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    });
    match REPEATED.contains(&letter) && number > REPETITIONS_MAX {
        true => REPETITIONS_MAX.to_string().into_bytes(),
        false => parameters.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(output: &[u8]) -> String {
        let whole = Clamp::default().pass(output);
        let mut clamp = Clamp::default();
        let single: Vec<u8> = output.iter().flat_map(|byte| clamp.pass(&[*byte])).collect();
        assert_eq!(whole, single, "it does not matter how it is split");
        String::from_utf8_lossy(&whole).into_owned()
    }

    #[test]
    fn an_excessive_repeat_count_is_clamped() {
        for (output, expected) in [
            (&b"\x1b[65535T"[..], "\x1b[300T"),
            (b"\x1b[00065535L", "\x1b[300L"),
            (b"\x1b[99999999999999999999999999@", "\x1b[300@"),
            (b"\x1b[65535;1T", "\x1b[300T"),
            (b"\x1b[65\n535T", "\n\x1b[300T"),
            (b"\x1b[65\x7f535T", "\x1b[300T"),
            (b"\x1b[65\xff535T", "\x1b[300T"),
            (b"\x1b[1\x1b[65535T", "\x1b[300T"),
            (b"\x1b\x1b[65535T", "\x1b[300T"),
            (b"\x1b[1\x1865535T", "65535T"),
        ] {
            assert_eq!(passed(output), expected, "{output:?}");
        }
    }

    #[test]
    fn other_terminal_output_passes_unchanged() {
        for output in [
            "hello \u{1f469}\u{200d}\u{1f680}\r\n",
            "\x1b[1;31mred\x1b[m",
            "\x1b[?1049h\x1b[?2004h",
            "\x1b[38;2;255;0;0m",
            "\x1b[12L\x1b[@\x1b[300T",
            "\x1b[9999;9999H\x1b[6n",
            "\x1b]0;title 65535T\x07",
            "\x1b7\x1b8\x1bM\x1b(B",
        ] {
            assert_eq!(passed(output.as_bytes()), output);
        }
        let long = format!("a\x1b[{}mb", "1;".repeat(SEQUENCE_BYTES_MAX));
        assert_eq!(passed(long.as_bytes()), "ab");
    }
}

//! Which lines of a log match a regular expression. The machine decides, so that the other lines
//! do not cross the network.

use regex::bytes::{Regex, RegexBuilder};

/// The maximum length of an expression.
const EXPRESSION_BYTES_MAX: usize = 1 << 10;
/// The maximum size of its program. Matching takes at most as long as the product of this and of
/// the length of a line.
const PROGRAM_BYTES_MAX: usize = 256 << 10;
/// The maximum length of a line. A longer one is searched in pieces, each of which is a line.
const LINE_BYTES_MAX: usize = 16 << 10;

/// An expression, and the line of a stream that is not complete.
#[derive(Debug)]
pub(super) struct Grep {
    expression: Regex,
    open: Vec<u8>,
}

impl Grep {
    /// Compiles an expression.
    ///
    /// # Errors
    /// If it is invalid or too large, with the reason.
    pub(super) fn new(expression: &str) -> Result<Self, String> {
        if expression.len() > EXPRESSION_BYTES_MAX {
            return Err(format!(
                "the regular expression has {} bytes, at most {EXPRESSION_BYTES_MAX} are allowed",
                expression.len()
            ));
        }
        let mut builder = RegexBuilder::new(expression);
        builder.size_limit(PROGRAM_BYTES_MAX).dfa_size_limit(PROGRAM_BYTES_MAX);
        match builder.build() {
            Ok(expression) => Ok(Self { expression, open: Vec::new() }),
            Err(regex::Error::CompiledTooBig(most)) => Err(format!(
                "the regular expression is too large: compiled it may have {most} bytes; use \
                 smaller repetitions"
            )),
            Err(error) => Err(format!("the regular expression is invalid: {error}")),
        }
    }

    /// The matching lines that end in the next bytes of the stream.
    pub(super) fn matching(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut matching = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut rest = piece;
            while !rest.is_empty() {
                let room = LINE_BYTES_MAX - self.open.len();
                let (now, later) = rest.split_at(rest.len().min(room));
                self.open.extend_from_slice(now);
                rest = later;
                if self.open.ends_with(b"\n") || self.open.len() >= LINE_BYTES_MAX {
                    matching.append(&mut self.finish());
                }
            }
        }
        matching
    }

    /// How much of the stream's end is not searched yet: the line that is not complete.
    pub(super) fn open_bytes(&self) -> u64 {
        self.open.len() as u64
    }

    /// The open line, if it matches: at a gap, and at the end of the stream.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut line = std::mem::take(&mut self.open);
        if line.is_empty() || !self.expression.is_match(line.strip_suffix(b"\n").unwrap_or(&line)) {
            return Vec::new();
        }
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_lines_come_whole_however_they_are_cut() {
        type Case<'a> = (&'a str, &'a [&'a [u8]], &'a [u8]);
        let table: [Case<'_>; 7] = [
            ("b", &[b"abc\nxyz\nb\n"], b"abc\nb\n"),
            ("b", &[b"a", b"b", b"c\nx", b"y\n", b"b"], b"abc\nb\n"),
            ("^b$", &[b"ab\n", b"b\nbc\n"], b"b\n"),
            ("(?i)ERROR|warn", &[b"an Error\nfine\nwarn\n"], b"an Error\nwarn\n"),
            (r"\xff", &[b"\xc3\xbf\n"], b"\xc3\xbf\n"),
            (r"(?-u)\xff", &[b"a\xff\nb\n"], b"a\xff\n"),
            ("x", &[b"", b"\n", b"\n\n"], b""),
        ];
        for (expression, pieces, expected) in table {
            let mut grep = Grep::new(expression).expect("it is valid");
            let mut found: Vec<u8> = pieces.iter().flat_map(|piece| grep.matching(piece)).collect();
            found.extend(grep.finish());
            assert_eq!(found, expected, "{expression}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_searched_in_pieces() {
        let mut grep = Grep::new("x").expect("it is valid");
        let mut found = grep.matching(&vec![b'x'; 3 * LINE_BYTES_MAX + 1]);
        assert_eq!(found.iter().filter(|byte| **byte == b'\n').count(), 3);
        found.extend(grep.finish());
        assert_eq!(found.iter().filter(|byte| **byte == b'x').count(), 3 * LINE_BYTES_MAX + 1);
        assert!(grep.open.capacity() <= 2 * LINE_BYTES_MAX);
        grep.matching(b"y\nopen");
        assert_eq!(grep.open_bytes(), 4);
    }

    #[test]
    fn an_expression_is_bounded() {
        for (expression, expected) in [
            ("(", "the regular expression is invalid"),
            (&"x".repeat(1_025), "has 1025 bytes, at most 1024 are allowed"),
            ("((a{1,100}){1,100}){1,100}", "is too large"),
            (r"(\w{1000}){100}", "is too large"),
        ] {
            let said = Grep::new(expression).expect_err("it is rejected");
            assert!(said.contains(expected), "{said}");
        }
        // The classic of a backtracking engine takes no longer than any other.
        let mut grep = Grep::new("(a*)*b|(a|aa)+$").expect("it is valid");
        assert!(!grep.matching(&[&vec![b'a'; 16_000][..], b"\n"].concat()).is_empty());
    }
}

//! An image as JSON lines: what `bourg checkpoint show` prints, and what is loaded again after
//! somebody edited it.
//!
//! A line is one part of the image, in the order and with the fields of `image.proto`: the head,
//! then machines, jobs, sessions and grants by id. So a cell of any size is written and read with one part
//! of it in memory at a time, and tools that go by lines (`grep`, `diff`) find an object at once.
//! The head says how many parts of each kind follow: a text that lost its end is noticed, and who
//! adds or removes a line changes the head as well.

use std::io::{self, BufRead, Read, Write};

use cell::Image;
use thiserror::Error;

use super::{Assembly, Part, parts};
use crate::error::{Fault, Malformed};
use crate::v1;

/// The longest line that is read, in bytes. A job with the most tasks there may be stays below it.
pub const LINE_BYTES_MAX: u64 = 1 << 30;

/// Characters of what is said about a text that is no part.
const SAID_MAX: usize = 500;

/// Why a text is not an image.
#[derive(Debug, Error)]
#[error("line {line}: {why}")]
pub struct ImageJsonError {
    /// The line, from 1.
    pub line: u64,
    /// Why.
    pub why: NotAPart,
}

/// Why a line is not the next part of an image.
#[derive(Debug, Error)]
pub enum NotAPart {
    /// The text cannot be read any further.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// Longer than a line may be.
    #[error("has more than {} MiB", LINE_BYTES_MAX >> 20)]
    TooLong,
    /// Not JSON, or not that of a part.
    #[error("column {column}: {what}")]
    NotJson {
        /// Where in the line, from 1.
        column: usize,
        /// What is wrong there.
        what: String,
    },
    /// A part that cannot be, or not here.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Writes an image as JSON, a part a line.
///
/// # Errors
/// Where `out` does not take it.
pub fn write_image_json(image: &Image, out: &mut dyn Write) -> io::Result<()> {
    for part in parts(image) {
        serde_json::to_writer(&mut *out, &part)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Reads an image as [`write_image_json`] writes it; empty lines say nothing. What is wrong between
/// its objects is for [`cell::Cell::from_image`] to say.
///
/// # Errors
/// Where a line is not the next part of an image, as [`super::read_image`] has it, and where the
/// text cannot be read.
pub fn read_image_json(from: impl BufRead) -> Result<Image, ImageJsonError> {
    let mut lines = Lines { from, bytes_max: LINE_BYTES_MAX, number: 0, text: Vec::new() };
    let image = read(&mut lines);
    // What is wrong with the whole is the last line's.
    image.map_err(|why| ImageJsonError { line: lines.number.max(1), why })
}

fn read(lines: &mut Lines<impl BufRead>) -> Result<Image, NotAPart> {
    let mut assembly = Assembly::begin(lines.next()?)?;
    while let Some(part) = lines.next()? {
        assembly.add(part)?;
    }
    Ok(assembly.finish()?)
}

struct Lines<R> {
    from: R,
    /// The longest that is read, its line break included.
    bytes_max: u64,
    /// The number of the line that was read last.
    number: u64,
    text: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<Part>, NotAPart> {
        loop {
            self.text.clear();
            let mut bounded = self.from.by_ref().take(self.bytes_max.saturating_add(1));
            if bounded.read_until(b'\n', &mut self.text)? == 0 {
                return Ok(None);
            }
            self.number = self.number.saturating_add(1);
            if self.text.len() as u64 > self.bytes_max {
                return Err(NotAPart::TooLong);
            }
            if !self.text.trim_ascii().is_empty() {
                break;
            }
        }
        let line = self.text.trim_ascii_end();
        let part: v1::ImagePart = serde_json::from_slice(line).map_err(|error| not_json(&error))?;
        Ok(Some(part.part.ok_or(Fault::UnknownKind).map_err(Malformed::from)?))
    }
}

/// What the reader of JSON says, safe to show: it quotes the text as it is.
fn not_json(error: &serde_json::Error) -> NotAPart {
    let said = error.to_string();
    // Of the place that it adds, the line is its own count.
    let place = format!(" at line {} column {}", error.line(), error.column());
    let said = said.strip_suffix(&place).unwrap_or(&said);
    let mut what = String::new();
    for character in said.chars().take(SAID_MAX) {
        match character {
            '"' | '\'' | '\\' => what.push(character),
            _ => what.extend(character.escape_debug()),
        }
    }
    NotAPart::NotJson { column: error.column(), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_not_read_to_its_end() {
        let read = |text: &[u8]| {
            let mut lines = Lines { from: text, bytes_max: 20, number: 0, text: Vec::new() };
            let what = lines.next().map(|part| part.is_some());
            (what.map_err(|why| why.to_string()), lines.number, lines.from.len())
        };
        assert_eq!(read(b"\n{\"machine\":{}}\n     \n"), (Ok(true), 2, 6));
        let too_long = Err("has more than 1024 MiB".to_owned());
        assert_eq!(read(&[b' '; 30]), (too_long, 1, 9));
    }
}

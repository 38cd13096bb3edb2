//! An image as JSON lines: the output of `bourg checkpoint show`, which can be loaded again after
//! editing.
//!
//! A line is one part of the image, in the order and with the fields of `image.proto`: the head,
//! then machines, jobs, sessions, grants and lock sessions by id, files by path, and services by user
//! and name. So a cell of any size is written and read with one part in memory at a time, and
//! line-oriented tools (`grep`, `diff`) find an object at once.
//! The head has the number of parts of each kind: so a truncated text is detected, and an edit that
//! adds or removes a line has to change the head, too.

use std::io::{self, BufRead, Read, Write};

use api::{Fault, Malformed};
use cell::Image;
use thiserror::Error;

use super::{Assembly, Part, parts};
use crate::v1;

/// The maximum length of a line, in bytes. A job with the maximum number of tasks stays below it.
pub const LINE_BYTES_MAX: u64 = 1 << 30;

/// The maximum length of an error about invalid JSON, in characters.
const SAID_MAX: usize = 500;

/// Why a text is not an image.
#[derive(Debug, Error)]
#[error("line {line}: {why}")]
pub struct ImageJsonError {
    /// The line, from 1.
    pub line: u64,
    /// The reason.
    pub why: NotAPart,
}

/// Why a line is not the next part of an image.
#[derive(Debug, Error)]
pub enum NotAPart {
    /// Reading the text failed.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The line exceeds the maximum length.
    #[error("has more than {} MiB", LINE_BYTES_MAX >> 20)]
    TooLong,
    /// The line is not JSON, or not that of a part.
    #[error("column {column}: {what}")]
    NotJson {
        /// The position in the line, from 1.
        column: usize,
        /// The error there.
        what: String,
    },
    /// An invalid part, or one that is out of order.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Writes an image as JSON, one part per line.
///
/// # Errors
/// If writing to `out` fails.
pub fn write_image_json(image: &Image, out: &mut dyn Write) -> io::Result<()> {
    for part in parts(image) {
        serde_json::to_writer(&mut *out, &part)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Reads an image as [`write_image_json`] writes it; empty lines are ignored. Contradictions
/// between its objects are reported by [`cell::Cell::from_image`].
///
/// # Errors
/// If a line is not the next part of an image, as in [`super::read_image`], and if the text cannot
/// be read.
pub fn read_image_json(from: impl BufRead) -> Result<Image, ImageJsonError> {
    let mut lines = Lines { from, bytes_max: LINE_BYTES_MAX, number: 0, text: Vec::new() };
    let image = read(&mut lines);
    // An error of the whole image is reported for the last line.
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
    /// The maximum line length, including the line break.
    bytes_max: u64,
    /// The number of the last line read.
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

/// The JSON parser's error, made safe to show: it quotes the text unescaped.
fn not_json(error: &serde_json::Error) -> NotAPart {
    let said = error.to_string();
    // Of the position that it adds, the line is relative to this text.
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

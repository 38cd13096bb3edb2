//! The source files of an evaluation, and places in them.

use std::collections::BTreeMap;

use crate::screen;

/// A loaded source file.
#[derive(Debug)]
pub(crate) struct File {
    /// The name that the loader returned.
    pub(crate) name: String,
    /// The content, which need not be UTF-8.
    pub(crate) bytes: Vec<u8>,
    /// Whether this is the built-in library: errors inside it are attributed to its caller.
    pub(crate) built_in: bool,
}

/// A file's index in [`Files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) usize);

/// A range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) file: FileId,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Every loaded file, the main one first, and the targets of imports.
#[derive(Debug, Default)]
pub(crate) struct Files {
    files: Vec<File>,
    imports: BTreeMap<(FileId, String), FileId>,
}

impl Files {
    pub(crate) fn add(&mut self, file: File) -> FileId {
        self.files.push(file);
        FileId(self.files.len() - 1)
    }

    /// The file with an index that [`Files::add`] returned.
    pub(crate) fn get(&self, id: FileId) -> &File {
        &self.files[id.0]
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = FileId> {
        (0..self.files.len()).map(FileId)
    }

    pub(crate) fn named(&self, name: &str) -> Option<FileId> {
        self.ids().find(|id| self.get(*id).name == name && !self.get(*id).built_in)
    }

    pub(crate) fn built_in(&self) -> Option<FileId> {
        self.ids().find(|id| self.get(*id).built_in)
    }

    /// Records the target of an import.
    pub(crate) fn note_import(&mut self, from: FileId, path: &str, target: FileId) {
        self.imports.insert((from, path.to_owned()), target);
    }

    pub(crate) fn imported(&self, from: FileId, path: &str) -> Option<FileId> {
        self.imports.get(&(from, path.to_owned())).copied()
    }

    /// Converts a range to a place for display.
    pub(crate) fn place(&self, range: Range) -> Location {
        let file = self.get(range.file);
        Location::of(&file.name, &file.bytes, range.start, range.end)
    }
}

/// A place in a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file's name, safe to display.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The line's text around the place, safe to display and bounded.
    pub excerpt: String,
    /// The offset of the place in the excerpt, in characters.
    pub marked_from: usize,
    /// The length of the place in the excerpt, in characters: at least 1.
    pub marked: usize,
}

/// Maximum characters of a line shown before the place.
const BEFORE_MAX: usize = 60;
/// Maximum characters of a line shown from the place on.
const AFTER_MAX: usize = 80;

impl Location {
    fn of(name: &str, bytes: &[u8], start: usize, end: usize) -> Self {
        let start = start.min(bytes.len());
        let end = end.clamp(start, bytes.len());
        let line_start = bytes[..start].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let line = 1 + bytes[..line_start].iter().filter(|b| **b == b'\n').count();
        let line_end =
            bytes[start..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| start + at);
        let before = String::from_utf8_lossy(&bytes[line_start..start]);
        let inside = String::from_utf8_lossy(&bytes[start..end.min(line_end)]);
        let after = String::from_utf8_lossy(&bytes[end.min(line_end)..line_end]);

        let column = before.chars().count() + 1;
        let mut excerpt = String::new();
        let skipped = (column - 1).saturating_sub(BEFORE_MAX);
        if skipped > 0 {
            excerpt.push('…');
        }
        before.chars().skip(skipped).for_each(|c| screen::push_safe(&mut excerpt, c));
        let marked_from = excerpt.chars().count();
        inside.chars().take(AFTER_MAX).for_each(|c| screen::push_safe(&mut excerpt, c));
        let marked = (excerpt.chars().count() - marked_from).max(1);
        let room = AFTER_MAX.saturating_sub(inside.chars().count());
        let after = after.trim_end();
        after.chars().take(room).for_each(|c| screen::push_safe(&mut excerpt, c));
        if inside.chars().count() > AFTER_MAX || after.chars().count() > room {
            excerpt.push('…');
        }
        let file = screen::file_name(name);
        Self { file, line, column, excerpt, marked_from, marked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bytes: &[u8], start: usize, end: usize) -> (usize, usize, String) {
        let place = Location::of("f", bytes, start, end);
        let marks = " ".repeat(place.marked_from) + &"^".repeat(place.marked);
        (place.line, place.column, format!("{}|{marks}", place.excerpt))
    }

    #[test]
    fn a_place_is_a_line_a_column_and_an_excerpt() {
        let text = "one\n  two: 2,\n".as_bytes();
        assert_eq!(at(text, 6, 9), (2, 3, "  two: 2,|  ^^^".to_owned()));
        assert_eq!(at(text, 0, 9), (1, 1, "one|^^^".to_owned()));
        assert_eq!(at(text, 14, 14), (3, 1, "|^".to_owned()));
        assert_eq!(at(b"", 0, 0), (1, 1, "|^".to_owned()));
        assert_eq!(at("é: \u{1b}x".as_bytes(), 4, 6), (1, 4, "é: \\u{1b}x|   ^^^^^^^".to_owned()));
        assert_eq!(at(b"a \xff b\r\n", 2, 3), (1, 3, "a \u{fffd} b|  ^".to_owned()));
    }

    #[test]
    fn a_long_line_is_shown_around_the_place() {
        let text = "x".repeat(1 << 20);
        let (line, column, shown) = at(text.as_bytes(), 500_000, 600_000);
        assert_eq!((line, column), (1, 500_001));
        assert!(shown.starts_with('…') && shown.chars().count() < 300, "{shown}");
    }
}

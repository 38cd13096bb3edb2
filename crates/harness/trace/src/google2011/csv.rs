//! The tables' form: lines of fields with commas between them, without quotes. What is read is
//! bounded: a line has a longest, and a table has a last.

use std::io::{self, BufRead};
use std::str::FromStr;

use thiserror::Error;

use super::share::{Share, ShareError};

/// A table of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// The machines and what they have.
    Machines,
    /// The removals of machines.
    Removals,
    /// What happened to tasks.
    TaskEvents,
}

/// Why a table cannot be read.
#[derive(Debug, Error)]
#[error("{table}, line {line}: {problem}")]
pub struct ReadError {
    /// Which table.
    pub table: Table,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong there.
    pub problem: RowProblem,
}

/// What is wrong with a line.
#[derive(Debug, Error)]
pub enum RowProblem {
    /// The bytes do not come.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// Not a text, and so perhaps still compressed.
    #[error("is not a text: decompress the table first")]
    NotText,
    /// Longer than any row is.
    #[error("is longer than {} bytes", super::limits::LINE_BYTES_MAX)]
    TooLong,
    /// The first line is not the one that names the columns.
    #[error("must be the names of the columns: {expected}")]
    NoHeader {
        /// As they should be.
        expected: &'static str,
    },
    /// Too few columns, or too many.
    #[error("has {has} columns, and must have {expected}")]
    Columns {
        /// How many it has.
        has: usize,
        /// How many it should have.
        expected: usize,
    },
    /// Nothing where something must be.
    #[error("{column} is empty")]
    Empty {
        /// Where.
        column: &'static str,
    },
    /// Not a number of those that are possible there.
    #[error("{column} must be a number from 0 to {most}, is '{}'", .is.escape_debug())]
    NotANumber {
        /// Where.
        column: &'static str,
        /// What is there.
        is: String,
        /// The most that it may be.
        most: u64,
    },
    /// Not a share of the largest machine.
    #[error("{column}: '{}' {error}", .is.escape_debug())]
    NotAShare {
        /// Where.
        column: &'static str,
        /// What is there.
        is: String,
        /// Why it is none.
        error: ShareError,
    },
    /// More, or other characters, than a name or a hash has.
    #[error("{column} must be up to {} printable ASCII characters, is '{}'", super::limits::TEXT_BYTES_MAX, .is.escape_debug())]
    NotAName {
        /// Where.
        column: &'static str,
        /// What is there.
        is: String,
    },
    /// A machine that an earlier line has.
    #[error("machine {0} is there twice")]
    Doubled(model::MachineId),
    /// More rows, jobs or tasks than are taken in.
    #[error("is more than is taken in: at most {most} {what}")]
    TooMany {
        /// The most that there may be.
        most: usize,
        /// Of what.
        what: &'static str,
    },
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Machines => "the machines",
            Self::Removals => "the removals of machines",
            Self::TaskEvents => "the task events",
        })
    }
}

/// The lines of a table, one at a time.
#[derive(Debug)]
pub(super) struct Lines<R> {
    read: R,
    table: Table,
    line: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(read: R, table: Table) -> Self {
        Self { read, table, line: 0, buffer: Vec::new() }
    }

    /// A table whose first line names its columns.
    pub(super) fn with_header(
        read: R,
        table: Table,
        expected: &'static str,
    ) -> Result<Self, ReadError> {
        let mut lines = Self::new(read, table);
        let header = lines.row(|row| match row.text {
            text if text == expected => Ok(()),
            _ => Err(RowProblem::NoHeader { expected }),
        });
        match header {
            Some(Ok(())) => Ok(lines),
            Some(Err(error)) => Err(error),
            None => Err(lines.error(RowProblem::NoHeader { expected })),
        }
    }

    /// Takes the next line apart; nothing at the end.
    pub(super) fn row<T>(
        &mut self,
        take: impl FnOnce(Row<'_>) -> Result<T, RowProblem>,
    ) -> Option<Result<T, ReadError>> {
        self.line += 1;
        let done = self.next_line().transpose()?;
        let done = done.and_then(|()| {
            let text = std::str::from_utf8(&self.buffer).map_err(|_| RowProblem::NotText)?;
            take(Row { text })
        });
        Some(done.map_err(|problem| self.error(problem)))
    }

    /// An error at the line that was read last.
    pub(super) fn error(&self, problem: RowProblem) -> ReadError {
        ReadError { table: self.table, line: self.line, problem }
    }

    /// Reads a line without its end into the buffer.
    fn next_line(&mut self) -> Result<Option<()>, RowProblem> {
        self.buffer.clear();
        let most = super::limits::LINE_BYTES_MAX as u64 + 2;
        if io::Read::take(&mut self.read, most).read_until(b'\n', &mut self.buffer)? == 0 {
            return Ok(None);
        }
        for end in [b'\n', b'\r'] {
            if self.buffer.last() == Some(&end) {
                self.buffer.pop();
            }
        }
        match self.buffer.len() > super::limits::LINE_BYTES_MAX {
            true => Err(RowProblem::TooLong),
            false => Ok(Some(())),
        }
    }
}

/// A line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    text: &'a str,
}

impl<'a> Row<'a> {
    /// Its fields, of which there must be so many.
    pub(super) fn fields<const N: usize>(self) -> Result<[&'a str; N], RowProblem> {
        let mut fields = [""; N];
        let mut has = 0;
        for text in self.text.split(',') {
            if let Some(field) = fields.get_mut(has) {
                *field = text;
            }
            has += 1;
        }
        match has == N {
            true => Ok(fields),
            false => Err(RowProblem::Columns { has, expected: N }),
        }
    }
}

/// A number, or nothing where the field is empty.
pub(super) fn number<T: TryFrom<u64>>(
    column: &'static str,
    text: &str,
    most: u64,
) -> Result<Option<T>, RowProblem> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.bytes().all(|digit| digit.is_ascii_digit());
    let number = digits.then(|| u64::from_str(text).ok()).flatten();
    let number =
        number.filter(|number| *number <= most).and_then(|number| T::try_from(number).ok());
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(RowProblem::NotANumber { column, is: text.to_owned(), most }),
    }
}

/// A share, or nothing where the field is empty.
pub(super) fn share(column: &'static str, text: &str) -> Result<Option<Share>, RowProblem> {
    match text {
        "" => Ok(None),
        _ => text.parse().map(Some).map_err(|error| RowProblem::NotAShare {
            column,
            is: text.to_owned(),
            error,
        }),
    }
}

/// A name or a hash, or nothing where the field is empty.
pub(super) fn name(column: &'static str, text: &str) -> Result<Option<Box<str>>, RowProblem> {
    let fits = text.len() <= super::limits::TEXT_BYTES_MAX;
    match text {
        "" => Ok(None),
        _ if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(text.into())),
        _ => Err(RowProblem::NotAName { column, is: text.to_owned() }),
    }
}

/// What must be there.
pub(super) fn there<T>(column: &'static str, field: Option<T>) -> Result<T, RowProblem> {
    field.ok_or(RowProblem::Empty { column })
}

//! The format of the tables: lines of comma-separated fields without quotes. Line length and number
//! of rows are limited.

use std::io::{self, BufRead};
use std::str::FromStr;

use thiserror::Error;

use super::share::{Share, ShareError};

/// A table of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// The machines and their capacities.
    Machines,
    /// The removals of machines.
    Removals,
    /// The events of tasks.
    TaskEvents,
}

/// A table cannot be read.
#[derive(Debug, Error)]
#[error("{table}, line {line}: {problem}")]
pub struct ReadError {
    /// The table.
    pub table: Table,
    /// The line, from 1.
    pub line: u64,
    /// The problem.
    pub problem: RowProblem,
}

/// The problem with a line.
#[derive(Debug, Error)]
pub enum RowProblem {
    /// The bytes cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// Not text, so perhaps still compressed.
    #[error("is not text: decompress the table first")]
    NotText,
    /// Longer than any row.
    #[error("is longer than {} bytes", super::limits::LINE_BYTES_MAX)]
    TooLong,
    /// The first line is not the expected header.
    #[error("must be the names of the columns: {expected}")]
    NoHeader {
        /// The expected header.
        expected: &'static str,
    },
    /// Wrong number of columns.
    #[error("has {has} columns, and must have {expected}")]
    Columns {
        /// The actual number.
        has: usize,
        /// The expected number.
        expected: usize,
    },
    /// A required field is empty.
    #[error("{column} is empty")]
    Empty {
        /// The column.
        column: &'static str,
    },
    /// Not a number in the valid range.
    #[error("{column} must be a number from 0 to {most}, is '{}'", .is.escape_debug())]
    NotANumber {
        /// The column.
        column: &'static str,
        /// The actual value.
        is: String,
        /// The maximum.
        most: u64,
    },
    /// Not a share of the largest machine.
    #[error("{column}: '{}' {error}", .is.escape_debug())]
    NotAShare {
        /// The column.
        column: &'static str,
        /// The actual value.
        is: String,
        /// The problem.
        error: ShareError,
    },
    /// Longer than a name or a hash, or with invalid characters.
    #[error("{column} must be up to {} printable ASCII characters, is '{}'", super::limits::TEXT_BYTES_MAX, .is.escape_debug())]
    NotAName {
        /// The column.
        column: &'static str,
        /// The actual value.
        is: String,
    },
    /// A machine occurs twice.
    #[error("machine {0} occurs twice")]
    Doubled(model::MachineId),
    /// More rows, jobs or tasks than allowed.
    #[error("exceeds the maximum of {most} {what}")]
    TooMany {
        /// The maximum.
        most: usize,
        /// What is counted.
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

/// The lines of a table, read one at a time.
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

    /// A table with a header line.
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

    /// Parses the next line; `None` at the end.
    pub(super) fn row<T>(
        &mut self,
        take: impl FnOnce(CsvRow<'_>) -> Result<T, RowProblem>,
    ) -> Option<Result<T, ReadError>> {
        self.line += 1;
        let done = self.next_line().transpose()?;
        let done = done.and_then(|()| {
            let text = std::str::from_utf8(&self.buffer).map_err(|_| RowProblem::NotText)?;
            take(CsvRow { text })
        });
        Some(done.map_err(|problem| self.error(problem)))
    }

    /// An error at the last line read.
    pub(super) fn error(&self, problem: RowProblem) -> ReadError {
        ReadError { table: self.table, line: self.line, problem }
    }

    /// Reads a line without its line end into the buffer.
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
pub(super) struct CsvRow<'a> {
    text: &'a str,
}

impl<'a> CsvRow<'a> {
    /// The fields, of which there must be exactly `N`.
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

/// A number, or `None` if the field is empty.
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

/// A share, or `None` if the field is empty.
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

/// A name or a hash, or `None` if the field is empty.
pub(super) fn name(column: &'static str, text: &str) -> Result<Option<Box<str>>, RowProblem> {
    let fits = text.len() <= super::limits::TEXT_BYTES_MAX;
    match text {
        "" => Ok(None),
        _ if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(text.into())),
        _ => Err(RowProblem::NotAName { column, is: text.to_owned() }),
    }
}

/// A required field.
pub(super) fn required<T>(column: &'static str, field: Option<T>) -> Result<T, RowProblem> {
    field.ok_or(RowProblem::Empty { column })
}

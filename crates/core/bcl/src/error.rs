//! What is wrong with a file, where, and how it is shown.

use std::fmt;

use model::{AddressError, JobName, NameError, PriorityError, QuantityError, SchedulingClassError};
use spec::{Path, ProblemKind};
use thiserror::Error as ThisError;

use crate::limits;
use crate::screen;
use crate::source::Location;

/// One or more errors, in the order in which they were found.
///
/// Displayed as a compiler would, in plain text without colour, safe for a terminal and bounded in
/// length, whatever stands in the files.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors {
    /// At least one.
    told: Vec<Error>,
    untold: usize,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What.
    pub kind: ErrorKind,
    /// Where in the source files, as near as is known.
    pub place: Option<Location>,
    /// Where in the result, for what is wrong about a value; the jobs of a list are `[0]`, `[1]`.
    pub path: Option<Path>,
    /// Whether the place is the wrong value's very own. Otherwise it is the nearest text around
    /// it that was found, and the message says so.
    pub exact: bool,
    /// What led there, innermost first: calls and imports.
    pub by: Vec<Location>,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, ThisError)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not Jsonnet.
    #[error("{message}")]
    Syntax {
        /// What was found and what could have stood there.
        message: String,
    },
    /// Expressions nested too deep to be read.
    #[error("nested more than {} deep", limits::NESTING_MAX)]
    NestedTooDeep,
    /// The evaluation failed: an unknown variable, a failed assertion, a wrong operand.
    #[error("{message}")]
    Evaluation {
        /// Why.
        message: String,
    },
    /// Calls or values nested too deep.
    #[error(
        "calls or values nest more than {} deep: does something call or contain itself?",
        limits::STACK_MAX
    )]
    StackOverflow,
    /// A value that is needed to compute itself.
    #[error("this needs its own value to be computed")]
    NeedsItself,
    /// An import that the loader could not find.
    #[error("cannot import {}{}", screen::quoted(.path), tried_text(.tried))]
    Import {
        /// What the file asked for.
        path: String,
        /// The names that were tried, each with why it was not it.
        tried: Vec<(String, String)>,
    },
    /// More than all source files together may have.
    #[error("the files have more than {} bytes together", limits::SOURCE_BYTES_MAX)]
    SourceTooLarge,
    /// A result with too many values.
    #[error("the result has more than {} values", limits::VALUES_MAX)]
    TooManyValues,
    /// A result with too much text.
    #[error("the result has more than {} bytes of text", limits::TEXT_BYTES_MAX)]
    TooMuchText,
    /// A result nested too deep.
    #[error("the result nests more than {} deep", limits::DEPTH_MAX)]
    ResultTooDeep,
    /// Too many jobs in one file.
    #[error("{has} jobs, at most {} are allowed in one file", limits::JOBS_MAX)]
    TooManyJobs {
        /// How many.
        has: usize,
    },
    /// A result that is no job.
    #[error("a file must give a job (an object) or a list of jobs, this one gives {found}{hint}")]
    NotAJob {
        /// What it gives.
        found: &'static str,
        /// How to mend it, where that can be guessed.
        hint: &'static str,
    },
    /// A field that does not exist.
    #[error("{} is not a field of {of}; {}", screen::quoted(.name), nearest_text(.nearest, .fields))]
    UnknownField {
        /// The field.
        name: String,
        /// Of what, with its article.
        of: &'static str,
        /// The field that was meant, as far as can be guessed.
        nearest: Option<&'static str>,
        /// The fields that there are.
        fields: &'static [&'static str],
    },
    /// The field that replaces `env` for users who may not see its values.
    #[error(
        "stands where the values of env were left out, as they are hidden from whoever was \
         shown this description: give env with values instead"
    )]
    HiddenEnv,
    /// A required field that is not given.
    #[error("{of} needs the field '{name}', such as {example}")]
    MissingField {
        /// The field.
        name: &'static str,
        /// Of what, with its article.
        of: &'static str,
        /// How it may look.
        example: &'static str,
    },
    /// Two spellings of one thing.
    #[error("'{one}' and '{other}' say the same: give one of them")]
    Both {
        /// The one.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// A value of another type.
    #[error("must be {expected}, is {found}")]
    WrongType {
        /// What it should be, with an example.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// A text that is none of a few words.
    #[error("{} is not {what}: use {}{}", screen::quoted(.text), either(.words), nearest_of(.nearest))]
    UnknownWord {
        /// The text.
        text: String,
        /// What the words are, with an article.
        what: &'static str,
        /// The words.
        words: &'static [&'static str],
        /// The word that was meant, as far as can be guessed.
        nearest: Option<&'static str>,
    },
    /// A number that is less than nothing.
    #[error("must not be negative, is {is}")]
    Negative {
        /// The number.
        is: String,
    },
    /// A number with a fraction where there can be none.
    #[error("must be a whole number, is {is}")]
    NotWhole {
        /// The number.
        is: String,
    },
    /// A number that the language cannot hold exactly.
    #[error("{is} is beyond 2^53, where numbers are no longer exact: write it as text")]
    NotExact {
        /// The number.
        is: String,
    },
    /// A number that fits nowhere.
    #[error("{is} is too large")]
    TooLarge {
        /// The number.
        is: String,
    },
    /// A span of time finer than is kept.
    #[error("{is} is finer than 1 µs")]
    TooFine {
        /// The span as given.
        is: String,
    },
    /// A unit of time that does not exist.
    #[error("there is no unit {}: use one of d, h, m, s, ms, us{}", screen::quoted(.unit), nearest_of(.nearest))]
    NoSuchTimeUnit {
        /// The unit.
        unit: String,
        /// The unit that was meant, as far as can be guessed.
        nearest: Option<&'static str>,
    },
    /// A quantity that cannot be read.
    #[error("{error}{}", nearest_of(.nearest))]
    Quantity {
        /// Why.
        error: QuantityError,
        /// The unit that was meant, as far as can be guessed.
        nearest: Option<&'static str>,
    },
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A priority that is none.
    #[error("{error}{}", nearest_of(.nearest))]
    Priority {
        /// Why.
        error: PriorityError,
        /// The band that was meant, as far as can be guessed.
        nearest: Option<&'static str>,
    },
    /// A scheduling class that is none.
    #[error(transparent)]
    SchedulingClass(#[from] SchedulingClassError),
    /// A key of `overrides` that selects no tasks.
    #[error(transparent)]
    Tasks(#[from] AddressError),
    /// A task with two overrides.
    #[error("task {index} has another override, under '{other}'")]
    OverriddenTwice {
        /// The task.
        index: u32,
        /// The other key.
        other: String,
    },
    /// Overrides that would take too much room in the cell.
    #[error(
        "the overrides of all tasks together have more than {} bytes of text",
        limits::OVERRIDE_BYTES_MAX
    )]
    OverridesTooLarge,
    /// An override that would turn the job's health check off.
    #[error(
        "a single task cannot do without the job's health check: give the check to those tasks \
         that have one, and none to the job"
    )]
    HealthCheckStays,
    /// A job that names one further down, which will not be there when it is submitted.
    #[error(
        "'{name}' comes later in this file, and its jobs are submitted one after the other: put it first"
    )]
    ComesLater {
        /// The job that is named.
        name: JobName,
    },
    /// A description that cannot be, although each of its fields can be read.
    #[error(transparent)]
    Problem(#[from] ProblemKind),
}

impl ErrorKind {
    /// Whether it is about a value in the result, so that its path belongs before the message.
    fn is_about_a_value(&self) -> bool {
        !matches!(
            self,
            Self::Syntax { .. }
                | Self::NestedTooDeep
                | Self::Evaluation { .. }
                | Self::StackOverflow
                | Self::NeedsItself
                | Self::Import { .. }
                | Self::SourceTooLarge
                | Self::TooManyValues
                | Self::TooMuchText
                | Self::ResultTooDeep
                | Self::TooManyJobs { .. }
                | Self::NotAJob { .. }
                | Self::UnknownField { .. }
        )
    }
}

fn tried_text(tried: &[(String, String)]) -> String {
    let mut text = String::new();
    for (name, why) in tried.iter().take(8) {
        text.push_str(&format!("\ntried {}: {why}", screen::quoted(name)));
    }
    text + "\n'borg.libsonnet' is built in; every other name is a file"
}

fn nearest_text(nearest: &Option<&'static str>, fields: &[&'static str]) -> String {
    match nearest {
        Some(nearest) => format!("the nearest is '{nearest}'"),
        None => format!("its fields are {}", fields.join(", ")),
    }
}

/// `a`, `a or b`, `a, b or c`.
fn either(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        words => words.concat(),
    }
}

fn nearest_of(nearest: &Option<&'static str>) -> String {
    nearest.map(|nearest| format!("; the nearest is '{nearest}'")).unwrap_or_default()
}

impl Error {
    /// An error about no place in particular yet.
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self { kind, place: None, path: None, exact: true, by: Vec::new() }
    }

    /// An error at a place in a source file.
    pub(crate) fn at(kind: ErrorKind, place: Location) -> Self {
        Self { place: Some(place), ..Self::new(kind) }
    }

    /// What is wrong, in one line or a few, safe to show.
    #[must_use]
    pub fn what(&self) -> String {
        let named = self.kind.is_about_a_value();
        let path = self.path.as_ref().filter(|path| named && !path.0.is_empty());
        let text = match path {
            Some(path) => format!("{}: {}", bounded(path), self.kind),
            None => self.kind.to_string(),
        };
        screen::message(&text)
    }
}

/// A path whose keys cannot fill the message.
fn bounded(path: &Path) -> Path {
    use spec::Step;
    let cut = |text: &String| text.chars().take(80).collect();
    let steps = path.0.iter().map(|step| match step {
        Step::Field(name) => Step::Field(cut(name)),
        Step::Key(key) => Step::Key(cut(key)),
        Step::Element(position) => Step::Element(*position),
    });
    Path(steps.collect())
}

impl Errors {
    /// Several errors, of which the first [`limits::ERRORS_MAX`] are told, and how many more there
    /// are than are given here; nothing where there is none.
    pub(crate) fn of(mut told: Vec<Error>, untold: usize) -> Option<Self> {
        let untold = untold + told.len().saturating_sub(limits::ERRORS_MAX);
        told.truncate(limits::ERRORS_MAX);
        (!told.is_empty()).then_some(Self { told, untold })
    }

    /// The errors: at least one, at most [`limits::ERRORS_MAX`].
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.told.iter()
    }

    /// How many more there are than are told.
    #[must_use]
    pub fn untold(&self) -> usize {
        self.untold
    }
}

impl From<Error> for Errors {
    fn from(error: Error) -> Self {
        Self { told: vec![error], untold: 0 }
    }
}

impl std::error::Error for Error {}

impl std::error::Error for Errors {}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        match self.untold {
            0 => Ok(()),
            untold => writeln!(f, "\nand {untold} more errors"),
        }
    }
}

/// `error: …`, the place with its line, and what led there. Ends with a line break.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.what())?;
        let Some(place) = &self.place else { return Ok(()) };
        let number = place.line.to_string();
        let margin = " ".repeat(number.len());
        writeln!(f, "{margin} --> {}:{}:{}", place.file, place.line, place.column)?;
        writeln!(f, " {margin} |")?;
        writeln!(f, "{}", format!(" {number} | {}", place.excerpt).trim_end())?;
        let (space, marks) = (" ".repeat(place.marked_from), "^".repeat(place.marked));
        writeln!(f, " {margin} | {space}{marks}")?;
        if !self.exact {
            writeln!(
                f,
                " {margin} = not written out as a field; this is the nearest text around it"
            )?;
        }
        for place in &self.by {
            writeln!(f, " {margin} = from {}:{}:{}", place.file, place.line, place.column)?;
        }
        Ok(())
    }
}

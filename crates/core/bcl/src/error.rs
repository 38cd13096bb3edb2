//! The errors of an evaluation and their presentation.

use std::fmt;

use model::{
    AddressError, JobName, NameError, PackageReferenceError, PriorityError, QuantityError,
    SchedulingClassError, VolumePathError,
};
use spec::{Path, ProblemKind};
use thiserror::Error as ThisError;

use crate::limits;
use crate::screen;
use crate::source::Location;

/// One or more errors, in the order in which they were detected.
///
/// Displayed in the style of a compiler: plain text without colour, safe for a terminal and bounded
/// in length, whatever the files contain.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors {
    /// At least one.
    errors: Vec<Error>,
    untold: usize,
}

/// One error.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The place in the source files, as precisely as it is known.
    pub place: Option<Location>,
    /// For an invalid value: its path in the result. The jobs of a list are `[0]`, `[1]`.
    pub path: Option<Path>,
    /// Whether `place` is the value's own. Otherwise it is the nearest enclosing source text that
    /// could be determined, and the message says so.
    pub exact: bool,
    /// The calls and imports that led there, innermost first.
    pub by: Vec<Location>,
}

/// A parameter of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Whether it has a default.
    pub optional: bool,
}

/// The kinds of errors.
#[derive(Clone, Debug, PartialEq, ThisError)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not valid Jsonnet.
    #[error("{message}")]
    Syntax {
        /// What was found and what was expected.
        message: String,
    },
    /// Expressions are nested too deep.
    #[error("nested more than {} deep", limits::NESTING_MAX)]
    NestedTooDeep,
    /// The evaluation failed: an unknown variable, a failed assertion, a wrong operand.
    #[error("{message}")]
    Evaluation {
        /// The cause.
        message: String,
    },
    /// Calls or values are nested too deep.
    #[error(
        "calls or values are nested more than {} deep: does something call or contain itself?",
        limits::STACK_MAX
    )]
    StackOverflow,
    /// A value depends on itself.
    #[error("this value depends on itself")]
    NeedsItself,
    /// The loader found no file for an import.
    #[error("cannot import {}{}", screen::quoted(.path), tried_text(.tried))]
    Import {
        /// The imported path.
        path: String,
        /// The names that were tried, each with the reason for its failure.
        tried: Vec<(String, String)>,
    },
    /// All source files together are too large.
    #[error("the files together have more than {} bytes", limits::SOURCE_BYTES_MAX)]
    SourceTooLarge,
    /// The result has too many values.
    #[error("the result has more than {} values", limits::VALUES_MAX)]
    TooManyValues,
    /// The result has too much text.
    #[error("the result has more than {} bytes of text", limits::TEXT_BYTES_MAX)]
    TooMuchText,
    /// The result is nested too deep.
    #[error("the result is nested more than {} deep", limits::DEPTH_MAX)]
    ResultTooDeep,
    /// Too many jobs in one file.
    #[error("{has} jobs, at most {} are allowed in one file", limits::JOBS_MAX)]
    TooManyJobs {
        /// The number of jobs.
        has: usize,
    },
    /// The result is not a job.
    #[error(
        "a file must evaluate to a job (an object) or a list of jobs, this one evaluates to {found}{hint}"
    )]
    NotAJob {
        /// The kind of the result.
        found: &'static str,
        /// A suggestion, or empty.
        hint: &'static str,
    },
    /// A parameter that the function of the file does not take.
    #[error(
        "the file has no parameter {}; {}",
        screen::quoted(.name),
        takes_text(.takes)
    )]
    UnknownParameter {
        /// The parameter.
        name: String,
        /// The parameters of the file.
        takes: Vec<Parameter>,
    },
    /// Parameters without a value.
    #[error(
        "the file is a function, and {} of it {} no value; {}: give it with --var {}=VALUE",
        names_text(.missing),
        if .missing.len() == 1 { "has" } else { "have" },
        takes_text(.takes),
        screen::quoted(.missing.first().map_or("", String::as_str)).trim_matches('\'')
    )]
    MissingParameters {
        /// Those without a value: at least one.
        missing: Vec<String>,
        /// The parameters of the file.
        takes: Vec<Parameter>,
    },
    /// Parameters for a file that is not a function.
    #[error(
        "the file takes no parameters, and {} is given: to take it, make the file a function, \
         function({}) …",
        screen::quoted(.name),
        .name.chars().take(60).filter(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    )]
    NoParameters {
        /// The first parameter that is given.
        name: String,
    },
    /// A file with parameters that is not an object.
    #[error("a file with parameters must evaluate to an object, this one evaluates to {found}")]
    NotParameters {
        /// The kind of the result.
        found: &'static str,
    },
    /// An unknown field.
    #[error("{} is not a field of {of}; {}", screen::quoted(.name), nearest_text(.nearest, .fields))]
    UnknownField {
        /// The field.
        name: String,
        /// The kind of object, with its article.
        of: &'static str,
        /// The field that was probably meant.
        nearest: Option<&'static str>,
        /// The valid fields.
        fields: &'static [&'static str],
    },
    /// The field that replaces `env` in descriptions shown to users who may not see its values.
    #[error(
        "replaces env in a description shown to a user who may not see its values: \
         set env with its values instead"
    )]
    HiddenEnv,
    /// Not the mode of a file.
    #[error(transparent)]
    FileMode(spec::FileModeError),
    /// Not base64.
    #[error("is not base64: letters, digits, '+' and '/', padded with '=' to a multiple of four")]
    NotBase64,
    /// A required field is missing.
    #[error("{of} needs the field '{name}', such as {example}")]
    MissingField {
        /// The field.
        name: &'static str,
        /// The kind of object, with its article.
        of: &'static str,
        /// An example.
        example: &'static str,
    },
    /// Two spellings of one field.
    #[error("'{one}' and '{other}' are two spellings of one field: use one of them")]
    Both {
        /// One spelling.
        one: &'static str,
        /// The other spelling.
        other: &'static str,
    },
    /// Fields of different kinds of health checks.
    #[error(
        "'{other}' does not go with '{one}': a health check has a port and a path for HTTP, or tcp, or \
         exec"
    )]
    TwoKinds {
        /// A field of one kind.
        one: &'static str,
        /// A field of another kind.
        other: &'static str,
    },
    /// A value of the wrong type.
    #[error("must be {expected}, is {found}")]
    WrongType {
        /// The expected type, with an example.
        expected: &'static str,
        /// The actual value.
        found: String,
    },
    /// A string that is not one of a few words.
    #[error("{} is not {what}: use {}{}", screen::quoted(.text), either(.words), nearest_of(.nearest))]
    UnknownWord {
        /// The string.
        text: String,
        /// The kind of word, with an article.
        what: &'static str,
        /// The valid words.
        words: &'static [&'static str],
        /// The word that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A negative number.
    #[error("must not be negative, is {is}")]
    Negative {
        /// The number.
        is: String,
    },
    /// A fraction where an integer is required.
    #[error("must be a whole number, is {is}")]
    NotAnInteger {
        /// The number.
        is: String,
    },
    /// A number that a double cannot represent exactly.
    #[error("{is} is beyond 2^53, where numbers are no longer exact: write it as a string")]
    NotExact {
        /// The number.
        is: String,
    },
    /// A number out of range.
    #[error("{is} is too large")]
    TooLarge {
        /// The number.
        is: String,
    },
    /// A duration with a fraction of a microsecond.
    #[error("{is} is finer than 1 µs")]
    TooFine {
        /// The duration as given.
        is: String,
    },
    /// An unknown unit of time.
    #[error("there is no unit {}: use one of d, h, m, s, ms, us{}", screen::quoted(.unit), nearest_of(.nearest))]
    NoSuchTimeUnit {
        /// The unit.
        unit: String,
        /// The unit that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A quantity that cannot be parsed.
    #[error("{error}{}", nearest_of(.nearest))]
    Quantity {
        /// The cause.
        error: QuantityError,
        /// The unit that was probably meant.
        nearest: Option<&'static str>,
    },
    /// An invalid name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A directory that cannot become a package.
    #[error("{} cannot become a package: {why}", screen::quoted(.directory))]
    Directory {
        /// The path, as the file says it.
        directory: String,
        /// The reason.
        why: String,
    },
    /// An image in a registry that cannot become a package.
    #[error("{} cannot be the image of a task: {why}", screen::quoted(.image))]
    Image {
        /// The image, as the file says it.
        image: String,
        /// The reason.
        why: String,
    },
    /// The text is not a reference to a package.
    #[error(transparent)]
    Package(#[from] PackageReferenceError),
    /// The text is not where a task can find a volume.
    #[error(transparent)]
    VolumePath(#[from] VolumePathError),
    /// The text is not the path of an output.
    #[error(transparent)]
    OutputPath(#[from] spec::OutputPathError),
    /// An invalid priority.
    #[error("{error}{}", nearest_of(.nearest))]
    Priority {
        /// The cause.
        error: PriorityError,
        /// The band that was probably meant.
        nearest: Option<&'static str>,
    },
    /// An invalid scheduling class.
    #[error(transparent)]
    SchedulingClass(#[from] SchedulingClassError),
    /// A key of `overrides` that is not a task selection.
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
    /// The overrides would need too much space in the cell.
    #[error(
        "the overrides of all tasks together have more than {} bytes of text",
        limits::OVERRIDE_BYTES_MAX
    )]
    OverridesTooLarge,
    /// An override that would disable the job's health check.
    #[error(
        "a single task cannot disable the job's health check: set the check in the overrides of \
         the tasks that have one, and not in the job"
    )]
    HealthCheckStays,
    /// A job that refers to a later one, which does not exist yet when it is submitted.
    #[error("'{name}' comes later in this file, and jobs are submitted in file order: move it up")]
    ComesLater {
        /// The job that is referred to.
        name: JobName,
    },
    /// A description that is invalid although each of its fields can be parsed.
    #[error(transparent)]
    Problem(#[from] ProblemKind),
}

impl ErrorKind {
    /// Whether the error concerns a value of the result, so that the message starts with its path.
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
                | Self::UnknownParameter { .. }
                | Self::MissingParameters { .. }
                | Self::NoParameters { .. }
                | Self::NotParameters { .. }
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

/// For example `its parameters are region, tasks (optional)`.
fn takes_text(takes: &[Parameter]) -> String {
    let shown = takes.iter().take(20).map(|takes| {
        let optional = if takes.optional { " (optional)" } else { "" };
        format!("{}{optional}", screen::quoted(&takes.name).trim_matches('\''))
    });
    match takes.len() {
        0 => "it has none".to_owned(),
        1 => format!("its parameter is {}", shown.collect::<String>()),
        _ => format!("its parameters are {}", shown.collect::<Vec<_>>().join(", ")),
    }
}

/// `'region' and 'tasks'`: a few names.
fn names_text(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(20).map(|name| screen::quoted(name)).collect();
    shown.join(" and ")
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
    /// An error without a place yet.
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self { kind, place: None, path: None, exact: true, by: Vec::new() }
    }

    /// An error at a place in a source file.
    pub(crate) fn at(kind: ErrorKind, place: Location) -> Self {
        Self { place: Some(place), ..Self::new(kind) }
    }

    /// The message, in one or a few lines, safe to display.
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

/// A path with shortened keys, so that they cannot fill the message.
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
    /// Keeps the first [`limits::ERRORS_MAX`] errors and counts the rest; `untold` is the number
    /// already dropped. `None` if there are no errors.
    pub(crate) fn of(mut errors: Vec<Error>, untold: usize) -> Option<Self> {
        let untold = untold + errors.len().saturating_sub(limits::ERRORS_MAX);
        errors.truncate(limits::ERRORS_MAX);
        (!errors.is_empty()).then_some(Self { errors, untold })
    }

    /// The errors: at least one, at most [`limits::ERRORS_MAX`].
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.errors.iter()
    }

    /// The number of errors that were dropped.
    #[must_use]
    pub fn untold(&self) -> usize {
        self.untold
    }
}

impl From<Error> for Errors {
    fn from(error: Error) -> Self {
        Self { errors: vec![error], untold: 0 }
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

/// `error: …`, the place with its source line, and what led there. Ends with a line break.
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
                " {margin} = not a literal field; this is the nearest enclosing source text"
            )?;
        }
        for place in &self.by {
            writeln!(f, " {margin} = from {}:{}:{}", place.file, place.line, place.column)?;
        }
        Ok(())
    }
}

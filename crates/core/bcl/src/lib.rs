//! BCL, the configuration language: Jsonnet with Bourg's own library built in (design, section 8;
//! paper, section 2.3).
//!
//! [`evaluate()`] turns a file into job descriptions, or reports errors with file, line and column.
//! A file is one job (an object) or a list of jobs, or a function of parameters that returns either. Plain JSON is BCL too, and so is the canonical
//! JSON of a job description, which evaluates to that same description.
//!
//! This crate reads no files (imports go through a [`Loader`]), knows no cell and no clock, and
//! does not decide whether a job may run.
//!
//! # Limits
//! The nesting of a source file, the depth of the evaluation, the number of imported bytes, and the
//! number, depth and text of the resulting values are bounded here ([`limits`]); exceeding a limit
//! is an error. Steps and memory *during* the evaluation are not bounded: `std.range(1, 1e9)`, an
//! endless `tailstrict` loop or a string doubled forty times must be stopped from outside.
//! Therefore the shell evaluates in a child process with limits on time and memory and reports that
//! the evaluation needs too much when the child dies. The evaluating thread needs 2 MiB of stack.
//!
//! # Reading order
//! `evaluate` drives the Jsonnet interpreter, `json` holds the bounded result, `schema` converts it
//! to a job, `locate` finds the place in the sources where an invalid value was written, and
//! `error` is what the user sees.

mod autoscale;
mod constraints;
mod directories;
mod ends;
mod error;
mod evaluate;
mod explain;
mod fields;
mod files;
mod grammar;
mod health;
mod images;
mod interpreter;
mod json;
mod locate;
mod nesting;
mod network;
mod overrides;
mod parameters;
mod policy;
mod problems;
mod quantity;
mod related;
mod restart;
mod schema;
mod scope;
mod screen;
mod source;
mod volumes;
mod words;

pub use error::{Error, ErrorKind, Errors, Parameter};
pub use evaluate::evaluate;
pub use interpreter::{Loaded, Loader, NoImports, NotLoaded, ParameterFile, Settings};
pub use source::Location;

/// The name under which files import the built-in library.
pub const LIBRARY_NAME: &str = "borg.libsonnet";

/// The source of the built-in library, with comments for its users.
pub const LIBRARY: &str = include_str!("borg.libsonnet");

/// The limits of an evaluation.
pub mod limits {
    /// Bytes of all source files together, imported data included.
    pub const SOURCE_BYTES_MAX: usize = 16 << 20;
    /// Nesting depth of the expressions of one file; more would exceed a thread's stack.
    pub const NESTING_MAX: u32 = 250;
    /// Nesting depth of calls and values during the evaluation.
    pub const STACK_MAX: usize = 500;
    /// Values in the result: objects, lists, texts, numbers.
    pub const VALUES_MAX: usize = 1 << 20;
    /// Bytes of all strings and field names in the result.
    pub const TEXT_BYTES_MAX: usize = 16 << 20;
    /// Nesting depth of objects and lists in the result. A job needs 6.
    pub const DEPTH_MAX: usize = 32;
    /// Jobs per file.
    pub const JOBS_MAX: usize = 1_000;
    /// Bytes of all strings in the overrides of one job, counted once for every task they apply to.
    pub const OVERRIDE_BYTES_MAX: usize = 64 << 20;
    /// Errors reported at once.
    pub const ERRORS_MAX: usize = 20;
}

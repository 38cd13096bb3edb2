//! BCL, the configuration language: Jsonnet with Bourg's own library built in (design, section 8;
//! paper, section 2.3).
//!
//! [`evaluate()`] turns a file into job descriptions, or says what is wrong in it at file, line and
//! column. A file is one job (an object) or a list of jobs; plain JSON is BCL too, and so is the
//! canonical JSON of a job description, which evaluates to that very description.
//!
//! What this crate is not: it reads no file (imports come through a [`Loader`]), knows no cell and
//! no clock, and does not decide whether a job may run.
//!
//! # Bounds
//! Nesting of a source file, depth of the evaluation, number of imported bytes, and number, depth
//! and text of the values that come out are bounded here ([`limits`]) and end in errors. Steps and
//! memory *during* the evaluation are not: `std.range(1, 1e9)`, an endless `tailstrict` loop or a
//! text doubled forty times must be ended from outside. So a shell evaluates in a child process
//! with limits on time and memory, and treats that child's death as "needs too much". The thread
//! that evaluates wants 2 MiB of stack.
//!
//! # Reading order
//! `evaluate` drives the Jsonnet interpreter, `json` holds the bounded value that comes out,
//! `schema` makes it a job, `locate` finds the place in the sources that a wrong value was written
//! at, `error` is what the user sees.

mod constraints;
mod error;
mod evaluate;
mod explain;
mod fields;
mod grammar;
mod health;
mod interpreter;
mod json;
mod locate;
mod nesting;
mod overrides;
mod problems;
mod quantity;
mod related;
mod schema;
mod scope;
mod screen;
mod source;
mod words;

pub use error::{Error, ErrorKind, Errors};
pub use evaluate::evaluate;
pub use interpreter::{Loaded, Loader, NoImports, NotLoaded, Settings};
pub use source::Location;

/// The name by which files import the built-in library.
pub const LIBRARY_NAME: &str = "borg.libsonnet";

/// The built-in library's source, commented for its users.
pub const LIBRARY: &str = include_str!("borg.libsonnet");

/// The bounds of what is evaluated here.
pub mod limits {
    /// Bytes of all source files together, imported data included.
    pub const SOURCE_BYTES_MAX: usize = 16 << 20;
    /// How deep the expressions of one file may nest; more would need more stack than a thread has.
    pub const NESTING_MAX: u32 = 250;
    /// How deep calls and values may nest during evaluation.
    pub const STACK_MAX: usize = 500;
    /// Values in the result: objects, lists, texts, numbers.
    pub const VALUES_MAX: usize = 1 << 20;
    /// Bytes of all texts and field names in the result.
    pub const TEXT_BYTES_MAX: usize = 16 << 20;
    /// How deep objects and lists of the result may nest. A job needs 6.
    pub const DEPTH_MAX: usize = 32;
    /// Jobs of one file.
    pub const JOBS_MAX: usize = 1_000;
    /// Bytes of all texts in the overrides of one job, each counted for every task that it is for.
    pub const OVERRIDE_BYTES_MAX: usize = 64 << 20;
    /// Errors that are told at once.
    pub const ERRORS_MAX: usize = 20;
}

//! Job descriptions: what a user asks for (paper, section 2.3).
//!
//! A [`JobSpec`] is the canonical form that every way in (BCL, JSON, an RPC) becomes before the
//! cell sees it. This crate knows what a valid description is, and what each task of it looks like
//! once overrides and references are filled in. It does not know how a description is written
//! (crate `bcl`), sent (crate `proto`), admitted or placed.

mod constraint;
mod job;
mod kind;
mod path;
mod ports;
mod reference;
mod template;
#[cfg(test)]
mod testing;
mod update;
mod validate;

pub use constraint::{Constraint, NoSuchRelation, Relation};
pub use job::{HealthCheck, JobSpec, Maximum, RestartPolicy, TaskOverride, TaskSpec};
pub use kind::Kind;
pub use path::{Path, Step};
pub use reference::JobReference;
pub use template::{Reference, TaskField, expand, references};
pub use validate::{Problem, ProblemKind, limits};

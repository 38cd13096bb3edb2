//! Job descriptions (paper, section 2.3).
//!
//! A [`JobSpec`] is the canonical form to which every input (BCL, JSON, an RPC) is converted before
//! the cell sees it. This crate validates descriptions and computes the effective description of
//! each task, with overrides and references resolved. How a description is written (crate `bcl`),
//! sent (crate `api`), admitted or placed is not its concern.

mod autoscale;
mod batch;
mod constraint;
mod cores;
mod difference;
mod disruption;
mod files;
mod health;
mod job;
mod kind;
pub mod limits;
mod logs;
mod metrics;
mod name_reference;
mod names;
mod network;
mod on_change;
mod outputs;
mod path;
mod ports;
mod predecessor;
mod reference;
mod restart;
mod saver;
mod size;
mod template;
#[cfg(test)]
mod testing;
mod update;
mod validate;
mod volume;

pub use autoscale::{Autoscale, CpuRam};
pub use batch::BatchPolicy;
pub use constraint::{Constraint, NoSuchRelation, Relation};
pub use cores::{Cores, NoSuchCores};
pub use disruption::{DisruptionBudget, OnFailure, UpdatePolicy};
pub use files::{FileContent, FileMode, FileModeError, TaskFile};
pub use health::{HealthCheck, Probe};
pub use job::{JobSpec, Maximum, Sizing, TaskOverride, TaskSpec};
pub use kind::Kind;
pub use logs::{LogPolicy, LogSettings};
pub use metrics::MetricsPage;
pub use name_reference::{NameField, NameReference, NotAName};
pub use network::{Network, NoSuchNetwork};
pub use on_change::{NoSuchOnChange, OnChange};
pub use outputs::{OutputPath, OutputPathError, OutputPolicy};
pub use path::{Path, Step};
pub use predecessor::{EndCondition, Predecessor, PredecessorError};
pub use reference::JobReference;
pub use restart::{RestartPolicy, RestartWhen};
pub use saver::Saver;
pub use template::{Reference, TaskField, expand, references};
pub use update::{CHANGES_MAX, FIELDS, Field, FieldChange, FieldClass, FieldName};
pub use validate::{
    AutoscaleProblem, BatchProblem, CoresProblem, EveryMachineProblem, FilePathProblem,
    LogSettingsProblem, OutputProblem, Problem, ProblemKind, VolumeProblem,
};
pub use volume::{SCRATCH_DIRECTORY, VolumeRequest, VolumeSelector};

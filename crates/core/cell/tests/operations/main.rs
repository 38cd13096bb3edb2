//! Every operation on a cell, from outside: as readable scripts, and as random and exhaustive
//! sequences.

mod allocs;
mod attributes;
mod budgets;
mod enrolment;
mod evictions;
mod exhaustive;
mod follower;
mod jobs;
mod loading;
mod locks;
mod machines;
mod placing;
mod quota;
mod random;
mod relations;
mod replicas;
mod restarts;
mod running;
mod saving;
mod script;
mod sessions;
mod shown;
mod unreachable;
mod updates;
mod users;

//! Images: their names, the layout that a download makes, what a hostile or broken server can do, who asks, and
//! registries as others run them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod logins;
mod manifests;
mod programs;
mod references;
mod registries;
mod resuming;
mod support;

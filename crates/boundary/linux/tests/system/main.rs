//! Tests with real tasks on the real kernel: processes, cgroups, mounts. They need root, and drop
//! it to test what works without.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail as the test itself does")]

mod support;

mod allocs;
mod bind;
mod enter;
mod full;
mod groups;
mod image;
mod jail;
mod limits;
mod logs;
mod memory;
mod resize;
mod rootless;
mod run;
mod sharing;
mod stop;
mod survive;
mod trees;
mod usage;
mod volumes;

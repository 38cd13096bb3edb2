//! Packs, imports and unpacks real directories and archives. As root: owners and devices are real.

#![allow(clippy::unwrap_used, reason = "tests, in functions that are shared by them")]

mod damage;
mod image;
mod import;
mod layer;
mod listing;
mod pack;
mod rules;

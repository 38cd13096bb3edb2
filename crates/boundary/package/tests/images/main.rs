//! Imports images in all forms. As root: owners and devices are real.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod image;
mod import;
mod layer;
mod listing;

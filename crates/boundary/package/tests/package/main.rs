//! Packs, imports and unpacks real directories and archives. As root: owners and devices are real.

mod image;
mod import;
mod layer;
mod listing;
mod pack;
mod rules;

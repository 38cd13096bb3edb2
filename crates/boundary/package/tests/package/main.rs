//! Packs, imports and unpacks real directories and archives. As root: owners and devices are real.

mod listing;
mod pack;
mod rules;

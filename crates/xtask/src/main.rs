//! Bourg.
fn main() {}

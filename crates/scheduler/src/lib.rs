//! A scheduler's decisions: a copy of the cell in, proposed assignments out

//! The Borglet's decisions: orders and observations in, effects and reports out

//! Rejections of a cell as sentences for people: what happened, to what, why, and the command that helps.
//!
//! A rejection in the state is data: sessions keep it, every replica has the same, and its form is permanent.
//! Its sentence is made here, at the edge, and may become better in any release. Nothing in this crate has
//! effects: the master makes the text of its errors with it, and tests of the pure crates compare sentences.
//!
//! Deliberately absent: the code of an error ([`cell::RejectionClass`], and the master's mapping), what needs a
//! view of the cell, such as the nearest name (crate `masterd`), and errors of the client.

mod description;
mod permission;
mod quota;
mod reason;
mod sentence;

pub use description::of_mutation;
pub use quota::{insufficient_quota, oversold};
pub use sentence::sentence;

//! The traces as their users see them.

mod history;
mod properties;
mod rows;
mod shapes;
mod slice;

//! Tests of the public interface.

mod history;
mod properties;
mod rows;
mod shapes;
mod slice;

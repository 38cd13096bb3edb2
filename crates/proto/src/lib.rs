//! The only wire and disk formats, and their conversion from and to the core's types

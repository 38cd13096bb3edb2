//! Who shows the wrong thing: refused, and recorded by cause.

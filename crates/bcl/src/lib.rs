//! BCL: evaluates a configuration to a job description, with errors at file, line and column

//! Logs of batch systems in the Standard Workload Format of the Parallel Workloads Archive: a line for each job, with
//! columns separated by spaces; comments begin with a semicolon.
//!
//! Read are the columns 2 (submission, in seconds), 4 (run time, in seconds) and 5 (processors). Jobs that did not run
//! are counted and left out. What comes after the fifth column may be missing.

use std::io::BufRead;

use thiserror::Error;

/// A job of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwfJob {
    /// Its number in the log.
    pub number: u64,
    /// In seconds since the log begins.
    pub submitted: u64,
    /// In seconds.
    pub runtime: u64,
    /// The number of processors, all at once.
    pub processors: u32,
}

/// A log, in the order of its lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwfLog {
    /// The jobs that ran.
    pub jobs: Vec<SwfJob>,
    /// The number of jobs without a run time or processors.
    pub without: usize,
}

/// A log could not be read.
#[derive(Debug, Error)]
pub enum SwfError {
    /// The file.
    #[error("cannot read it: {0}")]
    Read(#[from] std::io::Error),
    /// A line.
    #[error("line {line} is not of the Standard Workload Format: {text:?}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// Its beginning.
        text: String,
    },
}

/// Reads a log.
///
/// # Errors
/// If it cannot be read, or a line does not have five numbers.
pub fn read(input: impl BufRead) -> Result<SwfLog, SwfError> {
    let mut log = SwfLog::default();
    for (position, text) in input.lines().enumerate() {
        let text = text?;
        let text = text.trim();
        if text.is_empty() || text.starts_with(';') {
            continue;
        }
        let bad = || SwfError::Line { line: position + 1, text: text.chars().take(80).collect() };
        let columns: Option<Vec<f64>> =
            text.split_ascii_whitespace().take(5).map(|column| column.parse().ok()).collect();
        let columns = columns.filter(|columns| columns.len() == 5).ok_or_else(bad)?;
        let whole = |column: usize| columns.get(column).copied().and_then(whole);
        match (whole(0), whole(1), whole(3), whole(4).and_then(|number| u32::try_from(number).ok()))
        {
            (Some(number), Some(submitted), Some(runtime), Some(processors)) if processors > 0 => {
                log.jobs.push(SwfJob { number, submitted, runtime, processors });
            }
            (Some(_), Some(_), _, _) => log.without += 1,
            _ => return Err(bad()),
        }
    }
    Ok(log)
}

/// A number that is not negative, without its fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in the range")]
fn whole(number: f64) -> Option<u64> {
    (0.0..=9e15).contains(&number).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_ran_are_read() {
        let text = "; a comment\n\n 1  10 -1 60 4 -1 -1\n2 20 -1 -1 4\n3 20.5 0 5 0\n4 30 0 0 1\n";
        let log = read(text.as_bytes()).expect("a log");
        let job = |number, submitted, runtime, processors| SwfJob {
            number,
            submitted,
            runtime,
            processors,
        };
        assert_eq!(log, SwfLog { jobs: vec![job(1, 10, 60, 4), job(4, 30, 0, 1)], without: 2 });
    }

    #[test]
    fn other_lines_are_errors_with_their_number() {
        for text in ["1 2 3 4", "a b c d e", "1 -5 0 1 1", "1 2 3 4 \u{1b}[31m", "NaN 1 1 1 1"] {
            let error = read(format!("; log\n{text}\n").as_bytes()).expect_err(text).to_string();
            assert!(error.starts_with("line 2 is not of the Standard Workload Format"), "{error}");
        }
    }
}

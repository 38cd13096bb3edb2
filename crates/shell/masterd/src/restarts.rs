//! How often the master of a data directory was started: a number in the file `starts`, used only
//! for a metric. It reveals a master that crashes repeatedly, however rarely somebody looks.

use std::path::Path;

/// The file's name in the data directory.
const FILE: &str = "starts";

/// Counts this start, and returns the number of earlier ones. If it cannot be stored, as on a full
/// disk, that is logged, and the master starts all the same.
pub(super) fn count(directory: &Path) -> u64 {
    let path = directory.join(FILE);
    let before = std::fs::read_to_string(&path).ok();
    let before: u64 = before.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let unfinished = directory.join(format!("{FILE}.tmp"));
    let kept = std::fs::write(&unfinished, format!("{}\n", before.saturating_add(1)))
        .and_then(|()| std::fs::rename(&unfinished, &path));
    if let Err(error) = kept {
        tracing::warn!("cannot count this start in {}: {error}", path.display());
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_counted_and_what_is_no_number_counts_as_none() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!([0; 3].map(|_| count(directory.path())), [0, 1, 2]);
        std::fs::write(directory.path().join(FILE), "many").expect("it can be written");
        assert_eq!([0; 2].map(|_| count(directory.path())), [0, 1]);
        assert_eq!(count(&directory.path().join("not/there")), 0);
    }
}

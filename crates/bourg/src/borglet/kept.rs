//! The directories of instances whose records nobody needs any more: their logs are kept for a
//! while.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::remover::Remover;
use super::tasks::Files;

/// How often they are looked through.
const INTERVAL: Duration = Duration::from_secs(30);
/// How long one is kept.
const KEPT_FOR: Duration = Duration::from_secs(3_600);
/// How many are kept at most.
const KEPT_MAX: usize = 200;

/// Since when each is known to this process. The moment that its file has is the wall clock's, by
/// which an hour may be over at once.
#[derive(Debug, Default)]
struct Kept {
    known: HashMap<String, Instant>,
}

/// Removes what has been kept long enough, for ever.
pub(crate) async fn clean(files: Files, remover: Remover) {
    let mut interval = tokio::time::interval(INTERVAL);
    let mut kept = Kept::default();
    loop {
        interval.tick().await;
        let files = files.clone();
        let cleaned = tokio::task::spawn_blocking(move || {
            if let Err(error) = kept.clean(&files, KEPT_FOR, KEPT_MAX) {
                tracing::error!("old task directories cannot be listed: {error:#}");
            }
            kept
        });
        kept = cleaned.await.unwrap_or_default();
        remover.look();
    }
}

impl Kept {
    /// Removes those known for longer than a time, and the oldest beyond a number.
    fn clean(&mut self, files: &Files, kept_for: Duration, kept_max: usize) -> anyhow::Result<()> {
        let now = Instant::now();
        let mut retired = Vec::new();
        for (name, noted) in files.retired()? {
            let since = self.known.get(&name).copied().unwrap_or(now);
            retired.push((Reverse((since, noted)), name));
        }
        retired.sort_unstable();
        self.known.clear();
        for (position, (Reverse((since, _)), name)) in retired.into_iter().enumerate() {
            let over = position >= kept_max || now - since > kept_for;
            match if over { files.discard(&name) } else { Ok(()) } {
                Ok(()) if over => continue,
                Ok(()) => {}
                // It is tried again, and is no reason to keep the others.
                Err(error) => tracing::error!("{name} cannot be removed: {error:#}"),
            }
            self.known.insert(name, since);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::Isolation;
    use std::fs::{self, File};
    use std::time::SystemTime;

    #[test]
    fn what_is_kept_is_a_matter_of_this_processs_time_and_of_their_number() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let files = Files::found(place.path(), Isolation::Rootless).expect("a directory");
        for (index, name) in ["1-0-1", "1-0-2", "1-0-3"].into_iter().enumerate() {
            let directory = files.tasks().join(name);
            fs::create_dir_all(&directory).expect("a task directory");
            let retired = File::create(directory.join("retired")).expect("a file");
            let noted = SystemTime::UNIX_EPOCH + Duration::from_secs(index as u64);
            retired.set_modified(noted).expect("its time can be set");
        }
        fs::create_dir(files.tasks().join("2-0-1")).expect("one that is needed");
        let there = || linux::task::scan(&files.tasks()).expect("a list").join(" ");
        let mut kept = Kept::default();
        let hour = Duration::from_secs(3_600);
        kept.clean(&files, hour, 200).expect("it can be cleaned");
        assert_eq!(there(), "1-0-1 1-0-2 1-0-3 2-0-1", "nobody knows since when");
        kept.clean(&files, hour, 2).expect("it can be cleaned");
        assert_eq!(there(), "1-0-2 1-0-3 2-0-1", "the oldest is one too many");
        kept.clean(&files, Duration::ZERO, 200).expect("it can be cleaned");
        assert_eq!(there(), "2-0-1", "known for longer than no time");
    }
}

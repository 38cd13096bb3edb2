//! What the autoscaler remembers of each job by its name, and the file in which it is kept.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use autoscale::History;
use command::{Done, Failure};
use model::{CollectionId, Span, Time};

/// The first line of the file.
const HEADER: &str = "bourg-autoscaler 1";
/// The maximum number of jobs; those that were not seen for the longest time are forgotten for others.
const JOBS_MAX: usize = 10_000;
/// The maximum size of the file: what that many histories have.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What is remembered of a job.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    /// Usage of all jobs with its name.
    pub(super) history: History,
    /// The incarnation of the job whose limit was changed last.
    pub(super) changed_in: CollectionId,
    /// When; `None`: never.
    pub(super) changed: Option<Time>,
    /// When the job was last seen alive.
    pub(super) seen: Time,
    /// The usage windows that the cell has are read from here on.
    pub(super) read_until: Option<Time>,
    /// Nothing is sent for it before this time, because the cell has rejected something.
    pub(super) not_before: Time,
}

/// The histories of all jobs, by `user/job`.
#[derive(Debug)]
pub(super) struct Histories {
    file: Option<PathBuf>,
    window: Span,
    jobs: BTreeMap<String, Remembered>,
}

impl Histories {
    /// Those of a file, which may not exist yet; or empty ones.
    pub(super) fn read(file: Option<PathBuf>, window: Span) -> Result<Self, Failure> {
        let mut histories = Self { file, window, jobs: BTreeMap::new() };
        let Some(path) = histories.file.clone() else { return Ok(histories) };
        let failed = |error: std::io::Error| {
            Failure::usage(format!("error: cannot read --history {}: {error}", path.display()))
        };
        match fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(histories),
            Err(error) => return Err(failed(error)),
            Ok(found) if found.len() > FILE_BYTES_MAX => {
                let most = FILE_BYTES_MAX >> 20;
                let text = format!("error: {} has more than {most} MiB", path.display());
                return Err(Failure::usage(text).next("name a file that this command has written"));
            }
            Ok(_) => {}
        }
        let text = fs::read_to_string(&path).map_err(failed)?;
        let damaged = |line: usize| {
            let text = format!("error: {} is damaged in line {line}", path.display());
            let next = "move it away: without it, the usage of the last hours comes from the cell";
            Failure::usage(text).next(next)
        };
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            return Err(damaged(1));
        }
        for (position, line) in lines.enumerate() {
            let (name, remembered) = parse(line, window).ok_or_else(|| damaged(position + 2))?;
            histories.jobs.insert(name, remembered);
        }
        Ok(histories)
    }

    /// What is remembered of a job that is alive now.
    pub(super) fn of(&mut self, name: &str, now: Time) -> &mut Remembered {
        if self.jobs.len() >= JOBS_MAX && !self.jobs.contains_key(name) {
            let oldest = self.jobs.iter().min_by_key(|(_, job)| job.seen);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.jobs.remove(&oldest);
            }
        }
        let window = self.window;
        let remembered = self.jobs.entry(name.to_owned()).or_insert_with(|| Remembered {
            history: History::new(window),
            changed_in: CollectionId(0),
            changed: None,
            seen: now,
            read_until: None,
            not_before: Time::ZERO,
        });
        remembered.seen = now;
        remembered
    }

    /// Writes the file, atomically and durably.
    pub(super) async fn save(&self) -> Done {
        let Some(path) = self.file.clone() else { return Ok(()) };
        let mut text = format!("{HEADER}\n");
        for (name, job) in &self.jobs {
            let changed = job.changed.map_or_else(|| "-".to_owned(), |at| at.0.to_string());
            let (id, seen) = (job.changed_in.0, job.seen.0);
            text += &format!("{name} {id} {changed} {seen} {}\n", job.history.to_text());
        }
        let written = tokio::task::spawn_blocking(move || {
            let done = write(&path, &text);
            done.map_err(|error| (path, error))
        });
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err((path, error))) => Err(Failure::failed(format!(
                "error: cannot write --history {}: {error}",
                path.display()
            ))),
            Err(error) => Err(Failure::failed(format!("error: {error}"))),
        }
    }
}

fn parse(line: &str, window: Span) -> Option<(String, Remembered)> {
    let mut words = line.splitn(5, ' ');
    let mut word = || words.next();
    let name = word()?;
    let (user, job) = name.split_once('/')?;
    if user.is_empty() || job.is_empty() {
        return None;
    }
    let changed_in = CollectionId(word()?.parse().ok()?);
    let changed = match word()? {
        "-" => None,
        at => Some(Time(at.parse().ok()?)),
    };
    let seen = Time(word()?.parse().ok()?);
    let history = History::from_text(word()?, window).ok()?;
    let (read_until, not_before) = (None, Time::ZERO);
    Some((
        name.to_owned(),
        Remembered { history, changed_in, changed, seen, read_until, not_before },
    ))
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".tmp");
    let unfinished = PathBuf::from(unfinished);
    let mut file = File::create(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use model::{Bytes, MilliCores};
    use spec::CpuRam;

    use super::*;

    const WINDOW: Span = Span::from_secs(300);

    #[tokio::test]
    async fn saved_histories_are_read_back_and_damage_is_reported_with_its_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("history");
        let read = || Histories::read(Some(path.clone()), WINDOW);
        let now = Time(1_700_000_000_000_000);
        let mut histories = read().expect("there is no file yet");
        let web = histories.of("ana/web", now);
        (web.changed_in, web.changed) = (CollectionId(7), Some(now));
        web.history.sample(now, now, CpuRam { cpu: MilliCores(5), ram: Bytes(6) });
        let before = web.history.clone();
        histories.of("ben/db", now);
        histories.save().await.expect("saved");

        let mut again = read().expect("a file");
        assert_eq!(again.jobs.len(), 2);
        let web = again.of("ana/web", now);
        assert_eq!((web.changed_in, web.changed), (CollectionId(7), Some(now)));
        assert_eq!(web.history, before);

        let text = fs::read_to_string(&path).expect("text");
        for (damaged, line) in [
            (text.replace("bourg-autoscaler 1", "something"), 1),
            (text.replace("ben/db", "ben"), 3),
            (text.replace("ana/web 7", "ana/web x"), 2),
            (text[..text.len() - 20].to_owned(), 3),
        ] {
            fs::write(&path, damaged).expect("written");
            let says = read().expect_err("damaged").to_string();
            let expected = format!("is damaged in line {line}\nnext: move it away");
            assert!(says.contains(&expected), "{says}");
        }
    }

    #[test]
    fn the_job_that_was_not_seen_for_the_longest_time_is_forgotten() {
        let mut histories = Histories::read(None, WINDOW).expect("empty");
        for number in 0..=JOBS_MAX {
            let at = Time(u64::try_from(number).expect("a number"));
            histories.of(&format!("ana/job-{number}"), at);
        }
        assert_eq!(histories.jobs.len(), JOBS_MAX);
        assert!(!histories.jobs.contains_key("ana/job-0"));
    }
}

//! The directory of fetched outputs.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use archive::{Copied, Top};
use command::Failure;
use model::InstanceId;

/// What is not complete, and what is known of what is.
const STATE_DIRECTORY: &str = ".bourg-results";

/// The directory.
#[derive(Debug)]
pub(super) struct ResultsPlace {
    directory: PathBuf,
}

/// The begin of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partial {
    pub(super) instance: InstanceId,
    pub(super) bytes: u64,
}

impl ResultsPlace {
    /// Makes the directory, unless it is there.
    pub(super) fn open(directory: &Path) -> Result<Self, Failure> {
        let made = fs::create_dir_all(directory.join(STATE_DIRECTORY));
        made.map_err(|error| {
            let place = directory.display();
            Failure::usage(format!("error: cannot make the directory {place}: {error}"))
                .next("name another directory with --to")
        })?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// What is not complete of a task, and what is known of what is. Each task has its own, so that nobody
    /// lists those of all tasks for one.
    fn states(&self, task: u32) -> PathBuf {
        self.directory.join(STATE_DIRECTORY).join(task.to_string())
    }

    fn state(&self, task: u32, instance: InstanceId, kind: &str) -> PathBuf {
        self.states(task).join(format!("{instance}{kind}"))
    }

    fn outputs(&self, task: u32) -> PathBuf {
        self.directory.join(task.to_string())
    }

    /// The incarnations of a task with a file of this kind.
    fn instances(&self, task: u32, kind: &str) -> io::Result<Vec<InstanceId>> {
        let entries = match fs::read_dir(self.states(task)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            if let Some(Ok(instance)) = name.strip_suffix(kind).map(str::parse) {
                found.push(instance);
            }
        }
        Ok(found)
    }

    /// What an earlier fetch of a task has left.
    pub(super) fn partial(&self, task: u32) -> anyhow::Result<Option<Partial>> {
        let newest = self.instances(task, ".tar").context("cannot read the directory")?;
        let Some(instance) = newest.into_iter().max() else { return Ok(None) };
        let bytes = fs::metadata(self.state(task, instance, ".tar"))
            .with_context(|| format!("cannot read what is there of task {task}"))?
            .len();
        Ok(Some(Partial { instance, bytes }))
    }

    /// Opens an archive to go on with it, and removes those of other incarnations.
    pub(super) fn open_partial(&self, task: u32, partial: &Partial) -> anyhow::Result<File> {
        for other in self.instances(task, ".tar")? {
            if other != partial.instance {
                fs::remove_file(self.state(task, other, ".tar"))?;
            }
        }
        let states = self.states(task);
        fs::create_dir_all(&states)
            .with_context(|| format!("cannot make the directory {}", states.display()))?;
        let path = self.state(task, partial.instance, ".tar");
        let opened = OpenOptions::new().append(true).create(true).open(&path);
        let file = opened.with_context(|| format!("cannot write {}", path.display()))?;
        let has = file.metadata()?.len();
        ensure!(has >= partial.bytes, "{} became shorter", path.display());
        file.set_len(partial.bytes)?;
        Ok(file)
    }

    /// Whether all outputs of an incarnation are here.
    pub(super) fn is_done(&self, task: u32, instance: InstanceId) -> bool {
        self.state(task, instance, ".done").exists() && self.outputs(task).exists()
    }

    /// Unpacks a complete archive. What is there of an earlier incarnation is replaced.
    pub(super) fn unpack(&self, task: u32, instance: InstanceId) -> anyhow::Result<Copied> {
        let (outputs, new) = (self.outputs(task), self.state(task, instance, ""));
        let earlier = self.instances(task, ".done")?;
        ensure!(
            !outputs.exists() || !earlier.is_empty(),
            "{} is there, and not from this command: move it away, or name another directory with --to",
            outputs.display()
        );
        if new.exists() {
            fs::remove_dir_all(&new).with_context(|| format!("cannot remove {}", new.display()))?;
        }
        let path = self.state(task, instance, ".tar");
        let archive =
            File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = new.file_name().unwrap_or_default().to_owned();
        let unpacked = archive::unpack(io::BufReader::new(archive), &new, Top::WrittenAs(name));
        let copied = match unpacked {
            Ok(copied) => copied,
            Err(error) => {
                // The next fetch begins anew.
                let _stays = fs::remove_file(&path);
                return Err(error);
            }
        };
        if outputs.exists() {
            let removed = fs::remove_dir_all(&outputs);
            removed.with_context(|| format!("cannot replace {}", outputs.display()))?;
        }
        File::create(self.state(task, instance, ".done"))?;
        for other in earlier.into_iter().filter(|other| *other != instance) {
            fs::remove_file(self.state(task, other, ".done"))?;
        }
        let moved = fs::rename(&new, &outputs);
        moved.with_context(|| format!("cannot write {}", outputs.display()))?;
        fs::remove_file(&path)?;
        Ok(copied)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn instance(text: &str) -> InstanceId {
        text.parse().expect("an instance")
    }

    fn archive_of(text: &str) -> Vec<u8> {
        let place = tempfile::tempdir().expect("a directory");
        fs::write(place.path().join("n"), text).expect("there is room");
        let mut archive = Vec::new();
        let packed = archive::pack(place.path(), &mut archive, &mut |path, why| {
            panic!("{}: {why}", path.display())
        });
        packed.expect("it is packed");
        archive
    }

    #[test]
    fn a_fetch_goes_on_where_it_was_cut_and_newer_outputs_replace_older_ones() {
        let to = tempfile::tempdir().expect("a directory");
        let place = ResultsPlace::open(&to.path().join("all")).expect("a directory");
        let read = |task: u32| fs::read_to_string(place.outputs(task).join("n")).expect("a file");
        let (first, second) = (instance("1-12-1"), instance("1-12-2"));
        let archive = archive_of("first");
        assert_eq!(place.partial(12).expect("none"), None);
        let begin = Partial { instance: first, bytes: 0 };
        let mut file = place.open_partial(12, &begin).expect("a file");
        file.write_all(&archive[..700]).expect("there is room");
        drop(file);
        let partial = place.partial(12).expect("readable");
        assert_eq!(partial, Some(Partial { instance: first, bytes: 700 }));
        assert_eq!(place.partial(2).expect("none"), None);
        let state = to.path().join("all/.bourg-results/12");
        assert!(state.join("1-12-1.tar").exists(), "each task has a directory of its own");
        let mut file = place.open_partial(12, &partial.expect("there")).expect("a file");
        file.write_all(&archive[700..]).expect("there is room");
        assert_eq!(place.unpack(12, first).expect("whole").files, 1);
        assert_eq!(read(12), "first");
        assert!(place.is_done(12, first) && !place.is_done(12, second) && !place.is_done(1, first));
        assert_eq!(place.partial(12).expect("none"), None);

        let begin = Partial { instance: second, bytes: 0 };
        let mut file = place.open_partial(12, &begin).expect("a file");
        file.write_all(&archive_of("second")).expect("there is room");
        place.unpack(12, second).expect("whole");
        assert_eq!(read(12), "second");
        assert!(place.is_done(12, second) && !place.is_done(12, first));
        let left =
            fs::read_dir(&state).expect("readable").map(|entry| entry.expect("one").file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["1-12-2.done"]);
    }

    #[test]
    fn what_the_user_has_there_stays() {
        let to = tempfile::tempdir().expect("a directory");
        let place = ResultsPlace::open(to.path()).expect("a directory");
        fs::create_dir(place.outputs(0)).expect("a directory");
        let begin = Partial { instance: instance("1-0-1"), bytes: 0 };
        let mut file = place.open_partial(0, &begin).expect("a file");
        file.write_all(&archive_of("x")).expect("there is room");
        let error = place.unpack(0, begin.instance).expect_err("it is not ours").to_string();
        assert!(error.contains("is there, and not from this command"), "{error}");
        assert!(!place.outputs(0).join("n").exists());
    }
}

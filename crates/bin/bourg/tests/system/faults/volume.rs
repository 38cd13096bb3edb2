//! A replica's disk: a filesystem that can be full, slow, stuck or new, and can lose unsynced data.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::fcntl::{FallocateFlags, fallocate};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// A filesystem in a file in memory.
pub(crate) struct Volume {
    image: PathBuf,
    at: PathBuf,
    files: Option<u32>,
    slow: Option<Slow>,
    frozen: bool,
}

/// The thread that makes a disk slow.
struct Slow {
    goes_on: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

mod control {
    // Shuts down a filesystem at once; the flag says what to do with its journal.
    nix::ioctl_read!(shutdown, b'X', 125, u32);
}

/// The journal is not written either: as in a power failure.
const NOTHING_IS_FLUSHED: u32 = 2;
/// How long a slow disk blocks, and how long it works in between.
const STUCK: Duration = Duration::from_millis(60);
const WORKS: Duration = Duration::from_millis(3);
const BALLAST: &str = "ballast";
/// A replica's data directory, and its backup copy.
const DATA: &str = "data";
const OLDER: &str = "older";

impl Volume {
    /// Memory for this many MiB of disks, in a directory.
    pub(crate) fn memory(directory: &Path, mib: usize) {
        std::fs::create_dir_all(directory).expect("a directory");
        let options = format!("size={mib}m,mode=700");
        mount(Some("tmpfs"), directory, Some("tmpfs"), MsFlags::empty(), Some(&*options))
            .expect("root can mount");
    }

    /// An empty disk with its image at a path.
    pub(crate) fn new(image: PathBuf, at: PathBuf, mib: u64) -> Self {
        Self::with_files(image, at, mib, None)
    }

    /// The same with room for this many files, if given.
    pub(crate) fn with_files(image: PathBuf, at: PathBuf, mib: u64, files: Option<u32>) -> Self {
        std::fs::create_dir_all(&at).expect("a directory");
        let file = File::create(&image).expect("an image");
        file.set_len(mib << 20).expect("it is sparse");
        let volume = Self { image, at, files, slow: None, frozen: false };
        volume.make();
        volume.mount();
        volume
    }

    fn make(&self) {
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F", "-m", "0", "-E", "nodiscard"]);
        if let Some(files) = self.files {
            // Small blocks, which mkfs would choose itself below 512 MiB: files take the space that they need.
            make.args(["-b", "1024", "-N", &files.to_string()]);
        }
        make.arg(&self.image);
        assert!(make.status().expect("mkfs.ext4 can be started").success());
    }

    fn mount(&self) {
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop"]).arg(&self.image).arg(&self.at);
        assert!(mount.status().expect("mount can be started").success());
    }

    fn unmount(&self) {
        crate::eventually::until("the disk is not in use", || {
            umount2(&self.at, MntFlags::empty()).is_ok()
        });
    }

    /// Its mount point.
    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    /// Replaces it with an empty one. It must not be in use.
    pub(crate) fn replace(&mut self) {
        self.works();
        self.unmount();
        self.make();
        self.mount();
    }

    /// A power failure: unsynced data is missing when it is mounted again.
    pub(crate) fn loses_power(&mut self) {
        self.works();
        let directory = File::open(&self.at).expect("it is mounted");
        let mut how = NOTHING_IS_FLUSHED;
        #[expect(unsafe_code, reason = "there is no safe call for it")]
        // SAFETY: the kernel reads the number, which outlives the call.
        let ended = unsafe { control::shutdown(directory.as_raw_fd(), &raw mut how) };
        ended.expect("the filesystem can be ended");
    }

    /// Ends the power failure. It must not be in use.
    pub(crate) fn has_power(&self) {
        self.unmount();
        self.mount();
    }

    /// Syncs everything written so far.
    pub(crate) fn syncs(&self) {
        let directory = File::open(&self.at).expect("it is mounted");
        nix::unistd::syncfs(&directory).expect("the disk works");
    }

    /// Fills it up.
    pub(crate) fn fill(&self) {
        let file = File::create(self.at.join(BALLAST)).expect("a file");
        let mut end = 0;
        for bytes in [64 << 20, 1 << 20, 4096] {
            while fallocate(&file, FallocateFlags::empty(), end, bytes).is_ok() {
                end += bytes;
            }
        }
    }

    /// Blocks until it [`works`](Self::works).
    pub(crate) fn sticks(&mut self) {
        freeze(&self.at, true);
        self.frozen = true;
    }

    /// Is slow until it [`works`](Self::works).
    pub(crate) fn slows(&mut self) {
        let goes_on = Arc::new(AtomicBool::new(true));
        let (asked, at) = (Arc::clone(&goes_on), self.at.clone());
        let thread = std::thread::spawn(move || {
            while asked.load(Ordering::Relaxed) {
                freeze(&at, true);
                std::thread::sleep(STUCK);
                freeze(&at, false);
                std::thread::sleep(WORKS);
            }
        });
        self.slow = Some(Slow { goes_on, thread });
    }

    /// Works again, and has room.
    pub(crate) fn works(&mut self) {
        if let Some(slow) = self.slow.take() {
            slow.goes_on.store(false, Ordering::Relaxed);
            slow.thread.join().expect("it ends");
        }
        if std::mem::take(&mut self.frozen) {
            freeze(&self.at, false);
        }
        let _absent = std::fs::remove_file(self.at.join(BALLAST));
    }

    /// Makes a copy of the replica's directory, like a backup.
    pub(crate) fn keeps_a_copy(&self) {
        copies(&self.at.join(DATA), &self.at.join(OLDER));
    }

    /// Replaces the replica's directory by that copy.
    pub(crate) fn puts_the_copy_back(&self) {
        std::fs::remove_dir_all(self.at.join(DATA)).expect("it is there");
        std::fs::rename(self.at.join(OLDER), self.at.join(DATA)).expect("it was kept");
    }

    /// The same in place, like a restored snapshot of the whole disk.
    pub(crate) fn is_put_back(&self) {
        let (data, older) = (self.at.join(DATA), self.at.join(OLDER));
        for path in files(&data) {
            if !older.join(path.strip_prefix(&data).expect("it is below")).exists() {
                std::fs::remove_file(path).expect("it can be removed");
            }
        }
        // Existing files stay, and get their former content.
        copies(&older.join("."), &data);
        std::fs::remove_dir_all(older).expect("it is there");
        self.syncs();
    }

    /// Gets a copy of another volume's directory.
    pub(crate) fn becomes_a_copy_of(&self, other: &Self) {
        std::fs::remove_dir_all(self.at.join(DATA)).expect("it is there");
        copies(&other.at.join(DATA), &self.at.join(DATA));
    }

    /// Damages the newest segment of its log, in many places.
    pub(crate) fn corrupt(&self) {
        let entries = std::fs::read_dir(self.at.join(DATA).join("log")).expect("a log");
        let entries = entries.map(|entry| entry.expect("an entry").path());
        let segments = entries.filter(|path| path.extension().is_some_and(|it| it == "log"));
        let newest = segments.max().expect("a segment");
        let bytes = std::fs::read(&newest).expect("it can be read");
        let end = bytes.iter().rposition(|byte| *byte != 0).expect("records") + 1;
        let file = File::options().write(true).open(&newest).expect("it can be written");
        for part in 2..20 {
            let at = end * part / 20;
            file.write_all_at(&[!bytes[at]], at as u64).expect("it can be written");
        }
        file.sync_all().expect("the disk works");
    }
}

fn copies(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.expect("cp can be started").success());
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let entries = entries.map(|entry| entry.expect("an entry").path());
    let (directories, mut all): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    all.extend(directories.iter().flat_map(|directory| files(directory)));
    all
}

fn freeze(at: &Path, freeze: bool) {
    let how = if freeze { "--freeze" } else { "--unfreeze" };
    let status = Command::new("fsfreeze").arg(how).arg(at).status();
    assert!(status.expect("fsfreeze can be started").success(), "{how}");
}

impl Drop for Volume {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.works();
        } else if self.frozen || self.slow.is_some() {
            if let Some(slow) = self.slow.take() {
                slow.goes_on.store(false, Ordering::Relaxed);
                let _ended = slow.thread.join();
            }
            let _thawed = Command::new("fsfreeze").arg("--unfreeze").arg(&self.at).status();
        }
        let _gone = umount2(&self.at, MntFlags::MNT_DETACH);
    }
}

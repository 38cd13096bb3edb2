//! Failures of the log's disk: a torn write, and a full disk.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::cell::{Cell, Role};
use crate::eventually::until;
use crate::pages::{Of, metrics, page, value};
use crate::terminal::Terminal;

/// The newest segment of the master's log, and where its records end.
pub(crate) fn newest_segment(cell: &Cell) -> (PathBuf, usize) {
    let directory = cell.directory().join("master/log");
    let entries = fs::read_dir(directory).expect("a log");
    let segments = entries.map(|entry| entry.expect("an entry").path());
    let segments = segments.filter(|path| path.extension().is_some_and(|it| it == "log"));
    let newest = segments.max().expect("a segment");
    let bytes = fs::read(&newest).expect("it can be read");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("records") + 1;
    (newest, end)
}

/// Overwrites some bytes of a file.
pub(crate) fn overwrite(path: &PathBuf, at: usize, bytes: &[u8]) {
    let file = fs::File::options().write(true).open(path).expect("it can be written");
    file.write_all_at(bytes, at as u64).expect("it can be written");
}

fn finished(cell: &Cell) {
    cell.ok("bourg run $EXAMPLES/batch.bcl");
    cell.job("pi", "is finished", |job| job["state"] == "finished");
}

#[test]
fn a_torn_tail_is_cut_off_and_said() {
    let mut cell = Cell::start();
    finished(&cell);
    cell.stop();
    // Of a write over several sectors some reached the disk, but not the first.
    let (segment, end) = newest_segment(&cell);
    overwrite(&segment, (end / 512 + 2) * 512, &[0x5a; 700]);
    cell.start_again(&[]);
    let said = cell.dev().stderr();
    assert!(said.contains("did not reach the disk whole"), "{said}");
    assert!(said.contains("unless the disk lost what it had reported as written"), "{said}");
    assert_eq!(cell.ok("bourg status pi -o state"), "finished\n");
    cell.ok("bourg run $EXAMPLES/hello.bcl");
}

/// The size of a cell's copy of the program on its disk, in MiB.
pub(crate) fn program_mib() -> u64 {
    let program = fs::metadata(env!("CARGO_BIN_EXE_bourg")).expect("it is built");
    program.len().div_ceil(1 << 20)
}

/// A small filesystem, unmounted on drop.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// A tmpfs with room for this many MiB besides a cell's copy of the program, and with these
    /// mount options.
    pub(crate) fn mount(mib: u64, options: &str) -> Self {
        let place = tempfile::Builder::new().prefix("bourg-test-").tempdir();
        let place = place.expect("a temporary directory");
        let size = mib + program_mib();
        let options = format!("mode=700,size={size}m{options}");
        let flags = nix::mount::MsFlags::empty();
        nix::mount::mount(Some("tmpfs"), place.path(), Some("tmpfs"), flags, Some(&*options))
            .expect("root can mount");
        Self(place)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _busy = nix::mount::umount2(self.0.path(), nix::mount::MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_full_disk_refuses_changes_and_serves_reads_until_there_is_room() {
    let disk = SmallDisk::mount(153, "");
    let mut cell = Cell::start_in(Terminal::new(), &disk.path("cell"), &[]);
    let ballast = disk.path("ballast").display().to_string();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    cell.ok(&format!("head -c 400m /dev/zero > {ballast}; true"));
    // A segment's space is preallocated; jobs that fit nowhere fill it.
    let submit = |number: u32| {
        cell.write(
            "large.bcl",
            format!(
                "(import 'borg.libsonnet').batch('large-{number}', tasks=30, cmd=['x'], perTask=\
                 function(i) {{ env: {{ X: std.repeat('%04d' % i, 25000) }} }}) {{ cpu: 1000, \
                 priority: 'free' }}"
            ),
        );
        cell.types("bourg run --detach large.bcl")
    };
    let (number, refused) = (0..200)
        .map(|number| (number, submit(number)))
        .find(|(_, ended)| ended.code != 0)
        .expect("the disk is full in the end");
    assert_eq!(refused.code, 3, "after {number} jobs: {}", refused.stderr);
    assert!(refused.stderr.contains("no room"), "{}", refused.stderr);
    let said = cell.fails(3, "bourg kill hello/0");
    assert!(said.contains("nothing can be changed now, only read: no room for "), "{said}");
    assert!(said.contains("free some space"), "what to do: {said}");
    let (status, said) = page(&cell, Of::Master, "/readyz");
    assert_eq!(status, 503, "{said}");
    assert!(
        said.starts_with("[-] disk failed: no room for ") && said.lines().count() == 1,
        "{said}"
    );
    assert_eq!(page(&cell, Of::Master, "/livez").0, 200, "it lives");
    let counted = metrics(&cell, Of::Master);
    let refused = value(&counted, "bourg_requests_refused_total{cause=\"no_room\",band=\"none\"}");
    assert!(refused >= Some(2.0), "{counted}");
    assert_eq!(cell.ok("bourg status hello -o counts.healthy"), "3\n", "reads go on");
    assert!(cell.ok("bourg logs hello/0").starts_with("listening"));
    assert_eq!(cell.tasks("hello").len(), 3, "tasks run on");
    cell.ok(&format!("rm {ballast}"));
    until("there is room", || submit(number + 1_000).code == 0);
    assert_eq!(page(&cell, Of::Master, "/readyz").0, 200, "it is ready again");
    cell.ok("bourg kill hello/0");
    cell.kill(Role::Master);
    until("it answers again", || cell.types("bourg cell").code == 0);
    assert_eq!(cell.ok("bourg status hello -o counts.healthy"), "2\n");
    cell.stop();
}

//! Directories of any size and depth: counted and deleted in bounded steps.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use linux::tree::{Measure, Removal, Used, remove_tree};
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};

/// Nested directories, deeper than any path can name; the last contains a file.
fn nest(top: &Path, depth: usize) {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    let name = CString::new("d".repeat(200)).unwrap();
    let mut directory = open(top, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        mkdirat(&directory, &*name, Mode::S_IRWXU).unwrap();
        directory = openat(&directory, &*name, flags, Mode::empty()).unwrap();
    }
    openat(&directory, "file", OFlag::O_CREAT | OFlag::O_WRONLY, Mode::S_IRWXU).unwrap();
}

fn measured(path: &Path) -> Used {
    let mut measure = Measure::of(path).unwrap();
    while !measure.advance(3).unwrap() {}
    measure.used()
}

#[test]
fn disk_space_of_files_is_counted_once_despite_hard_links_and_holes() {
    let base = tempfile::tempdir().unwrap();
    let top = base.path().join("top");
    fs::create_dir_all(top.join("a/b")).unwrap();
    fs::write(top.join("a/data"), vec![7; 1 << 20]).unwrap();
    fs::File::create(top.join("a/sparse")).unwrap().set_len(1 << 30).unwrap();
    for name in ["one", "two", "three"] {
        fs::hard_link(top.join("a/data"), top.join("a/b").join(name)).unwrap();
    }
    symlink("/", top.join("everything")).unwrap();
    symlink(base.path(), top.join("a/b/up")).unwrap();
    for number in 0..100 {
        fs::write(top.join(format!("empty-{number}")), "").unwrap();
    }
    let all = [&top, &top.join("a"), &top.join("a/b"), &top.join("a/data")];
    let bytes: u64 = all.iter().map(|path| fs::metadata(path).unwrap().blocks() * 512).sum();
    // Three directories, two files, two links, and those that are empty.
    let expected = Used { bytes, files: 107, more: false };
    assert_eq!(measured(&top), expected);
    assert_eq!(measured(&base.path().join("missing")), Used::default());
    // A file's usage is shared by its names.
    fs::rename(top.join("a/b"), base.path().join("b")).unwrap();
    let quarter = measured(&top);
    assert!((256 << 10..512 << 10).contains(&quarter.bytes), "{quarter:?}");
}

#[test]
fn a_tree_too_deep_to_count_is_reported() {
    let base = tempfile::tempdir().unwrap();
    nest(base.path(), 1_000);
    let used = measured(base.path());
    assert!(used.more && used.files >= 64, "{used:?}");
    remove_tree(&base.path().join("d".repeat(200))).unwrap();
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_of_any_depth_goes_so_much_at_a_time() {
    let base = tempfile::tempdir().unwrap();
    let top = base.path().join("top");
    let other = base.path().join("other");
    fs::create_dir_all(&top).unwrap();
    fs::write(&other, "stays").unwrap();
    nest(&top, 3_000);
    for directory in 0..20 {
        let directory = top.join(format!("wide-{directory}"));
        fs::create_dir(&directory).unwrap();
        (0..50).for_each(|number| fs::write(directory.join(number.to_string()), "x").unwrap());
    }
    // Names that the deletion would use itself.
    fs::write(top.join(".deep-1"), "").unwrap();
    fs::create_dir_all(top.join(".deep-2/x")).unwrap();
    symlink(&other, top.join("link")).unwrap();
    symlink("/usr", top.join("directory")).unwrap();
    let mut removal = Removal::of(top.clone());
    let mut slices = 0;
    while !removal.advance(500).unwrap() {
        slices += 1;
        assert!(top.exists() && slices < 100, "{slices} slices");
        if slices == 3 {
            // As if another process continued.
            removal = Removal::of(top.clone());
        }
    }
    assert!(slices >= 4, "{slices} slices of 500 for about 4,000 entries");
    assert!(!top.exists());
    assert_eq!(fs::read_to_string(&other).unwrap(), "stays");
    assert!(removal.advance(1).unwrap(), "what is not there is removed");
}

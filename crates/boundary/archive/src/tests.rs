//! Real directories and archives; hostile archives are written header by header.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use super::*;

fn place() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("it can be written");
}

/// The archive of a source, and what was left out.
fn packed_with(source: &Path) -> (Vec<u8>, Copied, Vec<String>) {
    let (mut archive, mut skipped) = (Vec::new(), Vec::new());
    let copied = pack(source, &mut archive, &mut |path, why| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        skipped.push(format!("{name}: {why}"));
    });
    (archive, copied.expect("it can be read"), skipped)
}

#[test]
fn links_stay_inside_if_they_go_up_first_and_not_too_far() {
    for (name, target, inside) in [
        ("top/link", "file", true),
        ("top/link", "./a/b", true),
        ("top/link", "..", false),
        ("top/link", "../other", false),
        ("top/a/link", "../file", true),
        ("top/a/link", "../../file", false),
        ("top/a/link", ".././b/c", true),
        // `b` may be a link to the top.
        ("top/a/link", "b/../c", false),
        ("top/link", "/etc/passwd", false),
        ("top/link", "", false),
        ("link", "file", false),
    ] {
        let stays = stays_inside(Path::new(name), Path::new(target));
        assert_eq!(stays, inside, "{name} -> {target}");
    }
}

#[test]
fn a_directory_arrives_as_it_was() {
    let (from, to) = (place(), place());
    let source = from.path().join("data");
    let long = "long-".repeat(48);
    fs::create_dir_all(source.join("a").join(&long)).expect("directories");
    write(&source.join("a/one"), "1");
    write(&source.join("a").join(&long).join(&long), "deep");
    write(&source.join("run"), "#!/bin/sh\n");
    fs::set_permissions(source.join("run"), Permissions::from_mode(0o4755)).expect("a mode");
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = File::options().write(true).open(source.join("run")).expect("a file");
    file.set_modified(then).expect("a time");
    symlink("../run", source.join("a/link")).expect("a link");
    symlink("/etc", source.join("etc")).expect("a link");
    nix::unistd::mkfifo(&source.join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    fs::set_permissions(source.join("a"), Permissions::from_mode(0o555)).expect("a mode");

    let (archive, copied, mut skipped) = packed_with(&source);
    skipped.sort();
    let expected =
        ["etc: a link to what is not copied with it", "pipe: neither a file nor a directory"];
    assert_eq!(skipped, expected);
    assert_eq!(copied, Copied { files: 3, bytes: 1 + 4 + 10 });

    // Into a directory that is there, twice; and as a new name.
    for (destination, arrives) in [
        (to.path().to_owned(), "data"),
        (to.path().to_owned(), "data"),
        (to.path().join("new"), "new"),
    ] {
        let written =
            unpack(archive.as_slice(), &destination, Top::Any).expect("it can be written");
        assert_eq!(written, copied);
        let arrived = to.path().join(arrives);
        let text = |path: &Path| fs::read_to_string(path).expect("it is there");
        assert_eq!(text(&arrived.join("a/link")), "#!/bin/sh\n");
        assert_eq!(text(&arrived.join("a").join(&long).join(&long)), "deep");
        let found = fs::metadata(arrived.join("run")).expect("it is there");
        assert_eq!(found.permissions().mode() & 0o7777, 0o755);
        assert_eq!(found.modified().expect("a time"), then);
        let mode = fs::metadata(arrived.join("a")).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o555);
        assert!(!arrived.join("pipe").exists() && !arrived.join("etc").exists());
    }
}

#[test]
fn a_file_goes_into_a_directory_or_under_a_new_name() {
    let (from, to) = (place(), place());
    write(&from.path().join("notes"), "new");
    symlink("notes", from.path().join("link")).expect("a link");
    let (archive, ..) = packed_with(&from.path().join("link"));
    let here = |name: &str| to.path().join(name);
    let read = |name: &str| fs::read_to_string(here(name)).expect("it is there");
    fs::create_dir(here("directory")).expect("a directory");
    write(&here("old"), "old");
    symlink("old", here("other")).expect("a link");
    for destination in ["directory", "new", "other"] {
        unpack(archive.as_slice(), &here(destination), Top::Any).expect("it can be written");
    }
    assert_eq!(read("directory/link"), "new");
    assert_eq!(read("new"), "new");
    assert_eq!((read("other"), read("old")), ("new".to_owned(), "old".to_owned()));
    // What was there stays if the new content is not whole.
    let cut = &archive[..513];
    let error = unpack(cut, &here("new"), Top::Any).expect_err("it is cut off");
    assert!(
        format!("{error:#}").contains("archive is damaged or incomplete")
            || format!("{error:#}").contains("cannot write"),
        "{error:#}"
    );
    assert_eq!(read("new"), "new");
    assert_eq!(fs::read_dir(to.path()).expect("it is there").count(), 4, "nothing is left behind");
    let said = |destination: &str| {
        let error = unpack(archive.as_slice(), &here(destination), Top::Any).expect_err("no place");
        format!("{error:#}").replace(&*to.path().to_string_lossy(), "TO")
    };
    assert_eq!(said("absent/"), "there is no directory TO/absent/");
    assert!(
        said("absent/new").starts_with("cannot write TO/absent/new: No such file or directory")
    );
    fs::create_dir(here("directory/sub")).expect("a directory");
    fs::create_dir_all(here("into/link")).expect("directories");
    assert_eq!(said("into"), "TO/into/link is there and no file");
    let error = pack(&from.path().join("absent"), Vec::new(), &mut |_, _| {});
    assert!(format!("{:#}", error.expect_err("it is absent")).contains("cannot read "));
}

/// The kernel makes such files when they are read, and says that they are empty or a page long.
#[test]
fn a_file_without_a_size_is_copied_by_its_content() {
    let into = place();
    for (source, name) in [
        ("/proc/version", "version"),
        ("/proc/self/mountinfo", "mountinfo"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "enabled"),
    ] {
        let source = Path::new(source);
        if !source.exists() {
            continue;
        }
        let (archive, copied, skipped) = packed_with(source);
        unpack(archive.as_slice(), &into.path().join(name), Top::Any).expect("it can be written");
        let content = fs::read(into.path().join(name)).expect("it is there");
        assert!(!content.is_empty(), "{name}");
        assert_eq!((copied.bytes, skipped.len()), (content.len() as u64, 0), "{name}");
    }
    write(&into.path().join("empty"), "");
    let (_, copied, _) = packed_with(&into.path().join("empty"));
    assert_eq!(copied.bytes, 0);
}

/// An archive of entries: kind, name, target of a link or content.
fn hostile(entries: &[(EntryType, &[u8], &[u8])]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for (kind, name, content) in entries {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(*kind);
        header.set_mode(0o777);
        let data: &[u8] = match kind {
            EntryType::Symlink | EntryType::Link => {
                header.as_old_mut().linkname[..content.len()].copy_from_slice(content);
                &[]
            }
            _ => content,
        };
        header.set_size(data.len() as u64);
        header.set_cksum();
        archive.append(&header, data).expect("in memory");
    }
    archive.into_inner().expect("in memory")
}

#[test]
fn an_archive_touches_nothing_outside_of_the_destination() {
    use EntryType::{Block, Directory, Fifo, GNULongName, Link, Regular, Symlink};
    let top: (EntryType, &[u8], &[u8]) = (Directory, b"top", b"");
    for (entries, says) in [
        (&[(Regular, &b"../evil"[..], &b"x"[..])][..], "which is outside"),
        (&[(Regular, b"/evil", b"x")], "which is outside"),
        (&[top, (Regular, b"top/../../evil", b"x")], "which is outside"),
        (&[top, (Symlink, b"top/link", b"/"), (Regular, b"top/link/evil", b"x")], "leads outside"),
        (&[top, (Symlink, b"top/link", b".."), (Regular, b"top/link/evil", b"x")], "leads outside"),
        (
            &[top, (Symlink, b"top/link", b"./"), (Regular, b"top/link/file", b"x")],
            "top/link/file comes before its directory",
        ),
        (
            &[top, (Symlink, b"top/a", b"b"), (Directory, b"top/a", b"")],
            "is there and no directory",
        ),
        (&[(Symlink, b"top", b"x")], "leads outside"),
        (&[top, (Link, b"top/link", b"/etc/passwd")], "neither a file, a directory nor a link"),
        (&[top, (Fifo, b"top/pipe", b"")], "neither a file, a directory nor a link"),
        (&[top, (Block, b"top/disk", b"")], "neither a file, a directory nor a link"),
        (&[top, (Directory, b"evil", b"")], "more than one entry at the top"),
        (&[(Regular, b"top/file", b"x")], "comes before its directory"),
        (&[(GNULongName, b"", b"../../evil"), (Regular, b"short", b"x")], "which is outside"),
        (&[(GNULongName, b"", &[b'a'; 5_000]), (Regular, b"short", b"x")], "too long"),
        (&[(Regular, b"", b"x")], "which is outside"),
        (&[], "nothing was sent"),
    ] {
        let outer = place();
        let destination = outer.path().join("destination");
        fs::create_dir(&destination).expect("a directory");
        let error = unpack(hostile(entries).as_slice(), &destination, Top::Any);
        let error = format!("{:#}", error.expect_err(says));
        assert!(error.contains(says), "{error} / {says}");
        assert_eq!(fs::read_dir(outer.path()).expect("it is there").count(), 1, "{says}");
    }
    for garbage in [&b"hello"[..], &[0xff; 2_048], &[0; 2_048]] {
        let destination = place();
        assert!(unpack(garbage, destination.path(), Top::Any).is_err());
        assert_eq!(fs::read_dir(destination.path()).expect("it is there").count(), 0);
    }
}

/// A task that answers with another name chose which file of the user is replaced (as in CVE-2019-6111).
#[test]
fn a_task_sends_what_was_asked_for_under_its_name() {
    use EntryType::{Directory, Regular};
    let named = |name: &str| Top::Named(name.into());
    let own_name = || Top::WrittenAs("ana-web-3".into());
    let keys = hostile(&[(Directory, b".ssh", b""), (Regular, b".ssh/authorized_keys", b"evil")]);
    for (expected, says, written) in [
        (named("app.log"), Some("app.log was asked for, and the task sent \".ssh\""), None),
        (own_name(), None, Some("ana-web-3/authorized_keys")),
        (named(".ssh"), None, Some(".ssh/authorized_keys")),
    ] {
        let home = place();
        fs::create_dir(home.path().join(".ssh")).expect("a directory");
        write(&home.path().join(".ssh/authorized_keys"), "mine");
        let result = unpack(keys.as_slice(), home.path(), expected);
        assert_eq!(result.is_err(), says.is_some());
        if let (Err(error), Some(says)) = (result, says) {
            assert!(format!("{error:#}").starts_with(says), "{error:#}");
        }
        let replaced = written == Some(".ssh/authorized_keys");
        let mine = fs::read_to_string(home.path().join(".ssh/authorized_keys")).expect("a file");
        assert_eq!(mine, if replaced { "evil" } else { "mine" });
        assert!(written.is_none_or(|path| home.path().join(path).exists()));
    }
}

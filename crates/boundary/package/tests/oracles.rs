//! Compares imports with what the tools of others do with the same images: `umoci` and `skopeo`,
//! which `cargo xtask test` installs. As root.

#![allow(clippy::unwrap_used, reason = "tests, in functions that are shared by them")]

#[path = "images/listing.rs"]
mod listing;

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use listing::{Compare, list};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use package::archive::{ImportOptions, import};
use package::directory::Packed;
use package::{Form, MemoryChunks, unpack, verify};
use rustix::fs::XattrFlags;
use tempfile::TempDir;

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| {
        panic!("cannot run {program}: {error}; run `cargo xtask test`, which installs it")
    });
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
}

fn umoci(arguments: &[&str]) {
    run("umoci", arguments);
}

fn skopeo(arguments: &[&str]) {
    let mut all = vec!["--insecure-policy"];
    all.extend(arguments);
    run("skopeo", &all);
}

/// Changes a root, for one layer after the other.
fn change(root: &Path, layer: u32) {
    let at = |name: &str| root.join(name);
    let mode = |name: &str, mode| {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    match layer {
        0 => {
            for directory in ["usr/bin", "usr/lib/deep/er", "tmp", "home/ana", "etc", "kept"] {
                fs::create_dir_all(at(directory)).unwrap();
            }
            symlink("usr/bin", at("bin")).unwrap();
            symlink("/etc/../etc/hosts", at("etc/absolute")).unwrap();
            fs::write(at("usr/bin/tool"), vec![1; 200_000]).unwrap();
            fs::hard_link(at("usr/bin/tool"), at("usr/bin/alias")).unwrap();
            fs::write(at("etc/hosts"), "127.0.0.1 localhost").unwrap();
            fs::write(at("usr/lib/deep/er/file"), "deep").unwrap();
            fs::write(at("kept/a"), "a").unwrap();
            fs::write(at("kept/b"), "b").unwrap();
            fs::write(at("turns"), "into a directory").unwrap();
            mode("tmp", 0o1777);
            mode("usr/bin/tool", 0o4755);
            mode("home/ana", 0o700);
            chown(at("home/ana"), Some(1_000), Some(100_000)).unwrap();
            std::os::unix::fs::lchown(at("bin"), Some(5), Some(6)).unwrap();
            let capability = b"\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
            let name = "security.capability";
            rustix::fs::setxattr(at("etc/hosts"), name, capability, XattrFlags::empty()).unwrap();
        }
        1 => {
            fs::remove_dir_all(at("usr/lib/deep")).unwrap();
            fs::remove_file(at("kept/a")).unwrap();
            fs::write(at("kept/c"), "c").unwrap();
            fs::remove_file(at("turns")).unwrap();
            fs::create_dir_all(at("turns/deep")).unwrap();
            fs::write(at("turns/deep/x"), "x").unwrap();
            fs::write(at("usr/bin/new"), "new").unwrap();
        }
        _ => {
            fs::remove_dir_all(at("turns")).unwrap();
            symlink("usr", at("turns")).unwrap();
            fs::remove_file(at("bin")).unwrap();
            fs::create_dir(at("bin")).unwrap();
            fs::write(at("bin/sh"), "sh").unwrap();
            fs::remove_file(at("usr/bin/alias")).unwrap();
            let sparse = File::create(at("sparse")).unwrap();
            sparse.write_all_at(b"end", 5 << 20).unwrap();
        }
    }
}

/// An image of three layers that umoci made of changes: the directory that has it, and its layout.
fn image() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let layout = at("layout");
    let image = format!("{layout}:tool");
    umoci(&["init", "--layout", &layout]);
    umoci(&["new", "--image", &image]);
    for layer in 0..3 {
        let bundle = at(&format!("bundle-{layer}"));
        umoci(&["unpack", "--image", &image, &bundle]);
        change(&Path::new(&bundle).join("rootfs"), layer);
        umoci(&["repack", "--image", &image, &bundle]);
    }
    let path = PathBuf::from(layout);
    (directory, path)
}

fn named() -> ImportOptions {
    ImportOptions { image: Some("tool".to_owned()), ..ImportOptions::default() }
}

fn imported(source: &Path) -> (Packed, MemoryChunks) {
    let mut chunks = MemoryChunks::new();
    // Some formats have no name.
    let packed = import(source, &named(), &mut chunks)
        .or_else(|_| import(source, &ImportOptions::default(), &mut chunks));
    (packed.unwrap(), chunks)
}

const ALL: Compare = Compare { attributes: true };

#[test]
fn a_root_is_what_umoci_unpacks() {
    let (directory, layout) = image();
    let rootfs = directory.path().join("rootfs");
    let image = format!("{}:tool", layout.display());
    umoci(&["raw", "unpack", "--image", &image, rootfs.to_str().unwrap()]);
    let (packed, mut chunks) = imported(&layout);
    verify(packed.digest, &mut chunks).unwrap();
    let layers = &packed.manifest.variants[0].layers;
    assert_eq!(layers.len(), 3);

    let plain = tempfile::tempdir().unwrap();
    let opened = File::open(plain.path()).unwrap();
    for layer in layers {
        unpack(layer, &mut chunks, opened.as_fd(), Form::Plain).unwrap();
    }
    let expected = list(&rootfs, ALL);
    assert!(expected.len() > 15, "{expected:#?}");
    assert_eq!(list(plain.path(), ALL), expected);

    // The same through an overlay mount of the layers.
    let overlay = tempfile::tempdir().unwrap();
    let mut lower = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        let path = overlay.path().join(number.to_string());
        fs::create_dir(&path).unwrap();
        let opened = File::open(&path).unwrap();
        unpack(layer, &mut chunks, opened.as_fd(), Form::Overlay).unwrap();
        lower.insert(0, path.to_str().unwrap().to_owned());
    }
    let merged = overlay.path().join("merged");
    fs::create_dir(&merged).unwrap();
    let options = format!("lowerdir={}", lower.join(":"));
    let kind = Some("overlay");
    mount(kind, &merged, kind, MsFlags::MS_RDONLY, Some(&options[..])).unwrap();
    let found = list(&merged, ALL);
    umount2(&merged, MntFlags::MNT_DETACH).unwrap();
    assert_eq!(found, expected);
}

#[test]
fn what_skopeo_copies_is_the_same_package() {
    let (directory, layout) = image();
    let (expected, _) = imported(&layout);
    let source = format!("oci:{}:tool", layout.display());
    let at = |name: &str| directory.path().join(name);
    for (transport, options) in [
        ("oci-archive", &[][..]),
        ("oci", &[]),
        ("oci", &["--dest-compress", "--dest-compress-format=zstd"]),
        ("oci", &["--dest-decompress"]),
        ("docker-archive", &[]),
    ] {
        let copy = at("copy");
        let _missing = fs::remove_dir_all(&copy);
        let _missing = fs::remove_file(&copy);
        let destination = format!("{transport}:{}:tool", copy.display());
        let mut arguments = vec!["copy", "--quiet"];
        arguments.extend(options);
        arguments.extend([&source[..], &destination]);
        skopeo(&arguments);
        let (packed, _) = imported(&copy);
        let layers = |packed: &Packed| packed.manifest.variants[0].layers.clone();
        assert_eq!(layers(&packed), layers(&expected), "{transport} {options:?}");
        let architecture = |packed: &Packed| packed.manifest.variants[0].architecture.clone();
        assert_eq!(architecture(&packed), architecture(&expected));
    }
}

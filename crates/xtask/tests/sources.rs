//! Rules about the sources that no lint checks.

use std::fs;
use std::path::{Path, PathBuf};

/// The maximum number of lines of a Rust file. A file should be much shorter, and about one
/// subject.
const LINES_MAX: usize = 700;

/// Texts that no file may contain: paths of one machine. Written in two parts, because this file is
/// checked, too.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Texts that no Rust file may contain: marks of deferred work.
const PUT_OFF: [&str; 3] =
    [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("#[ig", "nore")];

#[test]
fn no_file_names_a_path_of_one_machine() {
    refuse(&MACHINE_PATHS, |_| true);
}

#[test]
fn no_work_is_put_off_in_the_code() {
    refuse(&PUT_OFF, is_rust);
}

#[test]
fn no_rust_file_is_too_long() {
    for path in files().iter().filter(|path| is_rust(path)) {
        let lines = read(path).lines().count();
        assert!(
            lines <= LINES_MAX,
            "{} has {lines} lines, and may have {LINES_MAX}: make two files of it",
            shown(path)
        );
    }
}

#[test]
fn every_crate_is_in_the_directory_of_its_name() {
    let directories = |path: &Path| {
        let entries = fs::read_dir(path).expect("a directory can be listed");
        let paths = entries.map(|entry| entry.expect("a directory can be listed").path());
        paths.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    for layer in directories(&root().join("crates")) {
        let crates = if layer.ends_with("xtask") { vec![layer] } else { directories(&layer) };
        for directory in crates {
            let manifest = read(&directory.join("Cargo.toml"));
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
            let expected = directory.file_name();
            let expected = expected.map(|name| format!("\"{}\"", name.to_string_lossy()));
            assert_eq!(name, expected.as_deref(), "{}", shown(&directory));
        }
    }
}

/// Such code would be a documentation test, which nothing runs: examples are tests in `tests/`.
#[test]
fn no_code_in_the_documentation_of_sources_is_rust() {
    for path in files().iter().filter(|path| is_rust(path)) {
        let mut open = false;
        for (number, line) in (1..).zip(read(path).lines()) {
            let comment = line.trim_start();
            let text = comment.strip_prefix("//!").or_else(|| comment.strip_prefix("///"));
            let Some(language) = text.and_then(|text| text.trim_start().strip_prefix("```")) else {
                continue;
            };
            open = !open;
            let says = language.trim();
            assert!(
                !open || !says.is_empty() && !says.starts_with("rust"),
                "{}:{number}: say which language it is, such as ```text",
                shown(path)
            );
        }
    }
}

fn refuse(words: &[&str], of_interest: impl Fn(&Path) -> bool) {
    let mut found = Vec::new();
    for path in files().iter().filter(|path| of_interest(path)) {
        for (number, line) in (1..).zip(read(path).lines()) {
            for word in words.iter().filter(|word| line.contains(*word)) {
                found.push(format!("{}:{number}: {word} must not be here", shown(path)));
            }
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", shown(path)));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// All our files: everything in the repository except git's own, build output and what fuzzing
/// found.
fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![root()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory of ours can be listed") {
            let path = entry.expect("a directory of ours can be listed").path();
            let built = path.ends_with("target") || path.join("CACHEDIR.TAG").exists();
            let fuzzed = path.ends_with("fuzz/corpus") || path.ends_with("fuzz/artifacts");
            match path.is_dir() && !path.is_symlink() {
                true if path.ends_with(".git") || built || fuzzed => {}
                true => directories.push(path),
                // Sockets of other programs and dangling links are not sources.
                false if path.is_file() && !path.ends_with(".git") => files.push(path),
                false => {}
            }
        }
    }
    assert!(files.len() > 100, "only {} files were found", files.len());
    files
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

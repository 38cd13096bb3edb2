//! Other programs that tests run.

use std::path::{Path, PathBuf};

/// Fails with the command that installs it if a program, or a file by its absolute path, is
/// missing.
///
/// # Panics
/// If it is missing: no test is skipped.
#[track_caller]
pub(crate) fn needs(program: &str, package: &str) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    // Joining an absolute path replaces the directory.
    let found = std::env::split_paths(&path).chain(system).any(|d| d.join(program).is_file());
    assert!(
        found || Path::new(program).is_file(),
        "{program} is missing: as root, on Debian, run `apt-get install --no-install-recommends \
         {package}`"
    );
}

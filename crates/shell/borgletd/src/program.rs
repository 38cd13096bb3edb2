//! The executable that tasks find as `bourg`, and that their shims run: a copy of the running
//! program, installed once and kept, whatever happens to the original file.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Context;

/// Its name in `bin`.
pub(super) const NAME: &str = "bourg";

/// Installs the running program: as a hard link if possible, otherwise as a copy, unless it is
/// already there.
pub(super) fn install(bin: &Path) -> anyhow::Result<()> {
    let running = Path::new("/proc/self/exe");
    let original = fs::read_link(running)?;
    let (target, new) = (bin.join(NAME), bin.join(".bourg.new"));
    let _absent = fs::remove_file(&new);
    let same = |one: &Path, other: &Path| {
        let id = |path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        id(one).is_some() && id(one) == id(other)
    };
    if same(running, &target) || same_content(running, &target).unwrap_or(false) {
        return Ok(());
    }
    // Verify that this is the running file, not one that has replaced it since.
    let linked = fs::hard_link(&original, &new).is_ok() && same(running, &new);
    if !linked {
        let _absent = fs::remove_file(&new);
        if let Err(error) = copy(running, &new) {
            let _absent = fs::remove_file(&new);
            if !linux::disk::is_no_room(&error) || !target.exists() {
                let target = target.display();
                return Err(error)
                    .with_context(|| format!("cannot copy the running program to {target}"));
            }
            // Tasks work with the previous Borglet's program, and they need a Borglet.
            tracing::error!(
                "cannot install this program; tasks use that of an earlier release: {error}"
            );
            return Ok(());
        }
    }
    fs::rename(&new, &target)?;
    Ok(())
}

/// Copies a program, executable for everyone.
fn copy(program: &Path, to: &Path) -> io::Result<()> {
    fs::copy(program, to)?;
    fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    // Complete or absent after a power failure.
    fs::File::open(to)?.sync_all()
}

/// Whether two files have the same content.
fn same_content(one: &Path, other: &Path) -> io::Result<bool> {
    const PIECE: usize = 256 << 10;
    let (mut one, mut other) = (fs::File::open(one)?, fs::File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut first, mut second) = (Vec::with_capacity(PIECE), Vec::with_capacity(PIECE));
    loop {
        first.clear();
        second.clear();
        let read = (&mut one).take(PIECE as u64).read_to_end(&mut first)?;
        (&mut other).take(PIECE as u64).read_to_end(&mut second)?;
        if first != second || read == 0 {
            return Ok(first == second);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_the_same_whatever_file_it_is_in() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let file = |name: &str, content: &[u8]| {
            let path = place.path().join(name);
            fs::write(&path, content).expect("there is room");
            path
        };
        let mut content = vec![7; 600 << 10];
        let (one, same) = (file("one", &content), file("same", &content));
        content[(600 << 10) - 1] = 8;
        let other = file("other", &content);
        let shorter = file("shorter", &content[1..]);
        let is = |other| same_content(&one, other).expect("it can be read");
        assert!(is(&same) && !is(&other) && !is(&shorter));
        assert!(same_content(&one, &place.path().join("missing")).is_err());
    }
}

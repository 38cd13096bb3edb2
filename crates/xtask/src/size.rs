//! The size of the program that is shipped. A machine runs it as its Borglet and as the shim of each
//! task, so each page of it counts; and what is larger took longer to build.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::run::{cargo_build, succeed, target_directory};

/// The maximum size of the file, in bytes.
const PROGRAM_BYTES_MAX: u64 = 45_000_000;

/// Builds the release, prints its size, and checks it.
///
/// # Errors
/// If it does not build, or is too large.
pub(crate) fn size() -> anyhow::Result<()> {
    succeed(&mut cargo_build(&["build", "--release", "--package", "bourg"]))?;
    let program = target_directory().join("release/bourg");
    let bytes =
        fs::metadata(&program).with_context(|| format!("cannot find {}", program.display()))?.len();
    let sections = Command::new("size").arg(&program).stdin(Stdio::null()).output();
    let sections = sections.context("cannot run `size`, of Debian's package binutils")?;
    let text = text_bytes(&String::from_utf8_lossy(&sections.stdout));
    let text = text.context("`size` printed no size")?;
    println!("program {} MB, of which code and constants {} MB", mb(bytes), mb(text));
    ensure!(bytes <= PROGRAM_BYTES_MAX, "the program may have {} MB", mb(PROGRAM_BYTES_MAX));
    Ok(())
}

/// Megabytes, with one decimal.
fn mb(bytes: u64) -> String {
    format!("{}.{}", bytes / 1_000_000, bytes / 100_000 % 10)
}

/// The first number of the second line: `text data bss dec hex filename`.
fn text_bytes(printed: &str) -> Option<u64> {
    printed.lines().nth(1)?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_read_from_what_size_prints() {
        let printed = "   text\t   data\t    bss\t    dec\t    hex\tfilename\n\
                       42180713\t2000368\t  87528\t44268609\t2a37c81\ttarget/release/bourg\n";
        assert_eq!(text_bytes(printed), Some(42_180_713));
        assert_eq!(text_bytes("size: no such file"), None);
        assert_eq!(mb(42_180_713), "42.1");
    }
}

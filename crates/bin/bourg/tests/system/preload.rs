//! Libraries for `LD_PRELOAD`, compiled when a test needs one.

use std::path::PathBuf;
use std::process::Command;

use crate::terminal::Terminal;

/// Compiles a library into the home of a terminal; returns its path.
///
/// # Panics
/// If it does not compile.
#[track_caller]
pub(crate) fn library(terminal: &Terminal, name: &str, source: &str) -> PathBuf {
    let (file, library) = (format!("{name}.rs"), terminal.path(&format!("lib{name}.so")));
    terminal.write(&file, source);
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compiler = Command::new(compiler);
    compiler.args(["--edition", "2024", "--crate-type", "cdylib", "-C", "panic=abort", "-o"]);
    let status = compiler.arg(&library).arg(terminal.path(&file)).status();
    assert!(status.expect("a compiler").success(), "{file} does not compile");
    library
}

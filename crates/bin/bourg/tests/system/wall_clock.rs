//! A wall clock that can be set, for the programs of one terminal.

use std::fs;
use std::path::PathBuf;

use crate::preload;
use crate::terminal::Terminal;

/// The wall clock of everything started from a terminal except tasks and their shims, which start
/// with an empty environment. It is correct until it is set.
pub(crate) struct WallClock {
    file: PathBuf,
}

impl WallClock {
    /// The name of the preloaded library.
    pub(crate) const LIBRARY: &str = "libwall_clock.so";

    /// Gives a terminal a clock.
    pub(crate) fn of(terminal: &mut Terminal) -> Self {
        let source = include_str!("preload/wall_clock.rs");
        let library = preload::library(terminal, "wall_clock", source);
        let clock = Self { file: terminal.path("wall_clock.offset") };
        clock.set(0);
        terminal.set("BOURG_TEST_WALL_CLOCK", clock.file.clone());
        terminal.set("LD_PRELOAD", library);
        clock
    }

    /// Sets it this many hours ahead of the correct time, or behind if negative.
    pub(crate) fn set(&self, hours: i64) {
        let file = fs::File::options().create(true).truncate(false).write(true).open(&self.file);
        let seconds = (hours * 3_600).to_ne_bytes();
        let written = std::os::unix::fs::FileExt::write_all_at(&file.expect("a file"), &seconds, 0);
        written.expect("it can be written");
    }
}

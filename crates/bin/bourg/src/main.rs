//! Bourg: Borg, the cluster manager, as one program. Every process of a cell and the command line
//! are roles of it; `bourg help` lists them.

mod bench;
mod borglet;
mod checkpoint;
mod cli;
mod clock;
mod evaluate;
mod example;
mod health;
mod joining;
mod master;
mod metrics;
mod notify;
mod renewal;
mod scheduler;
mod shutdown;

use std::path::Path;
use std::process::ExitCode;

/// The system's allocator spends a third of a log's replay on itself; this one a tenth.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A shim lives as long as its task and there is one for each: it starts with nothing of what
    // the rest needs.
    let mut arguments = std::env::args_os().skip(1);
    if let (Some(first), Some(directory), None) =
        (arguments.next(), arguments.next(), arguments.next())
        && first == "shim"
    {
        return linux::shim::run(Path::new(&directory));
    }
    cli::main()
}

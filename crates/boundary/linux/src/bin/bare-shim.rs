//! Only the shim and `enter` commands, without the rest of `bourg`: this crate's tests run it in
//! place of `bourg shim` and `bourg enter`. Not installed.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["shim", dir] => linux::shim::run(Path::new(dir)),
        ["shims", _padding] => linux::shim::serve(),
        ["preflight"] => match linux::machine::preflight() {
            Ok(isolation) => {
                println!("{}", isolation.name());
                ExitCode::SUCCESS
            }
            Err(missing) => {
                eprintln!("{missing}");
                ExitCode::FAILURE
            }
        },
        ["enter", dir, terminal @ ("tty" | "plain"), "--", argv @ ..] => {
            let argv: Vec<String> = argv.iter().map(|&text| text.to_owned()).collect();
            linux::enter::run(Path::new(dir), &argv, *terminal == "tty")
        }
        _ => {
            eprintln!(
                "usage: bare-shim shim DIR | shims PADDING | preflight | enter DIR tty|plain -- PROGRAM [ARGUMENT]..."
            );
            ExitCode::from(2)
        }
    }
}

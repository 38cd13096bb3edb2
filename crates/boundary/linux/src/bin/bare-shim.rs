//! Only the shim and `enter` commands, without the rest of `bourg`: this crate's tests run it in
//! place of `bourg shim` and `bourg enter`. Tasks of tests bind ports with it. Not installed.

use std::net::{TcpListener, UdpSocket};
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
        ["enter", dir, word, "--", argv @ ..] => {
            let argv: Vec<String> = argv.iter().map(|&text| text.to_owned()).collect();
            linux::session::run(Path::new(dir), word, &argv).unwrap_or(ExitCode::FAILURE)
        }
        ["bind", "tcp", addresses @ ..] => {
            bind("tcp", addresses, |address| TcpListener::bind(address).map(drop))
        }
        ["bind", "udp", addresses @ ..] => {
            bind("udp", addresses, |address| UdpSocket::bind(address).map(drop))
        }
        _ => {
            eprintln!(
                "usage: bare-shim shim DIR | shims PADDING | preflight | enter DIR WORD -- PROGRAM [ARGUMENT]... \
                 | bind tcp|udp ADDRESS:PORT..."
            );
            ExitCode::from(2)
        }
    }
}

/// Binds addresses, one after the other, and says for each what came of it.
fn bind(
    protocol: &str,
    addresses: &[&str],
    binds: impl Fn(&str) -> std::io::Result<()>,
) -> ExitCode {
    for address in addresses {
        let outcome = match binds(address) {
            Ok(()) => "bound".to_owned(),
            Err(error) => error.to_string(),
        };
        println!("{protocol} {address}: {outcome}");
    }
    ExitCode::SUCCESS
}

//! Measures the memory of a connection at both ends, over TLS on loopback. `connections [NUMBER]`
//! opens that many from one process to another, as tonic channels and as links, and prints the
//! growth of each end per connection.
//!
//! ```console
//! $ cargo run --release -p rpc --example connections
//! ```

#![allow(clippy::unwrap_used, reason = "an example may panic")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rpc::transport::{Limits, connect, link};
use rpc::{Credentials, Expect, Role, Rotating};
use support::{Client, Running, ask, authority, follow, issue};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MASTER: Expect = Expect::Role(Role::Master);
/// How often every connection is used before the second measurement.
const CALLS: usize = 20;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", directory] => serve(directory).await,
        ["dial", kind, number, directory, address] => {
            dial(kind, number.parse().unwrap(), directory, address).await;
        }
        [] => compare("2000"),
        [number] => compare(number),
        _ => panic!("connections [NUMBER]"),
    }
}

/// Each kind runs in a process of its own: memory freed by one would be reused by the next.
fn compare(number: &str) {
    let (authority, directory) = authority();
    issue(&authority, "master").write(directory.path(), "master").unwrap();
    for kind in ["channel", "link"] {
        let program = std::env::current_exe().unwrap();
        let mut server = Command::new(&program)
            .arg("serve")
            .arg(directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let arguments = ["dial", kind, number, directory.path().to_str().unwrap(), address.trim()];
        let status = Command::new(&program)
            .args(arguments)
            .env("SERVER", server.id().to_string())
            .status()
            .unwrap();
        end(server);
        assert!(status.success());
    }
}

fn end(mut server: Child) {
    server.kill().unwrap();
    server.wait().unwrap();
}

async fn serve(directory: &str) {
    let credentials = Credentials::read(directory, "master").unwrap();
    let limits = Limits { connections: 100_000, ..Limits::default() };
    let running = Running::start(&credentials, limits);
    println!("{}", running.endpoint());
    std::future::pending::<()>().await;
}

async fn dial(kind: &str, number: usize, directory: &str, address: &str) {
    let credentials = Rotating::new(Credentials::read(directory, "master").unwrap()).unwrap();
    if kind == "channel" {
        let one = || connect(address, &credentials, &MASTER).unwrap();
        return measure(kind, number, one, async |_| {}).await;
    }
    let one = || link(address, &credentials, &MASTER).unwrap();
    measure(kind, number, one, async |link| link.dial().await.unwrap()).await;
}

async fn measure<T: Client + Clone>(
    kind: &str,
    number: usize,
    one: impl Fn() -> T,
    dial: impl AsyncFn(&T),
) {
    let server: u32 = std::env::var("SERVER").unwrap().parse().unwrap();
    let processes = [std::process::id(), server];
    // Exclude the cost of the first connection.
    ask(one()).await.unwrap();
    let before = processes.map(resident_kib);
    let print = |state: &str| {
        let [dialling, accepting] = processes.map(resident_kib);
        let each = |now: u64, before: u64| (now - before) as f64 * 1.024 / number as f64;
        let (dialling, accepting) = (each(dialling, before[0]), each(accepting, before[1]));
        println!("{kind:8} {state:24} {dialling:6.1} kB dialling {accepting:6.1} kB accepting");
    };
    let all: Vec<T> = (0..number).map(|_| one()).collect();
    for one in &all {
        dial(one).await;
    }
    settle().await;
    print("dialled, if possible");
    for one in &all {
        ask(one.clone()).await.unwrap();
    }
    settle().await;
    print("after a call");
    for _ in 1..CALLS {
        for one in &all {
            ask(one.clone()).await.unwrap();
        }
    }
    settle().await;
    print(&format!("after {CALLS} calls"));
    let mut streams = Vec::new();
    for one in &all {
        streams.push(follow(one.clone()).await.unwrap());
    }
    settle().await;
    print("with an open stream");
}

/// Lets calls in flight finish.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

fn resident_kib(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

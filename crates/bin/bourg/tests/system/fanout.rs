//! Packages from machine to machine.

use std::fs::{File, create_dir_all, write};
use std::io::Read as _;

use nix::sys::signal::Signal;

use crate::borglets::Machine;
use crate::cell::Cell;
use crate::eventually::until;
use crate::http;

/// The size of the package, in bytes.
const SIZE: u64 = 24 << 20;

/// Builds a package of random bytes.
fn package(cell: &Cell) {
    create_dir_all(cell.path("big")).expect("it is made");
    let mut random = vec![0; usize::try_from(SIZE).expect("it is small")];
    let urandom = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
    urandom.expect("there is randomness");
    write(cell.path("big/random"), random).expect("it is written");
    cell.ok("bourg package build big --name big --version 1");
}

/// A job with a task on each machine.
fn job(cell: &Cell, name: &str, tasks: usize) {
    let job = format!(
        "{{ name: '{name}', cmd: ['wc', '-c', '/packages/big/random'], cpu: 0.05, ram: '16 MiB', \
         priority: 'free', tasks: {tasks}, packages: ['big@1'] }}"
    );
    cell.write(&format!("{name}.bcl"), job);
}

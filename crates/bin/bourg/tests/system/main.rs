//! The whole program from outside: real cells, started by `bourg dev`, and the commands that a
//! user types into a shell. They need root, as a cell with limits does.
//!
//! Each test has a home directory of its own, so that it knows no other cells, and a cell of its
//! own, which leaves neither a process nor a cgroup. Nothing depends on the machine's speed: a
//! test waits for a condition, up to a bound that only something that hangs reaches.

mod borglets;
mod cell;
mod eventually;
mod http;
mod jobs;
mod pages;
mod processes;
mod random;
mod screen;
mod terminal;
mod tools;
mod wall_clock;

mod access;
mod allocs;
mod bad_input;
mod batch;
mod bench;
mod checkpoints;
mod clocks;
mod crashes;
mod damage;
mod dev;
mod disk;
mod enrolment;
mod env_values;
mod events;
mod faults;
mod full;
mod grown;
mod health;
mod hello;
mod jsonnet;
mod kept_logs;
mod known_cells;
mod lost;
mod machines;
mod metrics;
mod ports;
mod printed;
mod quota;
mod reboot;
mod reflection;
mod relations;
mod replicas;
mod restart;
mod rootless;
mod security;
mod shown;
mod sim;
mod task_identity;
mod task_view;
mod tasks;
mod units;
mod updates;
mod users;

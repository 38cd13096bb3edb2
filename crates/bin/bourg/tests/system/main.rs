//! System tests of the whole program: real cells, started by `bourg dev`, and commands as a user
//! types them into a shell. They need root, because a cell with limits does.
//!
//! Each test has its own home directory, and thus knows no other cells, and its own cell, which
//! leaves neither a process nor a cgroup behind. Nothing depends on the machine's speed: a test
//! waits for a condition, up to a bound that is only reached if something hangs.

mod borglets;
mod cell;
mod emulator;
mod eventually;
mod http;
mod isolation;
mod jobs;
mod pages;
mod preload;
mod processes;
mod random;
mod screen;
mod terminal;
mod tools;
mod wall_clock;

mod access;
mod allocs;
mod autoscaling;
mod bad_input;
mod batch;
mod bench;
mod bns;
mod checkpoints;
mod clocks;
mod copy;
mod crashes;
mod damage;
mod dev;
mod dev_machines;
mod disk;
mod dns;
mod ends;
mod enrolment;
mod env_values;
mod events;
mod exec;
mod faults;
mod full;
mod grown;
mod health;
mod health_checks;
mod hello;
mod jsonnet;
mod kept_logs;
mod known_cells;
mod lab;
mod locks;
mod logs;
mod lost;
mod machines;
mod memory;
mod metrics;
mod moved;
mod networks;
mod platforms;
mod ports;
mod printed;
mod quota;
mod reboot;
mod reclamation;
mod reflection;
mod relations;
mod replicas;
mod restart;
mod rootless;
mod security;
mod services;
mod shown;
mod sigma;
mod sim;
mod spike;
mod task_identity;
mod task_metrics;
mod task_view;
mod tasks;
mod top;
mod units;
mod updates;
mod usage;
mod users;

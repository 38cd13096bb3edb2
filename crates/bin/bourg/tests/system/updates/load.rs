//! A service behind a load balancer and a constant load of requests, while it is updated, undone and
//! drained.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{WEB, each, least_healthy, machines, places, settled, write_web};
use crate::cell::Cell;
use crate::eventually::until;
use crate::http;

/// The number of clients, and the pause of each between two requests.
const CLIENTS: usize = 3;
const PAUSE: Duration = Duration::from_millis(5);

/// Clients that ask all the time. Like a load balancer they know which tasks are healthy, and ask
/// another one if a task does not answer.
struct Load {
    healthy: Arc<Mutex<Vec<String>>>,
    /// The requests that some task answered, and how often a request had to go to another.
    answered: Arc<AtomicUsize>,
    again: Arc<AtomicUsize>,
    failed: Arc<Mutex<Vec<String>>>,
    over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(cell: &Cell) -> Self {
        let mut load = Self {
            healthy: Arc::default(),
            answered: Arc::default(),
            again: Arc::default(),
            failed: Arc::default(),
            over: Arc::default(),
            clients: Vec::new(),
        };
        load.look(cell);
        load.clients = (0..CLIENTS).map(|number| load.client(number)).collect();
        load
    }

    /// Learns which tasks are healthy.
    fn look(&self, cell: &Cell) {
        let status = cell.status(WEB);
        let tasks = status["tasks"].as_array().into_iter().flatten();
        let healthy =
            tasks.filter(|task| task["state"] == "running" && task["health"] == "HEALTHY");
        let address = |task: &serde_json::Value| {
            let host = task["host"].as_str().expect("a host");
            format!("{host}:{}", task["ports"][0]["port"])
        };
        let found: Vec<String> = healthy.map(address).collect();
        if !found.is_empty() {
            *self.healthy.lock().expect("no panic") = found;
        }
    }

    fn client(&self, number: usize) -> JoinHandle<()> {
        let (healthy, over) = (Arc::clone(&self.healthy), Arc::clone(&self.over));
        let (answered, again) = (Arc::clone(&self.answered), Arc::clone(&self.again));
        let failed = Arc::clone(&self.failed);
        std::thread::spawn(move || {
            let mut turn = number;
            while !over.load(Ordering::Relaxed) {
                let known = healthy.lock().expect("no panic").clone();
                let first = turn % known.len();
                turn += 1;
                let mut tried = known.iter().cycle().skip(first).take(known.len());
                let answers = |address: &&String| {
                    let said = http::get(address, "/").unwrap_or_default();
                    let well = said.starts_with("HTTP/1.1 200 ");
                    again.fetch_add(usize::from(!well), Ordering::Relaxed);
                    well
                };
                if tried.any(|address| answers(&address)) {
                    answered.fetch_add(1, Ordering::Relaxed);
                } else {
                    failed.lock().expect("no panic").push(known.join(" "));
                }
                std::thread::sleep(PAUSE);
            }
        })
    }

    /// Types a command that succeeds, under load.
    #[track_caller]
    fn through(&self, cell: &Cell, line: &str) {
        let before = self.answered.load(Ordering::Relaxed);
        let mut command = cell.start("sh", &["-c", line]);
        until(line, || {
            self.look(cell);
            command.code().is_some()
        });
        let ended = command.ends();
        assert_eq!(ended.code, 0, "$ {line}\n{}", ended.stderr);
        self.look(cell);
        let answered = self.answered.load(Ordering::Relaxed) - before;
        assert!(answered > 10, "$ {line}: only {answered} requests");
    }

    /// Ends it; returns how many requests were answered.
    #[track_caller]
    fn ends(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().expect("no panic"));
        let failed = self.failed.lock().expect("no panic").clone();
        let answered = self.answered.load(Ordering::Relaxed);
        let again = self.again.load(Ordering::Relaxed);
        assert!(failed.is_empty(), "of {answered} requests no task answered {failed:?}");
        eprintln!("{answered} requests were answered, {again} by a second task");
        answered
    }
}

/// An update, an undo and the drain of a machine under load, with at least so many tasks healthy.
fn all_under_load(budget: &str, least: usize) {
    let cell = Cell::start_with(&["--machines", "3"]);
    write_web(&cell, 3, &format!("{budget} update: {{ healthyFor: '500ms' }}"));
    cell.ok("bourg run web.bcl");
    let load = Load::start(&cell);

    load.through(&cell, "bourg update env.bcl");
    let status = settled(&cell, 3);
    assert_eq!(each(&status, "version"), [2, 2, 2]);
    assert_eq!(each(&status, "generation"), [2, 2, 2]);
    load.through(&cell, "bourg update undo web");
    let status = settled(&cell, 3);
    assert_eq!(each(&status, "version"), [1, 1, 1]);
    assert_eq!(each(&status, "generation"), [3, 3, 3]);
    let machine = &machines(&cell)[1];
    load.through(&cell, &format!("bourg drain {machine} --reason 'new memory'"));
    load.ends();

    assert_eq!(cell.ok(&format!("bourg machine show {machine} -o state")), "drained\n");
    let status = settled(&cell, 3);
    assert_eq!(each(&status, "generation").iter().sum::<u64>(), 10, "one moved, once: {status:#}");
    assert!(!places(&cell).contains_key(machine));
    assert_eq!(least_healthy(&cell, 3), least);
    cell.ok(&format!("bourg undrain {machine}"));
}

#[test]
fn no_request_fails_and_no_task_is_down_under_a_zero_budget() {
    all_under_load("disruptions: { atOnce: 0 },", 3);
}

#[test]
fn no_request_fails_and_one_task_is_down_under_the_usual_budget() {
    all_under_load("", 2);
}

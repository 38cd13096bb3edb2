//! A load spike of production on a machine that is full of batch tasks: batch tasks give up CPU and memory.

use serde_json::Value;

use crate::cell::Cell;
use crate::eventually::{eventually, until};
use crate::isolation::cpu_ms;
use crate::memory::{MEMINFO, evictions, last_end, meminfo, use_together};
use crate::pages::{Of, metrics, value};
use crate::reclamation::{milli, reclaim, state};

/// Reservations follow the usage within seconds; those of memory take eight times as long.
const FAST: [&str; 6] =
    ["--reclaim-interval", "500ms", "--reclaim-after", "1s", "--reclaim-half-life", "250ms"];

/// The load of production: a little, and more while there is a file `cpu` or `ram`. It prints how long
/// about 10 ms of work took, in microseconds, and during what.
const SERVE: &str = r#"
  work() { i=0; while [ $i -lt 8000 ]; do i=$((i + 1)); done; }
  serve() {
    while sleep 0.05; do
      during=calm
      for load in cpu ram; do [ -e $load ] && during=$load; done
      begin=$(date +%s%N)
      work
      echo $during $((($(date +%s%N) - begin) / 1000))
    done
  }
  spin() { while [ -e cpu ]; do work; done; }
  grow() {
    head -c 350M /dev/zero
    for i in $(seq 92); do head -c 4M /dev/zero; sleep 0.1; done
    while [ -e ram ]; do sleep 0.1; done
  }
  serve &
  while sleep 0.1; do
    [ -e cpu ] && (for i in $(seq $(nproc)); do spin & done; wait)
    [ -e ram ] && grow | tail -c 730M > /dev/null
  done"#;

/// Batch: it uses memory, in MiB, and all CPU that it gets.
const CRUNCH: &str = "
  (head -c RAMM /dev/zero; exec sleep 100000) | tail -c RAMM &
  while :; do :; done";

/// Runs a job of one task, without waiting for it.
fn run(cell: &Cell, name: &str, priority: &str, script: &str, fields: &str) {
    cell.write(
        &format!("{name}.bcl"),
        format!(
            "{{ name: '{name}', cmd: ['sh', '-c', |||{script}\n|||], priority: '{priority}', {fields} }}"
        ),
    );
    cell.ok(&format!("bourg run --detach {name}.bcl"));
}

/// The batch jobs, in the order in which they have to go, with the MiB that they use. The first one is
/// above its limit.
const BATCH: [(&str, u64); 3] = [("above", 110), ("low", 100), ("mid", 200)];

fn batch_ms(cell: &Cell) -> u64 {
    BATCH.iter().map(|(name, _)| cpu_ms(cell, name)).sum()
}

/// The memory that is reserved for production, in MiB.
fn reserved_mib(cell: &Cell) -> u64 {
    let usage: Value = serde_json::from_str(&cell.ok("bourg usage web -o json")).expect("JSON");
    let reserved = usage["tasks"][0]["reservation"]["ramBytes"].as_str().unwrap_or_default();
    reserved.parse::<u64>().unwrap_or(0) >> 20
}

/// How long the work of production took during something: the median and the 95th percentile, in ms.
#[track_caller]
fn latency(cell: &Cell, during: &str) -> (f64, f64) {
    let logs = cell.ok("bourg logs web/0");
    let took = logs.lines().filter_map(|line| line.strip_prefix(during)?.trim().parse().ok());
    let mut took: Vec<f64> = took.map(|micros: f64| micros / 1_000.0).collect();
    took.sort_by(f64::total_cmp);
    assert!(took.len() > 5, "{during}: {logs}");
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    println!(
        "10 ms of work while {during}: median {:.1} ms, 95 % {:.1} ms, {} in all",
        at(50),
        at(95),
        took.len()
    );
    (at(50), at(95))
}

/// The jobs whose tasks were evicted because the machine ran out of resources, in that order.
fn evicted(cell: &Cell) -> Vec<String> {
    let events = cell.ok("bourg events --all");
    let mut order: Vec<String> = Vec::new();
    for line in events.lines().filter(|line| line.contains("  EVICT ")) {
        let name = line.split('/').nth(1).unwrap_or_default();
        let is_new = !order.iter().any(|other| other == name);
        if is_new && line.contains("the machine ran out of resources") {
            order.push(name.to_owned());
        }
    }
    order
}

#[test]
fn batch_yields_to_a_load_spike_of_production_and_comes_back() {
    let mut cell = Cell::start_with_file(MEMINFO, &meminfo(800, 8_000), &FAST);
    cell.ok("bourg cell reclaim aggressive");
    let capacity = cell.ok("bourg machines -o capacity.cpuMilli");
    let capacity: i64 = capacity.trim().parse().expect("a number");
    let cpu = capacity as f64 / 1_000.0;
    // All CPUs and nearly all memory are production's on paper.
    let asks = format!("cpu: {cpu}, ram: '740 MiB', appclass: 'latency-sensitive'");
    run(&cell, "web", "production", SERVE, &asks);
    cell.is_healthy("web");
    let before = cell.tasks("web");
    // The first one waits until there is no room for it in place of the second one, whose priority is
    // lower: it would preempt that.
    let more = [
        "ram: '60 MiB', memorySlack: true, restart: { delay: '5s' }",
        "ram: '110 MiB', restart: { delay: '1s' }",
        "ram: '210 MiB', restart: { delay: '1s' }",
    ];
    let priorities = ["mid", "free", "mid"];
    for (((name, mib), more), priority) in BATCH.into_iter().zip(more).zip(priorities) {
        let script = CRUNCH.replace("RAM", &mib.to_string());
        run(&cell, name, priority, &script, &format!("cpu: 0.3, {more}"));
        cell.is_healthy(name);
    }
    use_together(&cell, 400);
    let now = reclaim(&cell, "");
    assert_eq!(milli(&now["limit"]), capacity + 900, "more than there is: {now}");
    println!("{}", cell.ok("bourg cell reclaim"));

    // CPU: production takes all of it, and batch waits where it is.
    let batch = BATCH.map(|(name, _)| cell.tasks(name));
    cell.ok("bourg exec web/0 -- touch cpu");
    let (of_web, of_batch) = eventually("batch has next to nothing", || {
        let (web, batch) = (cpu_ms(&cell, "web"), batch_ms(&cell));
        until("production has a second of CPU", || cpu_ms(&cell, "web") > web + 1_000);
        let used = (cpu_ms(&cell, "web") - web, batch_ms(&cell) - batch);
        (used.1 * 10 < used.0).then_some(used)
    });
    println!("production had {of_web} ms of CPU meanwhile, batch {of_batch} ms");
    until("the latency is known", || cell.ok("bourg logs web/0").matches("cpu ").count() > 20);
    cell.ok("bourg exec web/0 -- rm cpu");
    let at = batch_ms(&cell);
    until("batch has CPU again", || batch_ms(&cell) > at + 500);
    assert_eq!(BATCH.map(|(name, _)| cell.tasks(name)), batch, "nobody had to leave");

    // Memory: batch is evicted as production grows to what it has asked for.
    cell.ok("bourg exec web/0 -- touch ram");
    for (name, _) in BATCH {
        until(&format!("{name} is evicted"), || evictions(&cell, name) > 0);
    }
    assert_eq!(evicted(&cell), BATCH.map(|(name, _)| name), "{}", cell.said());
    until("all is reserved for production", || reserved_mib(&cell) == 740);
    use_together(&cell, 700);
    for (name, _) in BATCH {
        let why = last_end(&cell.status(name));
        assert!(why.contains("it used") && why.contains("MiB"), "{name}: {why}");
        println!("{name}: {why}");
        until(&format!("{name} has no room"), || state(&cell, name) == "pending");
    }
    let page = metrics(&cell, Of::Borglet);
    assert!(value(&page, "bourg_borglet_memory_shortages_total") > Some(0.0), "{page}");

    // Production is small again. The one with the lowest priority may be preempted by the others before
    // there is room for all.
    cell.ok("bourg exec web/0 -- rm ram");
    for name in ["mid", "above", "low"] {
        let status = cell.is_healthy(name);
        let task = &status["tasks"][0];
        assert!(task["generation"].as_u64() > Some(1), "{status:#}");
        assert_eq!(task["failures"].as_u64().unwrap_or(0), 0, "{status:#}");
        println!("{name} is back: generation {}", task["generation"]);
    }
    let at = batch_ms(&cell);
    until("batch works", || batch_ms(&cell) > at + 500);
    use_together(&cell, 400);

    let status = cell.status("web");
    assert_eq!(status["tasks"][0]["generation"], 1, "{status:#}");
    assert_eq!(status["tasks"][0]["failures"].as_u64().unwrap_or(0), 0, "{status:#}");
    assert_eq!(cell.tasks("web"), before, "production has run throughout: {}", cell.said());
    assert!(!cell.said().contains("web/0 generation 1 is capped"), "{}", cell.said());
    for during in ["calm", "cpu", "ram"] {
        let (median, most) = latency(&cell, during);
        assert!(median < 500.0 && most < 2_000.0, "{during}: {median} ms, 95 %: {most} ms");
    }
    cell.stop();
}

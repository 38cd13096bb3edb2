//! Resource reclamation in a real cell: batch runs in what production asked for and does not use.

use serde_json::Value;

use crate::cell::Cell;
use crate::eventually::{eventually, until};
use crate::pages::{Of, metrics, value};

/// Reservations follow the usage within seconds instead of an hour.
pub(crate) const FAST: [&str; 6] =
    ["--reclaim-interval", "500ms", "--reclaim-after", "1s", "--reclaim-half-life", "1s"];

/// A job of one task that does nothing, with a share of the machine's CPU.
fn job(cell: &Cell, kind: &str, name: &str, milli: i64) {
    let file = format!("{name}.bcl");
    let cpu = milli as f64 / 1_000.0;
    cell.write(
        &file,
        format!(
            "local borg = import 'borg.libsonnet';
             borg.{kind}('{name}', cmd=['sleep', '1000'])
               {{ cpu: {cpu}, ram: '64 MiB', tasks: 1, notice: '100ms' }}"
        ),
    );
    cell.ok(&format!("bourg run --detach {file}"));
}

pub(crate) fn reclaim(cell: &Cell, arguments: &str) -> Value {
    serde_json::from_str(&cell.ok(&format!("bourg cell reclaim {arguments} -o json")))
        .expect("JSON")
}

pub(crate) fn milli(amount: &Value) -> i64 {
    let text = amount["cpuMilli"].as_str().unwrap_or_default();
    text.parse().ok().or_else(|| amount["cpuMilli"].as_i64()).unwrap_or(0)
}

pub(crate) fn state(cell: &Cell, job: &str) -> String {
    cell.status(job)["tasks"][0]["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn batch_runs_in_what_production_does_not_use_until_nothing_is_reclaimed() {
    let cell = Cell::start_with(&FAST);
    let machine = &serde_json::from_str::<Value>(&cell.ok("bourg machines -o json")).expect("JSON")
        [0]
    .clone();
    let capacity = milli(&machine["capacity"]);
    // Half for production, and three quarters for batch: by limits they do not fit together.
    let (half, more) = (capacity / 2, capacity / 4 * 3);
    cell.ok("bourg cell reclaim off");
    job(&cell, "service", "web", half);
    cell.is_healthy("web");
    job(&cell, "batch", "crunch", more);
    until("it is known why it waits", || cell.ok("bourg why crunch").contains("queued"));
    assert_eq!(state(&cell, "crunch"), "queued");
    assert_eq!(milli(&reclaim(&cell, "")["reclaimed"]), 0);

    assert_eq!(reclaim(&cell, "aggressive")["setting"], "aggressive");
    until("batch runs in reclaimed resources", || state(&cell, "crunch") == "running");
    let now = reclaim(&cell, "");
    assert_eq!(milli(&now["limit"]), half + more);
    assert_eq!(milli(&now["limit"]) - milli(&now["reservation"]), milli(&now["reclaimed"]));
    assert!(milli(&now["reservation"]) <= capacity, "{now}");
    let task = eventually("its reservation is shown", || {
        let usage = cell.ok("bourg usage web -o json");
        let task = serde_json::from_str::<Value>(&usage).expect("JSON")["tasks"][0].clone();
        (milli(&task["reservation"]) < half / 2).then_some(task)
    });
    assert_eq!(milli(&task["limit"]), half);
    let wide = cell.ok("bourg status web -o wide");
    assert!(wide.contains("CPU RESERVED"), "{wide}");

    until("little is reserved", || milli(&reclaim(&cell, "")["reservation"]) < half / 2);
    // The other half for production: it fits by the limits of production, and nothing is evicted for it.
    job(&cell, "service", "api", half);
    cell.is_healthy("api");
    assert_eq!((state(&cell, "crunch"), state(&cell, "web")), ("running".into(), "running".into()));
    let now = reclaim(&cell, "");
    assert_eq!(milli(&now["limit"]), 2 * half + more, "more than there is");

    let said = metrics(&cell, Of::Master);
    assert!(value(&said, "bourg_estimated_tasks").is_some_and(|tasks| tasks >= 1.0), "{said}");
    assert!(
        value(&said, "bourg_reservations_proposed_total").is_some_and(|all| all > 0.0),
        "{said}"
    );

    reclaim(&cell, "off");
    until("all reservations are the limits again", || milli(&reclaim(&cell, "")["reclaimed"]) == 0);
    let events = cell.ok("bourg events --all");
    assert!(events.contains("RECLAMATION") && events.contains("aggressive"), "{events}");
    assert_eq!(cell.ok("bourg cell policy"), "hybrid\n");
    assert_eq!(cell.ok("bourg cell policy best-fit"), "best-fit\n");
    cell.fails(2, "bourg cell policy e-pvm");
    let events = cell.ok("bourg events --from 1");
    assert!(events.contains("PACKING") && events.contains("best-fit"), "{events}");
    let refused = cell.fails(2, "bourg cell reclaim most");
    assert!(refused.contains("off, baseline, medium, aggressive"), "{refused}");
}

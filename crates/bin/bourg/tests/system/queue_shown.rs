//! What a cell shows of its batch queue: places, shares, what is waited for, and when jobs are expected to start.

use rpc::{Authority, Identity};
use serde_json::Value;

use crate::access::client_directory;
use crate::cell::Cell;
use crate::tools::needs;

/// A batch job of tasks that run until they are killed, each with so many MiB of memory.
fn write(cell: &Cell, name: &str, tasks: u32, mebibytes: u64, more: &str) {
    cell.write(
        &format!("{name}.bcl"),
        format!(
            "{{ name: '{name}', cmd: ['sleep', '1000'], notice: '1s', appclass: 'batch', priority: 110, tasks: {tasks}, \
             cpu: 0.01, ram: '{mebibytes} MiB', {more} }}"
        ),
    );
}

fn queue(cell: &Cell, arguments: &str) -> Value {
    let shown = cell.ok(&format!("bourg queue {arguments} -o json"));
    serde_json::from_str(&shown).expect("JSON")
}

/// The jobs of the queue in the order of their places.
fn order(cell: &Cell) -> Vec<String> {
    let queue = queue(cell, "");
    let jobs = queue["jobs"].as_array().expect("a list").iter();
    let name = |job: &Value| {
        let word = |of: &str| job[of].as_str().expect("a name").to_owned();
        format!("{}/{}", word("user"), word("job"))
    };
    jobs.map(name).collect()
}

#[test]
fn the_queue_shows_places_shares_and_weights_and_so_does_sigma() {
    needs("curl", "curl");
    let cell = Cell::start();
    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    client_directory(&cell, "ana", &authority, &Identity::User("ana".to_owned()));
    cell.ok("bourg quota meter off");
    let shown = cell.ok("bourg queue");
    assert!(shown.starts_with("queue on: nothing waits in it\n"), "{shown}");
    let ram = cell.ok("bourg machines -o capacity.ramBytes");
    let tenth = (ram.trim().parse::<u64>().expect("bytes") / 10) >> 20;

    // Root has two fifths of the machine's memory, ana three tenths; neither's next task fits.
    write(&cell, "held", 2, 2 * tenth, "expectedRuntime: '1h'");
    cell.ok("bourg run held.bcl");
    write(&cell, "own", 1, 3 * tenth, "expectedRuntime: '2h'");
    cell.ok("bourg --cell ./ana run own.bcl");
    write(&cell, "large", 1, 5 * tenth, "");
    cell.ok("bourg run large.bcl --detach");
    cell.ok("bourg --cell ./ana run large.bcl --detach");
    write(&cell, "later", 3, 5 * tenth, "");
    cell.ok("bourg --cell ./ana run later.bcl --detach");

    assert_eq!(order(&cell), ["ana/large", "ana/later", "root/large"]);
    let shown = cell.ok("bourg queue -o wide");
    let heading = "PLACE  JOB         WAIT  RUN  SHARE";
    for expected in [
        "queue on: 5 tasks of 3 jobs wait\n",
        heading,
        "reservation",
        "room",
        "expectedRuntime",
        "USER  ",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert!(cell.ok("bourg queue").lines().all(|line| line.chars().count() <= 80), "{shown}");

    // Filters change no place, and pages go on where the last one ended.
    for (arguments, places) in [
        ("", vec![1, 2, 3]),
        ("ana", vec![1, 2]),
        ("ana/later", vec![2]),
        ("large", vec![3]),
        ("--skip 1 -n 1", vec![2]),
        ("--skip 9", vec![]),
        ("nobody", vec![]),
    ] {
        let queue = queue(&cell, arguments);
        let jobs = queue["jobs"].as_array().expect("a list").iter();
        let found: Vec<_> = jobs.map(|job| job["place"].as_u64().unwrap_or_default()).collect();
        assert_eq!(found, places, "{arguments}");
    }
    cell.fails(2, "bourg queue ana/nothing");
    cell.fails(2, "bourg queue ana/large/0");
    cell.fails(2, "bourg queue -n 1001");

    let why = cell.ok("bourg why large");
    for expected in [
        "root/large: 1 task queued: 1st in root's queue",
        "place 3 of all; root's share: ",
        "; ahead: ana ",
        "its tasks run for 1 h (assumed)",
    ] {
        assert!(why.contains(expected), "{expected}: {why}");
    }
    let why = cell.ok("bourg why ana/large");
    assert!(why.contains(", the smallest\n") && why.contains("reserved for it"), "{why}");
    let status = cell.ok("bourg status ana/later");
    assert!(status.contains("queued") && status.contains("3 queued"), "{status}");
    let said = cell.fails(4, "bourg run large.bcl --timeout 3s");
    assert!(said.contains("queued: 1st in root's queue"), "{said}");

    // A hundredth of root's share is less than ana's.
    cell.ok("bourg cell weight root ram=100");
    assert_eq!(order(&cell), ["root/large", "ana/large", "ana/later"]);
    let wide = cell.ok("bourg queue -o wide");
    assert!(wide.contains("RAM 100"), "{wide}");

    // The same page in a browser.
    let link = cell.ok("bourg sigma open --print");
    let (origin, _) = link.trim().split_once("/sign-in/").expect("a link");
    let used = "curl --silent --show-error --fail --cacert cell/client/user.ca.pem --cookie jar --cookie-jar jar";
    cell.ok(&format!("{used} --request POST '{}'", link.trim()));
    let page = cell.ok(&format!("{used} '{origin}/queue'"));
    for expected in ["ana/large", "root/large", "Share by weight", "RAM 100", "Assumed runtime"] {
        let text = page.replace("<!-- -->", "");
        assert!(text.contains(expected), "{expected}: {page}");
    }
    let job = cell.ok(&format!("{used} '{origin}/jobs/ana/large'"));
    assert!(job.contains("1st in ana's queue") || job.contains("1st in ana&#39;s queue"), "{job}");
    assert!(cell.ok(&format!("{used} '{origin}/'")).contains("/queue"));

    // A past moment, at which nothing was submitted.
    let at = cell.ok("bourg queue --at 2");
    assert!(at.contains("nothing waits in it"), "{at}");
    cell.ok("bourg kill held large");
    cell.ok("bourg --cell ./ana kill own large later");
}

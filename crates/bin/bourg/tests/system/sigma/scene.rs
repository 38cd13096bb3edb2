//! A cell with a little of everything.

use crate::cell::Cell;

const WEB: &str = "local borg = import 'borg.libsonnet';
borg.service('web', tasks=4, cmd=['bourg', 'example-server', '--port', borg.port('http')]) {
  cpu: 0.05, ram: '32 MiB', labels: { app: 'web', team: 'search' }, healthCheck+: { interval: '100ms' },
}";

const UPDATE: &str = "(import 'web.bcl') + { env: { MODE: 'new' } }";

/// One that runs, one that fails again and again, one that fits nowhere.
const BATCH: &str = "local borg = import 'borg.libsonnet';
[
  borg.batch('index', tasks=12, cmd=[
    'sh', '-c', 'i=0; while :; do i=$((i+1)); echo \"shard $i is read\"; sleep 1; done',
  ]) { cpu: 0.02, ram: '32 MiB', priority: 'free', labels: { team: 'search' } },
  borg.batch('report', cmd=['sh', '-c', 'echo \"no index is open\" >&2; exit 3']) {
    cpu: 0.02, ram: '16 MiB', priority: 'free',
  },
  borg.service('model', cmd=['sleep', '100000']) { cpu: 1000, ram: '4 TiB', priority: 'free' },
]";

const ALLOCS: &str = "local borg = import 'borg.libsonnet';
[
  borg.allocSet('room', allocs=2) { cpu: 0.1, ram: '96 MiB' },
  borg.service('saver', tasks=2, cmd=['sleep', '100000']) {
    allocSet: 'room', cpu: 0.05, ram: '32 MiB',
  },
]";

/// Runs a service whose update has succeeded and can be undone.
#[track_caller]
pub(super) fn run_web(cell: &Cell) {
    cell.write("web.bcl", WEB);
    cell.write("new.bcl", UPDATE);
    cell.ok("bourg run web.bcl");
    cell.ok("bourg update new.bcl --healthy-for 100ms --close-after 1h");
    cell.job("web", "has no more tasks than its own", |job| {
        job["tasks"].as_array().is_some_and(|tasks| tasks.len() == 4)
    });
}

/// Runs all of it: a service with an open update and a name, batch, allocs with tasks inside, tasks that
/// are pending, and another user with quota.
#[track_caller]
pub(super) fn run_all(cell: &Cell) {
    run_web(cell);
    cell.write("batch.bcl", BATCH);
    cell.write("allocs.bcl", ALLOCS);
    cell.ok("bourg run allocs.bcl");
    // One is never healthy, and one never placed.
    cell.types("bourg run batch.bcl --timeout 1s");
    cell.is_healthy("index");
    cell.ok("bourg user add ana --for 30d && bourg quota oversell mid 300");
    cell.ok("bourg quota grant ana mid cpu=0.1 ram=64MiB");
    cell.ok("bourg service set shop --port http -l app=web");
}

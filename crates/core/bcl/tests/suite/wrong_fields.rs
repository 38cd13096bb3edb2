//! Files that evaluate to an invalid job.

use expect_test::{Expect, expect};

use crate::{says, table};

fn with(fields: &str) -> String {
    format!("{{ name: 'x', cmd: ['a'] }} {{\n  {fields},\n}}")
}

/// The errors of a job with these fields in addition to the required ones.
pub(crate) fn check(cases: &[&str], expected: &Expect) {
    expected.assert_eq(&table(cases.iter().map(|fields| (*fields, with(fields))), &[]));
}

#[test]
fn errors_are_printed_as_a_compiler_would() {
    expect![[r#"
        error: 'rma' is not a field of a job; the nearest is 'ram'
          --> job.bcl:2:3
           |
         2 |   rma: '64 MiB',
           |   ^^^
    "#]]
    .assert_eq(&says(with("rma: '64 MiB'")));
    expect![[r#"
        error: env["1"]: is not a variable's name: use letters, digits and underscores, and no digit first
          --> job.bcl:2:10
           |
         2 |   env: { ['1']: 'x' },
           |          ^^^^^^^^^^
    "#]].assert_eq(&says(with("env: { ['1']: 'x' }")));
}

#[test]
fn wrong_names() {
    check(
        &[
            "rma: '64 MiB'",
            "health_check: { port: 'http' }",
            "flavour: 'vanilla'",
            "healthCheck: { prot: 'http', port: 'http' }",
            "overrides: { '0': { priority: 3, Ram: 1 } }",
            "hiddenEnv: ['TOKEN']",
            "overrides: { '0': { hiddenEnv: ['TOKEN'] } }",
            "healthCheck: { port: 'http', hiddenEnv: [] }",
            "restart: { max: 3 }",
            "healthCheck: { grpc: 'http' }",
            "metrics: { prot: 'http' }",
            "priority: 'prod'",
            "appclass: 'latency_sensitive'",
            "ports: ['HTTP']",
            "overrides: { first: {} }",
        ],
        &expect![[r#"
            rma: '64 MiB'
                'rma' is not a field of a job; the nearest is 'ram'
                at job.bcl:2:3 `rma`

            health_check: { port: 'http' }
                'health_check' is not a field of a job; the nearest is 'healthCheck'
                at job.bcl:2:3 `health_check`

            flavour: 'vanilla'
                'flavour' is not a field of a job; its fields are name, tasks, priority, appclass, schedulingClass, labels, cmd, image, packages, env, files, secrets, secretEnv, onChange, cpu, ram, disk, diskRate, cores, cpuSlack, processes, ports, network, healthCheck, readiness, notice, constraints, volumes, outputs, keepOutputs, scratch, overrides, maxPerMachine, maxPerSwitch, allocSet, allocs, restart, metrics, logs, preemption, saver, estimation, autoscale, disruptions, update, kernelFeatures, api, memorySlack, after, parent, gang, atOnce, maxRuntime, expectedRuntime, requeue, scheduler
                at job.bcl:2:3 `flavour`

            healthCheck: { prot: 'http', port: 'http' }
                'prot' is not a field of a health check; the nearest is 'port'
                at job.bcl:2:18 `prot`

            overrides: { '0': { priority: 3, Ram: 1 } }
                'Ram' is not a field of an override; the nearest is 'ram'
                at job.bcl:2:36 `Ram`
                'priority' is not a field of an override; its fields are labels, cmd, env, cpu, ram, disk, diskRate, processes, ports, healthCheck, notice, constraints
                at job.bcl:2:23 `priority`

            hiddenEnv: ['TOKEN']
                hiddenEnv: replaces env in a description shown to a user who may not see its values: set env with its values instead
                at job.bcl:2:3 `hiddenEnv: ['TOKEN']`

            overrides: { '0': { hiddenEnv: ['TOKEN'] } }
                overrides["0"].hiddenEnv: replaces env in a description shown to a user who may not see its values: set env with its values instead
                at job.bcl:2:23 `hiddenEnv: ['TOKEN']`

            healthCheck: { port: 'http', hiddenEnv: [] }
                'hiddenEnv' is not a field of a health check; its fields are port, path, tcp, exec, interval, timeout, startGrace, failures, successes
                at job.bcl:2:32 `hiddenEnv`

            restart: { max: 3 }
                'max' is not a field of a restart policy; its fields are policy, failures, unlimited, delay, delayMax, resetAfter
                at job.bcl:2:14 `max`

            healthCheck: { grpc: 'http' }
                'grpc' is not a field of a health check; its fields are port, path, tcp, exec, interval, timeout, startGrace, failures, successes
                at job.bcl:2:18 `grpc`
                healthCheck: a health check needs the field 'port', such as port: 'http'
                at job.bcl:2:3 `healthCheck: { grpc: 'http' }`

            metrics: { prot: 'http' }
                'prot' is not a field of a page with metrics; the nearest is 'port'
                at job.bcl:2:14 `prot`
                metrics: a page with metrics needs the field 'port', such as port: 'http'
                at job.bcl:2:3 `metrics: { prot: 'http' }`

            priority: 'prod'
                priority: 'prod' is not a priority: use a number from 0 to 450 or a band (free, best-effort-batch, mid, production, monitoring); the nearest is 'production'
                at job.bcl:2:3 `priority: 'prod'`

            appclass: 'latency_sensitive'
                appclass: 'latency_sensitive' is not an appclass: use latency-sensitive or batch; the nearest is 'latency-sensitive'
                at job.bcl:2:3 `appclass: 'latency_sensitive'`

            ports: ['HTTP']
                ports[0]: 'HTTP' is not a port name: use lower-case letters, digits and inner hyphens, for example 'http'
                at job.bcl:2:11 `'HTTP'`

            overrides: { first: {} }
                overrides["first"]: 'first' names no tasks: use an index (7), a range (0-4) or a list (0-4,7)
                at job.bcl:2:16 `first: {}`

        "#]],
    );
}

#[test]
fn wrong_units() {
    check(
        &["ram: '64 mib'", "ram: 'lots'", "cpu: '2 cpus'", "notice: '10 sec'", "notice: '10'"],
        &expect![[r#"
            ram: '64 mib'
                ram: there is no unit 'mib': use one of B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB; the nearest is 'MiB'
                at job.bcl:2:3 `ram: '64 mib'`

            ram: 'lots'
                ram: 'lots' is not a number of bytes, such as '64 MiB' or 67108864
                at job.bcl:2:3 `ram: 'lots'`

            cpu: '2 cpus'
                cpu: '2 cpus' is not a number of cores, such as 0.1, '2' or '100m'
                at job.bcl:2:3 `cpu: '2 cpus'`

            notice: '10 sec'
                notice: there is no unit 'sec': use one of d, h, m, s, ms, us; the nearest is 's'
                at job.bcl:2:3 `notice: '10 sec'`

            notice: '10'
                notice: must be a span of time, such as '10s', '500ms', '2m' or a number of seconds, is the string '10'
                at job.bcl:2:3 `notice: '10'`

        "#]],
    );
}

#[test]
fn wrong_types() {
    check(
        &[
            "tasks: 'three'",
            "cpu: true",
            "ram: [1]",
            "cmd+: [['b']]",
            "env: { A: null, B: {} }",
            "labels: ['a']",
            "ports: 'http'",
            "healthCheck: true",
            "healthCheck: {}",
            "overrides: { '0': 3 }",
            "overrides: []",
            "restart: { failures: 'never' }",
            "restart: 'alwayss'",
            "restart: 'sometimes'",
            "restart: 5",
            "restart: { policy: true }",
            "healthCheck: { exec: 'check' }",
            "healthCheck: { tcp: 'HTTP' }",
            "metrics: 'http'",
            "metrics: { path: '/m' }",
            "logs: '7d'",
            "autoscale: 'on'",
            "autoscale: 'constrained'",
            "autoscale: { min: { cpu: 1 } }",
            "autoscale: { mode: 'full', min: { cpu: 1, ram: '1 GiB' } }",
            "autoscale: { mode: 'constrained', min: { cpu: 1, mem: 3 }, max: 5 }",
            "autoscale: { mode: 'constrained', min: { cpu: 0, ram: 0 }, max: { cpu: 1, ram: '1 GiB' } }",
            "autoscale: { mode: 'constrained', min: { cpu: 2, ram: '1 GiB' }, max: { cpu: 1, ram: '8 GiB' } }",
            "logs: { keep: '366d', max: '1 KiB' }",
            "notice: function() 1",
        ],
        &expect![[r#"
            tasks: 'three'
                tasks: must be a number of tasks, or 'every-machine' for one on each machine, is the string 'three'
                at job.bcl:2:3 `tasks: 'three'`

            cpu: true
                cpu: must be a number of cores, such as 0.1, '2' or '100m', is true
                at job.bcl:2:3 `cpu: true`

            ram: [1]
                ram: must be a number of bytes, such as '64 MiB' or 67108864, is a list
                at job.bcl:2:3 `ram: [1]`

            cmd+: [['b']]
                cmd[1]: must be a string, a number or a boolean, is a list
                at job.bcl:2:10 `['b']`

            env: { A: null, B: {} }
                env["B"]: must be a string, a number or a boolean, is an object
                at job.bcl:2:19 `B: {}`

            labels: ['a']
                labels: must be labels and their values, such as { team: 'search' }, is a list
                at job.bcl:2:3 `labels: ['a']`

            ports: 'http'
                ports: must be a list of port names, such as ['http'], is the string 'http'
                at job.bcl:2:3 `ports: 'http'`

            healthCheck: true
                healthCheck: must be a health check, such as { port: 'http', path: '/healthz' }, { tcp: 'http' } or { exec: ['check', '--quick'] }, or null, is true
                at job.bcl:2:3 `healthCheck: true`

            healthCheck: {}
                healthCheck: a health check needs the field 'port', such as port: 'http'
                at job.bcl:2:3 `healthCheck: {}`

            overrides: { '0': 3 }
                overrides["0"]: must be the fields that differ in these tasks, such as { ram: '1 GiB' }, is the number 3
                at job.bcl:2:16 `'0': 3`

            overrides: []
                overrides: must be overrides by task, such as { '3': { ram: '1 GiB' }, '5-9': { cpu: 2 } }, is a list
                at job.bcl:2:3 `overrides: []`

            restart: { failures: 'never' }
                restart.failures: must be a number of failures, or 'unlimited', is the string 'never'
                at job.bcl:2:14 `failures: 'never'`

            restart: 'alwayss'
                restart: 'alwayss' is not a restart policy: use never, on-failure or always; the nearest is 'always'
                at job.bcl:2:3 `restart: 'alwayss'`

            restart: 'sometimes'
                restart: 'sometimes' is not a restart policy: use never, on-failure or always
                at job.bcl:2:3 `restart: 'sometimes'`

            restart: 5
                restart: must be 'never', 'on-failure' or 'always', or a restart policy, such as { failures: 10, delay: '1s', delayMax: '5m' }, is the number 5
                at job.bcl:2:3 `restart: 5`

            restart: { policy: true }
                restart.policy: must be 'never', 'on-failure' or 'always', is true
                at job.bcl:2:14 `policy: true`

            healthCheck: { exec: 'check' }
                healthCheck.exec: must be a list of strings, such as ['bourg', 'example-server'], is the string 'check'
                at job.bcl:2:18 `exec: 'check'`

            healthCheck: { tcp: 'HTTP' }
                healthCheck.tcp: 'HTTP' is not a port name: use lower-case letters, digits and inner hyphens, for example 'http'
                at job.bcl:2:18 `tcp: 'HTTP'`

            metrics: 'http'
                metrics: must be a page with metrics, such as { port: 'http', path: '/metrics' }, is the string 'http'
                at job.bcl:2:3 `metrics: 'http'`

            metrics: { path: '/m' }
                metrics: a page with metrics needs the field 'port', such as port: 'http'
                at job.bcl:2:3 `metrics: { path: '/m' }`

            logs: '7d'
                logs: must be a policy for logs, such as { keep: '7d', max: '256 MiB' }, is the string '7d'
                at job.bcl:2:3 `logs: '7d'`

            autoscale: 'on'
                autoscale: 'on' is not a mode of autoscaling: use off, constrained or full
                at job.bcl:2:3 `autoscale: 'on'`

            autoscale: 'constrained'
                autoscale: needs bounds: { mode: 'constrained', min: { cpu: 0.1, ram: '64 MiB' }, max: { cpu: 2, ram: '1 GiB' } }, or use 'full'
                at job.bcl:2:3 `autoscale: 'constrained'`

            autoscale: { min: { cpu: 1 } }
                autoscale: an autoscale setting needs the field 'mode', such as mode: 'constrained'
                at job.bcl:2:3 `autoscale: { min: { cpu: 1 } }`

            autoscale: { mode: 'full', min: { cpu: 1, ram: '1 GiB' } }
                autoscale.min: applies only to mode: 'constrained': leave it out, or change the mode
                at job.bcl:2:30 `min: { cpu: 1, ram: '1 GiB' }`

            autoscale: { mode: 'constrained', min: { cpu: 1, mem: 3 }, max: 5 }
                'mem' is not a field of a bound of autoscaling; the nearest is 'ram'
                at job.bcl:2:52 `mem`
                autoscale.min: a bound of autoscaling needs the field 'ram', such as ram: '64 MiB'
                at job.bcl:2:37 `min: { cpu: 1, mem: 3 }`
                autoscale.max: must be CPU and RAM, such as { cpu: 0.1, ram: '64 MiB' }, is the number 5
                at job.bcl:2:62 `max: 5`

            autoscale: { mode: 'constrained', min: { cpu: 0, ram: 0 }, max: { cpu: 1, ram: '1 GiB' } }
                autoscale.min.cpu: must be 0.001 cores to 1099511627.776 cores, is 0 cores
                at job.bcl:2:44 `cpu: 0`
                autoscale.min.ram: must be 4 MiB to 1024 PiB, is 0 B
                at job.bcl:2:52 `ram: 0`

            autoscale: { mode: 'constrained', min: { cpu: 2, ram: '1 GiB' }, max: { cpu: 1, ram: '8 GiB' } }
                autoscale.max.cpu: must be 2 cores to 1099511627.776 cores, is 1 core
                at job.bcl:2:75 `cpu: 1`

            logs: { keep: '366d', max: '1 KiB' }
                logs.keep: must be 0 s to 365 d, is 366 d
                at job.bcl:2:11 `keep: '366d'`
                logs.max: must be 64 KiB to 64 GiB, is 1 KiB
                at job.bcl:2:25 `max: '1 KiB'`

            notice: function() 1
                notice: must be a span of time, such as '10s', '500ms', '2m' or a number of seconds, is a function
                at job.bcl:2:3 `notice: function() 1`

        "#]],
    );
}

#[test]
fn wrong_ranges() {
    check(
        &[
            "tasks: 0",
            "tasks: 1.5",
            "tasks: 1e300",
            "tasks: 5000000000",
            "cpu: 0.0005",
            "cpu: -1",
            "cpu: 0",
            "cpuMilli: 0",
            "ram: 1e16",
            "ram: 1",
            "ramBytes: '1'",
            "ram: '9000 PiB'",
            "priority: 451",
            "priority: -1",
            "notice: '2d'",
            "restart: { delay: '10m' }",
            "processes: 0",
            "overrides: { '1-3': {} }, tasks: 3",
            "overrides: { '0-4000000000': {} }, tasks: 3",
            "overrides: { '0-1': {}, '1': { cpu: 1 } }, tasks: 3",
            "overrides: { '0,0': {} }",
            "overrides: { '0-2': { processes: 0 } }, tasks: 3",
            "overrides: { '0': { cpu: 1 } }, ram: 1",
            "cpu: 1, cpuMilli: 1000",
            "restart: { failures: 3, unlimited: true }",
            "healthCheck: { port: 'http', exec: ['check'] }",
            "healthCheck: { tcp: 'http', path: '/x' }",
            "healthCheck: { exec: [] }",
            "healthCheck: { exec: ['check'], timeout: '2m', successes: 0 }",
            "ports: ['admin'], metrics: { port: 'http' }",
            "metrics: { port: 'http', path: 'm' }, ports: ['http']",
            "env: { A: '${task.indx}' }",
            "cmd: []",
        ],
        &expect![[r#"
            tasks: 0
                tasks: must be 1 to 100000, is 0
                at job.bcl:2:3 `tasks: 0`

            tasks: 1.5
                tasks: must be a whole number, is 1.5
                at job.bcl:2:3 `tasks: 1.5`

            tasks: 1e300
                tasks: 1e300 is too large
                at job.bcl:2:3 `tasks: 1e300`

            tasks: 5000000000
                tasks: 5000000000 is too large
                at job.bcl:2:3 `tasks: 5000000000`

            cpu: 0.0005
                cpu: '0.0005' is finer than 0.001 cores
                at job.bcl:2:3 `cpu: 0.0005`

            cpu: -1
                cpu: must not be negative, is -1
                at job.bcl:2:3 `cpu: -1`

            cpu: 0
                cpu: must be 0.001 cores to 1099511627.776 cores, is 0 cores
                at job.bcl:2:3 `cpu: 0`

            cpuMilli: 0
                cpu: must be 0.001 cores to 1099511627.776 cores, is 0 cores
                at job.bcl:2:3 `cpuMilli: 0`

            ram: 1e16
                ram: 10000000000000000 is beyond 2^53, where numbers are no longer exact: write it as a string
                at job.bcl:2:3 `ram: 1e16`

            ram: 1
                ram: must be 4 MiB to 1024 PiB, is 1 B
                at job.bcl:2:3 `ram: 1`

            ramBytes: '1'
                ram: must be 4 MiB to 1024 PiB, is 1 B
                at job.bcl:2:3 `ramBytes: '1'`

            ram: '9000 PiB'
                ram: '9000 PiB' is too large
                at job.bcl:2:3 `ram: '9000 PiB'`

            priority: 451
                priority: a priority is a number from 0 to 450, this one is 451
                at job.bcl:2:3 `priority: 451`

            priority: -1
                priority: a priority is a number from 0 to 450, this one is -1
                at job.bcl:2:3 `priority: -1`

            notice: '2d'
                notice: must be 0 s to 1 d, is 2 d
                at job.bcl:2:3 `notice: '2d'`

            restart: { delay: '10m' }
                restart.delay: is longer than delayMax (5 m)
                at job.bcl:2:14 `delay: '10m'`

            processes: 0
                processes: must be 1 to 1048576, is 0
                at job.bcl:2:3 `processes: 0`

            overrides: { '1-3': {} }, tasks: 3
                overrides["1-3"]: there is no task 3: the job has tasks 0 to 2
                at job.bcl:2:16 `'1-3': {}`

            overrides: { '0-4000000000': {} }, tasks: 3
                overrides["0-4000000000"]: there is no task 4000000000: the job has tasks 0 to 2
                at job.bcl:2:16 `'0-4000000000': {}`

            overrides: { '0-1': {}, '1': { cpu: 1 } }, tasks: 3
                overrides["1"]: task 1 has another override, under '0-1'
                at job.bcl:2:27 `'1': { cpu: 1 }`

            overrides: { '0,0': {} }
                overrides["0,0"]: task 0 has another override, under '0,0'
                at job.bcl:2:16 `'0,0': {}`

            overrides: { '0-2': { processes: 0 } }, tasks: 3
                overrides["0"].processes: must be 1 to 1048576, is 0
                at job.bcl:2:25 `processes: 0`

            overrides: { '0': { cpu: 1 } }, ram: 1
                ram: must be 4 MiB to 1024 PiB, is 1 B
                at job.bcl:2:35 `ram: 1`

            cpu: 1, cpuMilli: 1000
                cpuMilli: 'cpu' and 'cpuMilli' are two spellings of one field: use one of them
                at job.bcl:2:11 `cpuMilli: 1000`

            restart: { failures: 3, unlimited: true }
                restart.unlimited: 'failures' and 'unlimited' are two spellings of one field: use one of them
                at job.bcl:2:27 `unlimited: true`

            healthCheck: { port: 'http', exec: ['check'] }
                healthCheck.exec: 'exec' does not go with 'port': a health check has a port and a path for HTTP, or tcp, or exec
                at job.bcl:2:32 `exec: ['check']`

            healthCheck: { tcp: 'http', path: '/x' }
                healthCheck.path: 'path' does not go with 'tcp': a health check has a port and a path for HTTP, or tcp, or exec
                at job.bcl:2:31 `path: '/x'`

            healthCheck: { exec: [] }
                healthCheck.exec: is empty: name the program to run and its arguments, such as ['bourg', 'example-server']
                at job.bcl:2:18 `exec: []`

            healthCheck: { exec: ['check'], timeout: '2m', successes: 0 }
                healthCheck.timeout: must be 10 ms to 1 m, is 2 m
                at job.bcl:2:35 `timeout: '2m'`
                healthCheck.successes: must be 1 to 1000000, is 0
                at job.bcl:2:50 `successes: 0`

            ports: ['admin'], metrics: { port: 'http' }
                metrics.port: 'http' is not a port of the tasks: there are admin
                at job.bcl:2:32 `port: 'http'`

            metrics: { port: 'http', path: 'm' }, ports: ['http']
                metrics.path: must begin with '/'
                at job.bcl:2:28 `path: 'm'`

            env: { A: '${task.indx}' }
                env["A"]: '${task.indx}' refers to nothing: there are ${port.NAME} and ${task.index}, ${task.job}, ${task.user}, ${task.cell}, ${task.cpu}, ${task.ram}, ${task.tasks}
                at job.bcl:2:10 `A: '${task.indx}'`

            cmd: []
                cmd: is empty: name the program to run and its arguments, such as ['bourg', 'example-server']
                at job.bcl:2:3 `cmd: []`

        "#]],
    );
}

#[test]
fn all_wrong_fields_are_told_together_up_to_a_bound() {
    check(
        &["rma: 1, cpu: -1, tasks: 0"],
        &expect![[r#"
        rma: 1, cpu: -1, tasks: 0
            'rma' is not a field of a job; the nearest is 'ram'
            at job.bcl:2:3 `rma`
            cpu: must not be negative, is -1
            at job.bcl:2:11 `cpu: -1`

    "#]],
    );
    let many = (0..30).map(|n| format!("f{n}: 1")).collect::<Vec<_>>().join(", ");
    let says = says(format!("{{ {many} }}"));
    assert!(says.ends_with("\nand 12 more errors\n"), "{says}");
}

#[test]
fn overrides_that_are_too_large_are_refused() {
    check(
        &["tasks: 100000, overrides: { '0-99999': { cmd: [std.repeat('x', 1000)] } }"],
        &expect![[r#"
            tasks: 100000, overrides: { '0-99999': { cmd: [std.repeat('x', 1000)] } }
                overrides: the overrides of all tasks together have more than 67108864 bytes of text
                at job.bcl:2:18 `overrides: { '0-99999': { cmd: [std.repeat('x', 1000)] } }`

        "#]],
    );
}

#[test]
fn wrong_volumes() {
    check(
        &[
            "volumes: 'data'",
            "volumes: [{ volume: 'data' }]",
            "volumes: [{ path: '/data' }]",
            "volumes: [{ volume: 'Data', path: '/data' }]",
            "volumes: [{ volume: 'data', path: 'data' }]",
            "volumes: [{ volume: 'data', path: '/etc/x' }]",
            "volumes: [{ volume: 'data', labels: { ssd: 'yes' }, path: '/data' }]",
            "volumes: [{ volume: 'data', path: '/a', readonly: true }]",
            "volumes: [{ volume: 'data', path: '/a', elsewhereAfter: 'soon' }]",
            "volumes: [{ volume: 'a', path: '/a' }, { labels: { ssd: 'yes' }, path: '/a/b' }]",
        ],
        &expect![[r#"
            volumes: 'data'
                volumes: must be a list of volumes, such as [{ volume: 'data', path: '/data' }], is the string 'data'
                at job.bcl:2:3 `volumes: 'data'`

            volumes: [{ volume: 'data' }]
                volumes[0]: a volume needs the field 'path', such as path: '/data'
                at job.bcl:2:13 `{ volume: 'data' }`

            volumes: [{ path: '/data' }]
                volumes[0]: a volume needs the field 'volume', such as volume: 'data'
                at job.bcl:2:13 `{ path: '/data' }`

            volumes: [{ volume: 'Data', path: '/data' }]
                volumes[0].volume: 'Data' is not a volume name: use lower-case letters, digits and inner hyphens, for example 'data'
                at job.bcl:2:15 `volume: 'Data'`

            volumes: [{ volume: 'data', path: 'data' }]
                volumes[0].path: 'data' is not the path of a volume: write an absolute one without '.' and '..', such as /data
                at job.bcl:2:31 `path: 'data'`

            volumes: [{ volume: 'data', path: '/etc/x' }]
                volumes[0].path: /etc/x is a directory of the system, and no volume: choose another, such as /data
                at job.bcl:2:31 `path: '/etc/x'`

            volumes: [{ volume: 'data', labels: { ssd: 'yes' }, path: '/data' }]
                volumes[0].labels: must be nothing beside volume: a volume is asked for by its name or by labels, is an object
                at job.bcl:2:31 `labels: { ssd: 'yes' }`

            volumes: [{ volume: 'data', path: '/a', readonly: true }]
                'readonly' is not a field of a volume; the nearest is 'readOnly'
                at job.bcl:2:43 `readonly`

            volumes: [{ volume: 'data', path: '/a', elsewhereAfter: 'soon' }]
                volumes[0].elsewhereAfter: must be a span of time, such as '10s', '500ms', '2m' or a number of seconds, is the string 'soon'
                at job.bcl:2:43 `elsewhereAfter: 'soon'`

            volumes: [{ volume: 'a', path: '/a' }, { labels: { ssd: 'yes' }, path: '/a/b' }]
                volumes[1].path: is at or below /a, where the task has another volume: give each a place of its own
                at job.bcl:2:68 `path: '/a/b'`

        "#]],
    );
}

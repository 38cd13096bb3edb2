//! Invalid constraints, references to other jobs and overrides.

use expect_test::expect;

use crate::table;
use crate::wrong_fields::check;

#[test]
fn wrong_names() {
    check(
        &[
            "schedulingclass: 2",
            "dependsOn: ['y']",
            "constraint: []",
            "constraints: [{ attribut: 'gpu', attribute: 'gpu', op: 'equal' }]",
            "constraints: [{ key: 'gpu' }]",
            "constraints: [{ attribute: 'x' }, { attribute: 'x', relation: 'greater', value: 1 }]",
            "constraints: [{ attribute: 'x', relation: '>=', value: 1 }]",
            "constraints: [{ attribute: 'x', relation: 'near', value: 1 }]",
            "overrides: { '0': { healthcheck: {}, constraints: [{ attribute: 'x', sof: 1 }] } }",
            "after: ['y', 'Extract']",
            "after: ['ana/x/y', '/y']",
            "parent: 'ana/'",
            "allocset: 'room'",
            "allocSet: 'x'",
            "allocs: {}",
            "allocs: { user: ['ana'] }, cmd: null",
            "allocs: { users: ['Ana'] }, cmd: null, allocSet: 'room'",
            "allocs: {}, cmd: null, ports: ['http'], overrides: { '0': { env: { A: 'b' } } }",
        ],
        &expect![[r#"
            schedulingclass: 2
                'schedulingclass' is not a field of a job; the nearest is 'schedulingClass'
                at job.bcl:2:3 `schedulingclass`

            dependsOn: ['y']
                'dependsOn' is not a field of a job; the nearest is 'after'
                at job.bcl:2:3 `dependsOn`

            constraint: []
                'constraint' is not a field of a job; the nearest is 'constraints'
                at job.bcl:2:3 `constraint`

            constraints: [{ attribut: 'gpu', attribute: 'gpu', op: 'equal' }]
                'attribut' is not a field of a constraint; the nearest is 'attribute'
                at job.bcl:2:19 `attribut`
                'op' is not a field of a constraint; the nearest is 'relation'
                at job.bcl:2:54 `op`

            constraints: [{ key: 'gpu' }]
                'key' is not a field of a constraint; the nearest is 'attribute'
                at job.bcl:2:19 `key`
                constraints[0]: a constraint needs the field 'attribute', such as attribute: 'gpu'
                at job.bcl:2:17 `{ key: 'gpu' }`

            constraints: [{ attribute: 'x' }, { attribute: 'x', relation: 'greater', value: 1 }]
                constraints[1].relation: 'greater' is not a relation: use equal, not-equal, less-than, less-than-equal, greater-than, greater-than-equal, present or not-present; the nearest is 'greater-than'
                at job.bcl:2:55 `relation: 'greater'`

            constraints: [{ attribute: 'x', relation: '>=', value: 1 }]
                constraints[0].relation: '>=' is not a relation: use equal, not-equal, less-than, less-than-equal, greater-than, greater-than-equal, present or not-present; the nearest is 'greater-than-equal'
                at job.bcl:2:35 `relation: '>='`

            constraints: [{ attribute: 'x', relation: 'near', value: 1 }]
                constraints[0].relation: 'near' is not a relation: use equal, not-equal, less-than, less-than-equal, greater-than, greater-than-equal, present or not-present
                at job.bcl:2:35 `relation: 'near'`

            overrides: { '0': { healthcheck: {}, constraints: [{ attribute: 'x', sof: 1 }] } }
                'healthcheck' is not a field of an override; the nearest is 'healthCheck'
                at job.bcl:2:23 `healthcheck`
                'sof' is not a field of a constraint; the nearest is 'soft'
                at job.bcl:2:72 `sof`

            after: ['y', 'Extract']
                after[1]: 'Extract' is not a job name: use lower-case letters, digits and inner hyphens, for example 'extract'
                at job.bcl:2:16 `'Extract'`

            after: ['ana/x/y', '/y']
                after[0]: 'x/y' is not a job name: use lower-case letters, digits and inner hyphens, for example 'x-y'
                at job.bcl:2:11 `'ana/x/y'`
                after[1]: a user name cannot be empty
                at job.bcl:2:22 `'/y'`

            parent: 'ana/'
                parent: a job name cannot be empty
                at job.bcl:2:3 `parent: 'ana/'`

            allocset: 'room'
                'allocset' is not a field of a job; the nearest is 'allocSet'
                at job.bcl:2:3 `allocset`

            allocSet: 'x'
                allocSet: names the job itself: name another one, or leave it out
                at job.bcl:2:3 `allocSet: 'x'`

            allocs: {}
                cmd: applies to tasks only, and an alloc runs no program: leave it out
                at job.bcl:1:14 `cmd: ['a']`

            allocs: { user: ['ana'] }, cmd: null
                'user' is not a field of an alloc set; the nearest is 'users'
                at job.bcl:2:13 `user`

            allocs: { users: ['Ana'] }, cmd: null, allocSet: 'room'
                allocSet: applies to tasks only, and an alloc runs no program: leave it out
                at job.bcl:2:42 `allocSet: 'room'`
                allocs.users[0]: 'Ana' is not a user name: use lower-case letters, digits and inner hyphens, for example 'ana'
                at job.bcl:2:21 `'Ana'`

            allocs: {}, cmd: null, ports: ['http'], overrides: { '0': { env: { A: 'b' } } }
                ports: applies to tasks only, and an alloc runs no program: leave it out
                at job.bcl:2:26 `ports: ['http']`
                overrides["0"].env: applies to tasks only, and an alloc runs no program: leave it out
                at job.bcl:2:63 `env: { A: 'b' }`

        "#]],
    );
}

#[test]
fn wrong_types() {
    check(
        &[
            "schedulingClass: 'high'",
            "schedulingClass: 1.5",
            "after: 'y'",
            "after: [1]",
            "parent: ['y']",
            "constraints: { attribute: 'x' }",
            "constraints: ['x']",
            "constraints: [{}]",
            "constraints: [{ attribute: '', value: true, soft: 'yes', relation: 7 }]",
            "constraints: [{ attribute: 'x', relation: 'less-than' }]",
            "overrides: { '0': { labels: [], ports: 'http', constraints: {}, notice: [] } }",
        ],
        &expect![[r#"
            schedulingClass: 'high'
                schedulingClass: must be a scheduling class from 0 (batch) to 3 (the most latency-sensitive), is the string 'high'
                at job.bcl:2:3 `schedulingClass: 'high'`

            schedulingClass: 1.5
                schedulingClass: must be a scheduling class from 0 (batch) to 3 (the most latency-sensitive), is the number 1.5
                at job.bcl:2:3 `schedulingClass: 1.5`

            after: 'y'
                after: must be a list of jobs, such as ['extract', { job: 'ana/load', when: 'ended' }], is the string 'y'
                at job.bcl:2:3 `after: 'y'`

            after: [1]
                after[0]: must be a job to run after, such as 'extract' or { job: 'load', when: 'ended' }, is the number 1
                at job.bcl:2:11 `1`

            parent: ['y']
                parent: must be the name of a job, such as 'extract' or 'ana/load', is a list
                at job.bcl:2:3 `parent: ['y']`

            constraints: { attribute: 'x' }
                constraints: must be a list of constraints, such as [{ attribute: 'gpu', value: 'H200' }], is an object
                at job.bcl:2:3 `constraints: { attribute: 'x' }`

            constraints: ['x']
                constraints[0]: must be a constraint, such as { attribute: 'gpu', value: 'H200' }, is the string 'x'
                at job.bcl:2:17 `'x'`

            constraints: [{}]
                constraints[0]: a constraint needs the field 'attribute', such as attribute: 'gpu'
                at job.bcl:2:17 `{}`

            constraints: [{ attribute: '', value: true, soft: 'yes', relation: 7 }]
                constraints[0].attribute: must be the name of an attribute, such as 'gpu', is the string ''
                at job.bcl:2:19 `attribute: ''`
                constraints[0].relation: must be a relation, such as 'equal' or 'greater-than-equal', is the number 7
                at job.bcl:2:60 `relation: 7`
                constraints[0].value: must be a string or a whole number, such as 'H200' or 8, is true
                at job.bcl:2:34 `value: true`
                constraints[0].soft: must be true or false, is the string 'yes'
                at job.bcl:2:47 `soft: 'yes'`

            constraints: [{ attribute: 'x', relation: 'less-than' }]
                constraints[0]: a constraint that compares needs the field 'value', such as value: 8
                at job.bcl:2:17 `{ attribute: 'x', relation: 'less-than' }`

            overrides: { '0': { labels: [], ports: 'http', constraints: {}, notice: [] } }
                overrides["0"].ports: must be a list of port names, such as ['http'], is the string 'http'
                at job.bcl:2:35 `ports: 'http'`
                overrides["0"].constraints: must be a list of constraints, such as [{ attribute: 'gpu', value: 'H200' }], is an object
                at job.bcl:2:50 `constraints: {}`
                overrides["0"].labels: must be labels and their values, such as { team: 'search' }, is a list
                at job.bcl:2:23 `labels: []`
                overrides["0"].notice: must be a span of time, such as '10s', '500ms', '2m' or a number of seconds, is a list
                at job.bcl:2:67 `notice: []`

        "#]],
    );
}

#[test]
fn wrong_values() {
    check(
        &[
            "schedulingClass: 4",
            "schedulingClass: '-1'",
            "after: ['y', 'x', 'b']",
            "parent: 'x'",
            "constraints: [{ attribute: 'x', relation: 'less-than', value: 'fast' }]",
            "constraints: [{ attribute: 'x', relation: 'PRESENT', value: 1 }]",
            "constraints: [{ attribute: 'x', value: 1.5 }, { attribute: 'x', value: 1e16 }]",
            "constraints: [{ attribute: 'x\\u001b' }]",
            "constraints: [{ attribute: 'x' + i } for i in std.range(1, 65)]",
            "healthCheck: { port: 'p' }, overrides: { '0': { healthCheck: null } }",
            "healthCheck: { port: 'p' }, overrides: { '0': { healthCheck: { port: null } } }",
            "overrides: { '0-2': { healthCheck: { port: 'p', path: 'x' }, notice: '2d' } }, tasks: 3",
            "overrides: { '0': { constraints: [{ attribute: 'x', relation: 'present', value: 1 }] } }",
            "overrides: { '0': { labels: { a: '\\n' } } }",
        ],
        &expect![[r#"
            schedulingClass: 4
                schedulingClass: a scheduling class is a number from 0 to 3, this one is 4
                at job.bcl:2:3 `schedulingClass: 4`

            schedulingClass: '-1'
                schedulingClass: a scheduling class is a number from 0 to 3, this one is -1
                at job.bcl:2:3 `schedulingClass: '-1'`

            after: ['y', 'x', 'b']
                after[1]: names the job itself: name another one, or leave it out
                at job.bcl:2:16 `'x'`

            parent: 'x'
                parent: names the job itself: name another one, or leave it out
                at job.bcl:2:3 `parent: 'x'`

            constraints: [{ attribute: 'x', relation: 'less-than', value: 'fast' }]
                constraints[0].value: 'fast' is not an integer, and less-than compares integers
                at job.bcl:2:58 `value: 'fast'`

            constraints: [{ attribute: 'x', relation: 'PRESENT', value: 1 }]
                constraints[0].value: present takes no value: leave it out
                at job.bcl:2:56 `value: 1`

            constraints: [{ attribute: 'x', value: 1.5 }, { attribute: 'x', value: 1e16 }]
                constraints[0].value: must be a whole number, is 1.5
                at job.bcl:2:35 `value: 1.5`
                constraints[1].value: 10000000000000000 is beyond 2^53, where numbers are no longer exact: write it as a string
                at job.bcl:2:67 `value: 1e16`

            constraints: [{ attribute: 'x\u001b' }]
                constraints[0].attribute: contains the control character \u{1b}, which is not allowed here
                at job.bcl:2:19 `attribute: 'x\u001b'`

            constraints: [{ attribute: 'x' + i } for i in std.range(1, 65)]
                constraints: has 65 constraints, at most 64 are allowed
                at job.bcl:2:3 `constraints: [{ attribute: 'x' + i } for i in std.range(1, 65)]`

            healthCheck: { port: 'p' }, overrides: { '0': { healthCheck: null } }
                overrides["0"].healthCheck: a single task cannot disable the job's health check: set the check in the overrides of the tasks that have one, and not in the job
                at job.bcl:2:51 `healthCheck: null`

            healthCheck: { port: 'p' }, overrides: { '0': { healthCheck: { port: null } } }
                overrides["0"].healthCheck: a single task cannot disable the job's health check: set the check in the overrides of the tasks that have one, and not in the job
                at job.bcl:2:51 `healthCheck: { port: null }`

            overrides: { '0-2': { healthCheck: { port: 'p', path: 'x' }, notice: '2d' } }, tasks: 3
                overrides["0"].healthCheck.path: must begin with '/'
                at job.bcl:2:51 `path: 'x'`
                overrides["0"].notice: must be 0 s to 1 d, is 2 d
                at job.bcl:2:64 `notice: '2d'`

            overrides: { '0': { constraints: [{ attribute: 'x', relation: 'present', value: 1 }] } }
                overrides["0"].constraints[0].value: present takes no value: leave it out
                at job.bcl:2:76 `value: 1`

            overrides: { '0': { labels: { a: '\n' } } }
                overrides["0"].labels["a"]: contains the control character \n, which is not allowed here
                at job.bcl:2:33 `a: '\n'`
                overrides["0"].labels["a"]: contains a comma, '!=', or an '=', '!' or space where queries end a name, which is not allowed here
                at job.bcl:2:33 `a: '\n'`

        "#]],
    );
}

#[test]
fn jobs_are_named_by_those_that_come_later() {
    let cases = [
        "[\n  { name: 'b', cmd: ['b'], after: ['c', 'a'] },\n  { name: 'a', cmd: ['a'] },\n]",
        "[\n  { name: 'b', cmd: ['b'], parent: 'a' },\n  { name: 'a', cmd: ['a'], after: ['b'] },\n]",
    ];
    expect![[r#"
        [
          { name: 'b', cmd: ['b'], after: ['c', 'a'] },
          { name: 'a', cmd: ['a'] },
        ]
            [0].after[1]: 'a' comes later in this file, and jobs are submitted in file order: move it up
            at job.bcl:2:41 `'a'`

        [
          { name: 'b', cmd: ['b'], parent: 'a' },
          { name: 'a', cmd: ['a'], after: ['b'] },
        ]
            [0].parent: 'a' comes later in this file, and jobs are submitted in file order: move it up
            at job.bcl:2:28 `parent: 'a'`

    "#]].assert_eq(&table(cases.map(|source| (source, source.to_owned())), &[]));
}

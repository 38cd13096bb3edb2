//! The reported place of an invalid value: the field itself if that is certain, else the enclosing
//! text.

use expect_test::{Expect, expect};

use crate::table;

const LIBRARY: &str = "local borg = import 'borg.libsonnet';\n";

const FILES: [(&str, &str); 1] = [(
    "base.bcl",
    "{\n  web:: { cpu: 'x' },\n  api(name): { name: name, cmd: ['a'], cpu: 'x' },\n  \
     job: { name: 'x', cmd: ['a'], cpu: 'x' },\n}",
)];

/// The errors of files that start with the library's import.
fn check(cases: &[&str], expected: &Expect) {
    let cases = cases.iter().map(|source| (*source, format!("{LIBRARY}{source}")));
    expected.assert_eq(&table(cases, &FILES));
}

#[test]
fn errors_after_a_template_have_their_place() {
    let cases = [
        "borg.service('x', cmd=['a']) { cpu: 1, rma: '64 MiB' }",
        "borg.service('x', cmd=['a']) { healthCheck+: { pth: '/' } }",
        "borg.service('x', cmd=['a']) { cpu: 1 } { ram: 1 } + { disk: '1' }",
        "borg.service('x', cmd=['a']) { cpu: '1x' } { cpu: 1 } { cpu: '2x' }",
        "borg.service('x', cmd=['a']) { cmd+: ['b', '${task.x}'] }",
        "borg.service('x', cmd=['${task.x}']) { cmd+: ['b'] }",
        "borg.service('x', cmd=['a']) { env: { A: '${HOME} ${prot.http}' } }",
    ];
    check(
        &cases,
        &expect![[r#"
            borg.service('x', cmd=['a']) { cpu: 1, rma: '64 MiB' }
                'rma' is not a field of a job; the nearest is 'ram'
                at job.bcl:2:40 `rma`

            borg.service('x', cmd=['a']) { healthCheck+: { pth: '/' } }
                'pth' is not a field of a health check; the nearest is 'path'
                at job.bcl:2:48 `pth`

            borg.service('x', cmd=['a']) { cpu: 1 } { ram: 1 } + { disk: '1' }
                ram: must be 4 MiB to 1024 PiB, is 1 B
                at job.bcl:2:43 `ram: 1`

            borg.service('x', cmd=['a']) { cpu: '1x' } { cpu: 1 } { cpu: '2x' }
                cpu: '2x' is not a number of cores, such as 0.1, '2' or '100m'
                at job.bcl:2:57 `cpu: '2x'`

            borg.service('x', cmd=['a']) { cmd+: ['b', '${task.x}'] }
                cmd[2]: '${task.x}' refers to nothing: there are ${port.NAME} and ${task.index}, ${task.job}, ${task.user}, ${task.cell}, ${task.cpu}, ${task.ram}, ${task.tasks}
                at job.bcl:2:44 `'${task.x}'`

            borg.service('x', cmd=['${task.x}']) { cmd+: ['b'] }
                cmd[0]: '${task.x}' refers to nothing: there are ${port.NAME} and ${task.index}, ${task.job}, ${task.user}, ${task.cell}, ${task.cpu}, ${task.ram}, ${task.tasks}
                at job.bcl:2:24 `'${task.x}'`

            borg.service('x', cmd=['a']) { env: { A: '${HOME} ${prot.http}' } }
                env["A"]: '${prot.http}' is not a reference: did you mean '${port.http}'?
                at job.bcl:2:39 `A: '${HOME} ${prot.http}'`

        "#]],
    );
}

#[test]
fn errors_in_template_arguments_have_their_place() {
    let cases = [
        "borg.service('X', cmd=['a'])",
        "borg.service('x', tasks=0, cmd=['a'])",
        "borg.service('x', 2, ['a', {}])",
        "borg.batch('x', tasks=2, cmd=['a'], perTask=function(i) { cmd+: [{}], rma: i })",
        "local f(i) = { ram: i };\nborg.batch('x', tasks=3, cmd=['a'], perTask=f) { ram: '5 MiB' }",
    ];
    check(
        &cases,
        &expect![[r#"
            borg.service('X', cmd=['a'])
                name: 'X' is not a job name: use lower-case letters, digits and inner hyphens, for example 'x'
                at job.bcl:2:14 `'X'`

            borg.service('x', tasks=0, cmd=['a'])
                tasks: must be 1 to 100000, is 0
                at job.bcl:2:25 `0`

            borg.service('x', 2, ['a', {}])
                cmd[1]: must be a string, a number or a boolean, is an object
                at job.bcl:2:28 `{}`

            borg.batch('x', tasks=2, cmd=['a'], perTask=function(i) { cmd+: [{}], rma: i })
                'rma' is not a field of an override; the nearest is 'ram'
                at job.bcl:2:71 `rma`
                overrides["0"].cmd[1]: must be a string, a number or a boolean, is an object
                at job.bcl:2:66 `{}`

            local f(i) = { ram: i };
            borg.batch('x', tasks=3, cmd=['a'], perTask=f) { ram: '5 MiB' }
                overrides["0"].ram: must be 4 MiB to 1024 PiB, is 0 B
                at job.bcl:2:16 `ram: i`
                overrides["1"].ram: must be 4 MiB to 1024 PiB, is 1 B
                at job.bcl:2:16 `ram: i`
                overrides["2"].ram: must be 4 MiB to 1024 PiB, is 2 B
                at job.bcl:2:16 `ram: i`

        "#]],
    );
}

#[test]
fn errors_in_library_constraints_have_their_place() {
    let cases = [
        "borg.batch('x', cmd=['a']) { constraints: [borg.attribute('cores').atLeast('many')] }",
        "borg.batch('x', cmd=['a']) { constraints: [borg.attribute('').preferred.equal({})] }",
        "borg.batch('x', cmd=['a']) { constraints: [borg.attribute(7), borg.attribute(8).preferred] }",
        "local gpu(kind) = borg.attribute('gpu').equal(kind);\n\
         borg.batch('x', cmd=['a']) { constraints+: [gpu('H200'), gpu([])] }",
        "borg.batch('x', cmd=['a']) { constraints: [borg.attribute('a').equal('b') { soft: 1 }] }",
        "borg.batch('x', tasks=2, cmd=['a'], perTask=function(i) {\n  \
         constraints: [borg.attribute('rack').lessThan('r' + i)] })",
    ];
    check(
        &cases,
        &expect![[r#"
            borg.batch('x', cmd=['a']) { constraints: [borg.attribute('cores').atLeast('many')] }
                constraints[0].value: 'many' is not an integer, and greater-than-equal compares integers
                at job.bcl:2:76 `'many'`

            borg.batch('x', cmd=['a']) { constraints: [borg.attribute('').preferred.equal({})] }
                constraints[0].attribute: must be the name of an attribute, such as 'gpu', is the string ''
                around job.bcl:2:44 `borg.attribute('').preferred.equal({})`
                constraints[0].value: must be a string or a whole number, such as 'H200' or 8, is an object
                around job.bcl:2:44 `borg.attribute('').preferred.equal({})`

            borg.batch('x', cmd=['a']) { constraints: [borg.attribute(7), borg.attribute(8).preferred] }
                constraints[0].attribute: must be the name of an attribute, such as 'gpu', is the number 7
                at job.bcl:2:59 `7`
                constraints[1].attribute: must be the name of an attribute, such as 'gpu', is the number 8
                at job.bcl:2:78 `8`

            local gpu(kind) = borg.attribute('gpu').equal(kind);
            borg.batch('x', cmd=['a']) { constraints+: [gpu('H200'), gpu([])] }
                constraints[1].value: must be a string or a whole number, such as 'H200' or 8, is a list
                at job.bcl:3:62 `[]`

            borg.batch('x', cmd=['a']) { constraints: [borg.attribute('a').equal('b') { soft: 1 }] }
                constraints[0].soft: must be true or false, is the number 1
                at job.bcl:2:77 `soft: 1`

            borg.batch('x', tasks=2, cmd=['a'], perTask=function(i) {
              constraints: [borg.attribute('rack').lessThan('r' + i)] })
                overrides["0"].constraints[0].value: 'r0' is not an integer, and less-than compares integers
                at job.bcl:3:49 `'r' + i`
                overrides["1"].constraints[0].value: 'r1' is not an integer, and less-than compares integers
                at job.bcl:3:49 `'r' + i`

        "#]],
    );
}

#[test]
fn errors_behind_locals_functions_and_imports_have_their_place() {
    let cases = [
        "local web(name) = borg.service(name, cmd=['a']) { cpu: -1 };\n[web('x'), web('Y')]",
        "local limits = { cpu: -1 };\nborg.service('x', cmd=['a']) + limits",
        "(import 'base.bcl').job",
        "local base = import 'base.bcl';\n{ name: 'x', cmd: ['a'] } + base.web { ram: 1 }",
        "(import 'base.bcl').api('x')",
        "[{ name: 'x' + i, cmd: ['a'], cpu: -1 } for i in [1, 2]]",
        "[{ name: 'x', cmd: ['a'] }] + [{ name: 'y', cmd: ['a'], cpu: -1 }]",
        "{ name: 'x', cmd: ['a'], env: if true then { '1': 'x' } else {} }",
    ];
    check(
        &cases,
        &expect![[r#"
            local web(name) = borg.service(name, cmd=['a']) { cpu: -1 };
            [web('x'), web('Y')]
                [0].cpu: must not be negative, is -1
                at job.bcl:2:51 `cpu: -1`
                [1].name: 'Y' is not a job name: use lower-case letters, digits and inner hyphens, for example 'y'
                at job.bcl:3:16 `'Y'`

            local limits = { cpu: -1 };
            borg.service('x', cmd=['a']) + limits
                cpu: must not be negative, is -1
                at job.bcl:2:18 `cpu: -1`

            (import 'base.bcl').job
                cpu: 'x' is not a number of cores, such as 0.1, '2' or '100m'
                at base.bcl:4:33 `cpu: 'x'`

            local base = import 'base.bcl';
            { name: 'x', cmd: ['a'] } + base.web { ram: 1 }
                cpu: 'x' is not a number of cores, such as 0.1, '2' or '100m'
                at base.bcl:2:11 `cpu: 'x'`

            (import 'base.bcl').api('x')
                cpu: 'x' is not a number of cores, such as 0.1, '2' or '100m'
                at base.bcl:3:40 `cpu: 'x'`

            [{ name: 'x' + i, cmd: ['a'], cpu: -1 } for i in [1, 2]]
                [0].cpu: must not be negative, is -1
                at job.bcl:2:31 `cpu: -1`

            [{ name: 'x', cmd: ['a'] }] + [{ name: 'y', cmd: ['a'], cpu: -1 }]
                [1].cpu: must not be negative, is -1
                at job.bcl:2:57 `cpu: -1`

            { name: 'x', cmd: ['a'], env: if true then { '1': 'x' } else {} }
                env["1"]: is not a variable's name: use letters, digits and underscores, and no digit first
                at job.bcl:2:46 `'1': 'x'`

        "#]],
    );
}

#[test]
fn an_uncertain_place_is_given_with_its_surroundings() {
    let cases = [
        "{ name: 'x', cmd: ['a'] } + (if std.length('x') == 1 then { cpu: -1 } else { cpu: -2 })",
        "{ name: 'x', cmd: ['a'], ['c' + 'pu']: -1 }",
        "{ name: 'x', cmd: ['a'] } + std.mergePatch({ cpu: 1 }, { cpu: -1 })",
        "{ name: 'x', cmd: ['a'], cpu: 1 } + { ['cpu']: -1 for i in [1] }",
        "{ name: 'x', cmd: ['a'], env: { ['1']: 'x' } }",
        "borg.service('x', cmd=['a']) { cmd+: std.map(function(x) {}, ['b']) }",
    ];
    check(
        &cases,
        &expect![[r#"
            { name: 'x', cmd: ['a'] } + (if std.length('x') == 1 then { cpu: -1 } else { cpu: -2 })
                cpu: must not be negative, is -1
                around job.bcl:2:30 `if std.length('x') == 1 then { cpu: -1 } else { cpu: -2 }`

            { name: 'x', cmd: ['a'], ['c' + 'pu']: -1 }
                cpu: must not be negative, is -1
                around job.bcl:2:1 `{ name: 'x', cmd: ['a'], ['c' + 'pu']: -1 }`

            { name: 'x', cmd: ['a'] } + std.mergePatch({ cpu: 1 }, { cpu: -1 })
                cpu: must not be negative, is -1
                around job.bcl:2:29 `std.mergePatch({ cpu: 1 }, { cpu: -1 })`

            { name: 'x', cmd: ['a'], cpu: 1 } + { ['cpu']: -1 for i in [1] }
                cpu: must not be negative, is -1
                around job.bcl:2:37 `{ ['cpu']: -1 for i in [1] }`

            { name: 'x', cmd: ['a'], env: { ['1']: 'x' } }
                env["1"]: is not a variable's name: use letters, digits and underscores, and no digit first
                at job.bcl:2:33 `['1']: 'x'`

            borg.service('x', cmd=['a']) { cmd+: std.map(function(x) {}, ['b']) }
                cmd[1]: must be a string, a number or a boolean, is an object
                around job.bcl:2:32 `cmd+: std.map(function(x) {}, ['b'])`

        "#]],
    );
}

#[test]
fn a_missing_field_is_missed_where_the_object_is() {
    let cases = [
        "[\n  { name: 'x', cmd: ['a'] },\n  { cmd: ['a'] },\n]",
        "borg.service('x', cmd=null)",
        "{ name: 'x', cmd: ['a'], healthCheck: {\n  path: '/' } }",
    ];
    check(
        &cases,
        &expect![[r#"
            [
              { name: 'x', cmd: ['a'] },
              { cmd: ['a'] },
            ]
                [1]: a job needs the field 'name', such as name: 'hello'
                at job.bcl:4:3 `{ cmd: ['a'] }`

            borg.service('x', cmd=null)
                a job needs the field 'cmd', such as cmd: ['bourg', 'example-server']
                at job.bcl:2:1 `borg.service('x', cmd=null)`

            { name: 'x', cmd: ['a'], healthCheck: {
              path: '/' } }
                healthCheck: a health check needs the field 'port', such as port: 'http'
                at job.bcl:2:26 `healthCheck: {`

        "#]],
    );
}

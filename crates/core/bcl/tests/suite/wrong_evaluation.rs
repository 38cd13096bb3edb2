//! Files that do not evaluate.

use expect_test::{Expect, expect};

use crate::{Files, says, settings, table, with_files};

fn check(cases: &[&str], expected: &Expect) {
    expected.assert_eq(&table(cases.iter().map(|source| (*source, (*source).to_owned())), &[]));
}

#[test]
fn invalid_jsonnet_is_refused() {
    let cases = [
        "",
        "{ name: 'x', cmd: ['a' }",
        "{ name: 'x\n}",
        "{ name: 'a', name: 'b' }",
        "local a = 1, a = 2; a",
        "{ name 'x' }",
        "borg.service('x', cmd=['a'])",
        "{ name: nme, cmd: ['a'] }",
        "self",
    ];
    check(
        &cases,
        &expect![[r#"

                unexpected end of file; expected a value
                at job.bcl:1:1 ``

            { name: 'x', cmd: ['a' }
                unexpected '}'; expected 'for', ',', ']' or an operator
                at job.bcl:1:24 `}`

            { name: 'x
            }
                unterminated string
                at job.bcl:1:9 `'x`

            { name: 'a', name: 'b' }
                the field 'name' is defined twice
                at job.bcl:1:14 `name`

            local a = 1, a = 2; a
                the variable 'a' is defined twice
                at job.bcl:1:14 `a`

            { name 'x' }
                unexpected string; expected ':'
                at job.bcl:1:8 `'x'`

            borg.service('x', cmd=['a'])
                there is no variable 'borg': begin the file with local borg = import 'borg.libsonnet';
                at job.bcl:1:1 `borg`

            { name: nme, cmd: ['a'] }
                there is no variable 'nme'
                at job.bcl:1:9 `nme`

            self
                'self' outside an object
                at job.bcl:1:1 `self`

        "#]],
    );
}

#[test]
fn a_binary_file_is_refused() {
    let elf = b"\x7fELF\x02\x01\x01\x00\x00\xff\xfe";
    expect![[r#"
        error: unexpected character '\u{7f}'
          --> job.bcl:1:1
           |
         1 | \u{7f}ELF\u{2}\u{1}\u{1}\0\0��
           | ^^^^^^
    "#]]
    .assert_eq(&says(elf));
    expect![[r#"
        error: this is not UTF-8 text
          --> job.bcl:1:9
           |
         1 | { name: � }
           |         ^
    "#]]
    .assert_eq(&says(b"{ name: \xff }"));
}

#[test]
fn evaluation_errors_are_reported() {
    let cases = [
        "{ name: error 'no name\\u001b[31m' }",
        "local n = 3;\nassert n < 3 : 'too many'; {}",
        "{ name: 'x', assert self.cmd != [] : 'no command', cmd: [] }",
        "{ name: 'x', ram: 1 / 0 }",
        "{ name: 'x' + null.y }",
        "{ cpu: 1 - 'x' }",
        "{ name: std.extVar('usr') }",
        "{ name: std.length(1) }",
        "local borg = import 'borg.libsonnet';\nborg.srevice('x', cmd=['a'])",
        "local borg = import 'borg.libsonnet';\nborg.service('x', task=2, cmd=['a'])",
        "local borg = import 'borg.libsonnet';\nborg.service('x')",
        "local borg = import 'borg.libsonnet';\nborg.service('x', cmd=5)",
        "local borg = import 'borg.libsonnet';\nborg.batch('x', cmd=['a'], perTask=function(i) { env: {} }) { env: { A: 1 } }",
        "local borg = import 'borg.libsonnet';\nborg.batch('x', cmd=['a'], perTask=function(i) { labels: {} }) { labels: { a: 1 } }",
        "local borg = import 'borg.libsonnet';\nborg.attribute('gpu').equals('H200')",
        "local borg = import 'borg.libsonnet';\nborg.attribute('gpu').equal",
        "local borg = import 'borg.libsonnet';\nborg.equal('gpu')",
    ];
    check(
        &cases,
        &expect![[r#"
            { name: error 'no name\u001b[31m' }
                no name\u{1b}[31m
                at job.bcl:1:9 `error 'no name\u001b[31m'`

            local n = 3;
            assert n < 3 : 'too many'; {}
                assertion failed: too many
                at job.bcl:2:1 `assert n < 3 : 'too many'`

            { name: 'x', assert self.cmd != [] : 'no command', cmd: [] }
                assertion failed: no command
                at job.bcl:1:14 `assert self.cmd != [] : 'no command'`

            { name: 'x', ram: 1 / 0 }
                division by zero
                at job.bcl:1:19 `1 / 0`

            { name: 'x' + null.y }
                only an object has fields
                at job.bcl:1:15 `null.y`

            { cpu: 1 - 'x' }
                '-' cannot be applied to a number and a string
                at job.bcl:1:8 `1 - 'x'`

            { name: std.extVar('usr') }
                there is no external variable 'usr': there are 'cell', 'user'
                at job.bcl:1:9 `std.extVar('usr')`

            { name: std.length(1) }
                argument 1 of std.length must be a string or a list or an object or a function, is a number
                at job.bcl:1:9 `std.length(1)`

            local borg = import 'borg.libsonnet';
            borg.srevice('x', cmd=['a'])
                there is no field 'srevice' here; the nearest name in the library is 'service'
                at job.bcl:2:1 `borg.srevice`

            local borg = import 'borg.libsonnet';
            borg.service('x', task=2, cmd=['a'])
                the function has no parameter 'task'; the nearest name in the library is 'tasks'
                at job.bcl:2:19 `task`

            local borg = import 'borg.libsonnet';
            borg.service('x')
                the function needs the parameter 'cmd'
                at job.bcl:2:1 `borg.service('x')`

            local borg = import 'borg.libsonnet';
            borg.service('x', cmd=5)
                cmd: must be a list of strings, such as ['bourg', 'example-server'], is the number 5
                at job.bcl:2:23 `5`

            local borg = import 'borg.libsonnet';
            borg.batch('x', cmd=['a'], perTask=function(i) { env: {} }) { env: { A: 1 } }
                assertion failed: perTask cannot remove variables, as it does with A: use env+: { ... }
                at job.bcl:2:50 `env: {}`
                from borg.libsonnet:174:7

            local borg = import 'borg.libsonnet';
            borg.batch('x', cmd=['a'], perTask=function(i) { labels: {} }) { labels: { a: 1 } }
                assertion failed: perTask cannot remove labels, as it does with a: use labels+: { ... }
                at job.bcl:2:50 `labels: {}`
                from borg.libsonnet:174:7

            local borg = import 'borg.libsonnet';
            borg.attribute('gpu').equals('H200')
                there is no field 'equals' here; the nearest name in the library is 'equal'
                at job.bcl:2:1 `borg.attribute('gpu').equals`

            local borg = import 'borg.libsonnet';
            borg.attribute('gpu').equal
                the function needs the parameter 'value'
                at job.bcl:2:1 `borg.attribute('gpu').equal`

            local borg = import 'borg.libsonnet';
            borg.equal('gpu')
                there is no field 'equal' here
                at job.bcl:2:1 `borg.equal`

        "#]],
    );
}

#[test]
fn endless_evaluation_is_refused() {
    let cases = [
        "local f(x) = f(x + 1) + 1;\n{ tasks: f(1) }",
        "{ a: self }",
        "{ tasks: self.tasks }",
        "local a = b, b = a; a",
        "{ name: 'x', cmd: std.foldl(function(a, i) [a], std.range(1, 100000), 1) }",
    ];
    check(
        &cases,
        &expect![[r#"
            local f(x) = f(x + 1) + 1;
            { tasks: f(1) }
                calls or values are nested more than 500 deep: does something call or contain itself?
                at job.bcl:1:14 `f(x + 1)`
                from job.bcl:2:10

            { a: self }
                calls or values are nested more than 500 deep: does something call or contain itself?
                at job.bcl:1:3 `a: self`

            { tasks: self.tasks }
                this value depends on itself
                at job.bcl:1:10 `self.tasks`

            local a = b, b = a; a
                this value depends on itself
                at job.bcl:1:18 `a`
                from job.bcl:1:11
                from job.bcl:1:21

            { name: 'x', cmd: std.foldl(function(a, i) [a], std.range(1, 100000), 1) }
                calls or values are nested more than 500 deep: does something call or contain itself?
                at job.bcl:1:14 `cmd: std.foldl(function(a, i) [a], std.range(1, 100000), 1)`

        "#]],
    );
}

#[test]
fn too_deep_nesting_is_refused() {
    for (open, close) in [("[", "]"), ("{a:", "}"), ("(", ")"), ("f(", ")"), ("local a = 1;", "")] {
        let says = says(open.repeat(100_000) + "1" + &close.repeat(100_000));
        assert!(says.starts_with("error: nested more than 250 deep\n  "), "{says}");
        assert!(says.len() < 700, "{says}");
    }
    let nested = "[".repeat(100) + &"]".repeat(100);
    let says = says(format!("{{ labels: {{ a: {nested} }} }}"));
    assert!(says.starts_with("error: the result is nested more than 32 deep\n"), "{says}");
}

#[test]
fn a_too_large_result_is_refused() {
    let cases = [
        "std.range(1, 200000)",
        "{ name: 'x', cmd: std.range(1, 2000000) }",
        "{ name: std.repeat('x', 20000000) }",
    ];
    check(
        &cases,
        &expect![[r#"
        std.range(1, 200000)
            200000 jobs, at most 1000 are allowed in one file
            at job.bcl:1:1 `std.range(1, 200000)`

        { name: 'x', cmd: std.range(1, 2000000) }
            the result has more than 1048576 values
            at job.bcl:1:1 `{ name: 'x', cmd: std.range(1, 2000000) }`

        { name: std.repeat('x', 20000000) }
            the result has more than 16777216 bytes of text
            at job.bcl:1:1 `{ name: std.repeat('x', 20000000) }`

    "#]],
    );
}

#[test]
fn a_result_that_is_no_job_is_refused() {
    let cases = ["1", "function(user) { name: user }", "[1]", "{}"];
    check(
        &cases,
        &expect![[r#"
            1
                a file must evaluate to a job (an object) or a list of jobs, this one evaluates to a number
                at job.bcl:1:1 `1`

            function(user) { name: user }
                the file is a function, and 'user' of it has no value; its parameter is user: give it with --var user=VALUE
                at job.bcl:1:1 `function(user) { name: user }`

            [1]
                [0]: must be a job, such as { name: 'hello', cmd: ['bourg', 'example-server'] }, is the number 1
                at job.bcl:1:2 `1`

            {}
                a job needs the field 'name', such as name: 'hello'
                at job.bcl:1:1 `{}`
                a job needs the field 'cmd', such as cmd: ['bourg', 'example-server']
                at job.bcl:1:1 `{}`

        "#]],
    );
    assert_eq!(with_files(b"[]", &[]), Ok(Vec::new()));
}

#[test]
fn failed_imports_are_reported() {
    let files = [
        ("lib.bcl", "{\n  name: 'x',\n  cmd: [1 + null],\n}"),
        ("bad.bcl", "{ name: }"),
        ("outer.bcl", "{ a: 1 } +\n  import 'bad.bcl'"),
        ("self.bcl", "import 'self.bcl'"),
    ];
    let cases = [
        "import 'borg.libsonet'",
        "import 'a' + 'b'",
        "\n(import 'lib.bcl') { cpu: 1 }",
        "\nimport 'bad.bcl'",
        "import 'outer.bcl'",
        "import 'self.bcl'",
    ];
    let cases = cases.map(|source| (source, source.to_owned()));
    expect![[r#"
        import 'borg.libsonet'
            cannot import 'borg.libsonet'
          tried 'borg.libsonet': no such file
          'borg.libsonnet' is built in; every other name is a file
            at job.bcl:1:1 `import 'borg.libsonet'`

        import 'a' + 'b'
            the path of an import must be a string literal
            at job.bcl:1:8 `'a' + 'b'`


        (import 'lib.bcl') { cpu: 1 }
            '+' cannot be applied to a number and null
            at lib.bcl:3:9 `1 + null`


        import 'bad.bcl'
            unexpected '}'; expected a value
            at bad.bcl:1:9 `}`
            from job.bcl:2:1

        import 'outer.bcl'
            unexpected '}'; expected a value
            at bad.bcl:1:9 `}`
            from outer.bcl:2:3

        import 'self.bcl'
            this value depends on itself
            at self.bcl:1:1 `import 'self.bcl'`
            from job.bcl:1:1

    "#]]
    .assert_eq(&table(cases, &files));
}

#[test]
fn imported_data_that_is_not_text_is_refused() {
    let mut files = Files::default();
    files.files.insert("data".to_owned(), vec![0xff]);
    let said = bcl::evaluate("job.bcl", b"importstr 'data'", &mut files, &settings());
    expect![[r#"
        error: cannot import 'data'
          tried 'data': it is not UTF-8 text
          'borg.libsonnet' is built in; every other name is a file
          --> job.bcl:1:1
           |
         1 | importstr 'data'
           | ^^^^^^^^^^^^^^^^
    "#]]
    .assert_eq(&said.expect_err("wrong").to_string());
}

#[test]
fn trace_messages_of_a_file_reach_the_loader() {
    let mut files = Files::default();
    let source = b"std.trace('hello', { name: 'x', cmd: ['a'] })";
    bcl::evaluate("job.bcl", source, &mut files, &settings()).expect("a job");
    assert_eq!(files.traced, ["hello"]);
}

#[test]
fn a_megabyte_is_not_printed() {
    let long = "x".repeat(1 << 20);
    for source in [
        format!("error '{long}'"),
        format!("{{ {long}: 1 }}"),
        format!("{{ name: '{long}' }}"),
        format!("{{ name: 'x', cmd: ['a'], env: {{ '{long}': '${{task.{long}}}' }} }}"),
        format!(
            "{{ name: 'x', cmd: ['a'], ram: '1 {long}', priority: '{long}', notice: '1{long}' }}"
        ),
        format!("{{ name: 'x', cmd: ['a'], overrides: {{ '{long}': {{}} }} }}"),
        format!("import '{long}'"),
        long.clone(),
        "\n\u{1b}]0;title\u{7}\u{202e}".repeat(1000),
    ] {
        let says = says(&source);
        assert!(says.len() < 8_000, "{} bytes", says.len());
        assert!(!says.chars().any(|c| c.is_control() && c != '\n'), "{says}");
    }
}

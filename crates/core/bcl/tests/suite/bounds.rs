//! Inputs just within the limits work on a thread's default stack.

use bcl::limits;

use crate::{job, jobs, says, with_files};

#[test]
fn a_file_of_the_maximum_nesting_is_read() {
    let deep = limits::NESTING_MAX as usize;
    for (open, close, levels) in [
        ("[", "]", 1),
        ("(", ")", 1),
        ("{ a: ", " }", 1),
        ("{ local a = ", ", b: a }", 1),
        ("local a = 1; ", "", 1),
        ("local a = ", "; a", 1),
        ("if true then 1 else ", "", 1),
        ("function(x) ", "", 1),
        ("assert true; ", "", 1),
        ("std.abs(", ")", 3),
        ("[1][", "]", 2),
        ("[", " for x in [1]]", 1),
    ] {
        // The hidden field is parsed and analysed; the visible fields are the job.
        let times = (deep - 10) / levels;
        let value = open.repeat(times) + "1" + &close.repeat(times);
        let source = format!("{{ name: 'x', cmd: ['a'], deep:: {value} }}");
        assert_eq!(jobs(&source).len(), 1, "{open}");
        // Errors are located by walking the same trees.
        let source = format!("{{ name: 'x', cmd: ['a'], env: {{ A: {value} }}, cpu: -1 }}");
        assert!(says(source).contains("error: "), "{open}");
        assert!(says(value).contains("error: "), "{open}");
    }
}

fn starts(says: &str) {
    assert!(says.starts_with("error: cpu: must not be negative"), "{says}");
}

#[test]
fn an_error_in_a_recursive_source_has_a_place() {
    let chain: String = (1..300).map(|n| format!("a{n} = a{}, ", n - 1)).collect();
    let source = format!("local a0 = {{ name: 'x', cmd: ['a'], cpu: -1 }}, {chain} b = 1; a299");
    starts(&says(source));
    let source =
        "local f(n) = if n == 0 then { name: 'x', cmd: ['a'], cpu: -1 } else f(n - 1); f(3)";
    starts(&says(source));
    let source =
        "local f(n) = f(n - 1) + f(n - 2); local a = a + a; { name: 'x', cmd: ['a'], cpu: -1 }
        + (if true then {} else f(1)) + (if true then {} else a)";
    starts(&says(source));
}

#[test]
fn large_files_are_read() {
    let labels: String = (0..60).map(|n| format!("l{n}: '{n}', ")).collect();
    let jobs: String = (0..limits::JOBS_MAX)
        .map(|n| format!("{{ name: 'job-{n}', cmd: ['a'], labels: {{ {labels} }} }},\n"))
        .collect();
    let all = with_files(format!("[{jobs}]").as_bytes(), &[]).expect("jobs");
    assert_eq!(all.len(), limits::JOBS_MAX);
    assert_eq!(all[999].labels.len(), 60);
    let many =
        job("borg.batch('x', tasks=2000, cmd=['a'], perTask=function(i) { cmd+: ['--seed', i] })");
    assert_eq!(many.overrides.len(), 2_000);
}

#[test]
fn files_that_are_too_large_are_refused() {
    let large = " ".repeat(limits::SOURCE_BYTES_MAX + 1);
    let says = says(large);
    assert_eq!(says, "error: the files together have more than 16777216 bytes\n");
}

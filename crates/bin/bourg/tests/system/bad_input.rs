//! Erroneous files, by accident or malicious: an error with its position, within seconds and in
//! bounded memory.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

use crate::terminal::Terminal;

/// The limits on time and memory of any evaluation.
const TIME_MAX: Duration = Duration::from_secs(10);
const MEMORY_KIB_MAX: i64 = 1 << 20;

/// Evaluates an erroneous file; returns the error.
#[track_caller]
fn wrong(terminal: &Terminal, file: &str) -> String {
    let begun = Instant::now();
    let said = terminal.fails(2, &format!("bourg eval {file}"));
    let took = begun.elapsed();
    assert!(took < TIME_MAX + Duration::from_secs(1), "{file} took {took:?}");
    let most = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the usage of children").max_rss();
    assert!(most < MEMORY_KIB_MAX, "{file}: a child had {most} KiB");
    assert!(said.len() < 10_000, "{} bytes are said about {file}", said.len());
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[test]
fn a_mistake_is_told_with_its_place_and_the_nearest_name() {
    let terminal = Terminal::new();
    let file = |what: &str| {
        let head = "local borg = import 'borg.libsonnet';\nborg.service('web', cmd=['sh'])\n";
        terminal.write("job.bcl", format!("{head}+ {{ {what} }}\n"));
        wrong(&terminal, "job.bcl")
    };
    for (what, expected) in [
        ("prioritie: 200", "3:5 the nearest is 'priority'"),
        ("cpu: '1 GiB'", "3:5 is not a number of cores"),
        ("cpu: self.nothing", "3:10 no field 'nothing' here"),
        ("ram: '64 MiBs'", "3:5 the nearest is 'MiB'"),
        ("ram: 'much'", "3:5 is not a number of bytes"),
        ("tasks: -1", "3:5 must not be negative"),
        ("tasks: 'three'", "3:5 must be a number of tasks"),
        ("priority: 1000", "3:5 from 0 to 450"),
        ("name: 'No Name'", "3:5 for example 'no-name'"),
        ("cmd: []", "3:5 name the program to run"),
        ("env: { 'A=B': 'x' }", "3:12 is not a variable's name"),
        ("overrides: { '7': { cpu: 1 } }", "3:18 there is no task 7"),
        ("healthCheck: { prot: 'http' }", "3:20 the nearest is 'port'"),
        ("appclass: 'batsh'", "3:5 the nearest is 'batch'"),
        ("restart: { failures: 'often' }", "3:16 'unlimited'"),
    ] {
        let said = file(what);
        let (place, text) = expected.split_once(' ').expect("a place and a text");
        assert!(said.contains(&format!("--> job.bcl:{place}\n")), "{what} is at {place}:\n{said}");
        assert!(said.contains(text), "{what}: {text} is not in\n{said}");
    }
    terminal.write("import.bcl", "import 'bogr.libsonnet'");
    let said = wrong(&terminal, "import.bcl");
    assert!(said.contains("import.bcl:1:") && said.contains("borg.libsonnet"), "{said}");
    terminal
        .write("call.bcl", "local borg = import 'borg.libsonnet';\nborg.servise('a', cmd=['b'])");
    let said = wrong(&terminal, "call.bcl");
    assert!(said.contains("call.bcl:2:") && said.contains("service"), "{said}");
}

#[test]
fn an_endless_evaluation_is_ended() {
    let terminal = Terminal::new();
    for (name, text) in [
        ("recursion", "local f(x) = f(x) + 1; f(1)"),
        ("tail", "local f(x) = f(x + 1) tailstrict; f(1)"),
        ("loop", "std.foldl(function(a, b) a + b, std.makeArray(4e9, function(i) i), 0)"),
        ("self", "{ a: self.b, b: self.a }.a"),
        ("import", "import 'import.bcl'"),
        ("giant", "std.range(1, 1e9)"),
        ("string", "std.repeat('x', 4e9)"),
        ("doubling", "local f(n) = if n == 0 then 'x' else f(n - 1) + f(n - 1); f(60)"),
        ("arrays", "local f(n) = if n == 0 then [1] else f(n - 1) + f(n - 1); f(40)"),
    ] {
        let file = format!("{name}.bcl");
        terminal.write(&file, text);
        let said = wrong(&terminal, &file);
        assert!(
            said.starts_with("error: ") || said.contains(": error: ") || said.contains(&file),
            "{said}"
        );
    }
}

#[test]
fn excessive_nesting_is_refused() {
    let terminal = Terminal::new();
    let many = 100_000;
    for (open, close) in [("[", "]"), ("{a:", "}"), ("(", ")"), ("-", ""), ("if true then ", "")] {
        let text = open.repeat(many) + "1" + &close.repeat(many);
        terminal.write("deep.bcl", text);
        wrong(&terminal, "deep.bcl");
    }
    terminal.write("deep.json", "[".repeat(many));
    wrong(&terminal, "deep.json");
    terminal.write("added.bcl", "1+".repeat(many) + "1");
    wrong(&terminal, "added.bcl");
}

#[test]
fn a_binary_job_file_is_refused() {
    let terminal = Terminal::new();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let random = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    });
    terminal.write("garbage.bcl", random.take(100_000).collect::<Vec<u8>>());
    wrong(&terminal, "garbage.bcl");
    terminal.write("nothing.bcl", "");
    wrong(&terminal, "nothing.bcl");
    terminal.write("escape.bcl", "error '\\u001b[31mred\\u0007'");
    let said = wrong(&terminal, "escape.bcl");
    assert!(!said.contains('\x1b') && !said.contains('\x07'), "{said:?} reaches the terminal");
    terminal.write("program.bcl", std::fs::read("/bin/sh").expect("a shell"));
    wrong(&terminal, "program.bcl");
}

#[test]
fn a_path_that_is_no_file_is_refused() {
    let terminal = Terminal::new();
    terminal.ok("mkfifo fifo && mkdir directory && touch secret && ln -s loop loop");
    let said = wrong(&terminal, "missing.bcl");
    assert!(said.contains("missing.bcl"), "{said}");
    for file in ["directory", "fifo", "loop", "/dev/zero", "/dev/full", "/proc/self/mem", "''"] {
        wrong(&terminal, file);
    }
    let said = terminal.fails(2, "bourg dev /dev/zero -- true");
    assert!(said.contains("/dev/zero"), "{said}");
}

/// A file from somebody else does not put into a job what only its reader can see.
#[test]
fn a_file_imports_what_is_beside_it_and_what_its_user_allows() {
    let terminal = Terminal::new();
    terminal.ok("mkdir -p jobs/parts lib && echo hidden > secret && ln -s ../secret jobs/link");
    terminal.write("lib/part.libsonnet", "{ LIB: 'yes' }");
    terminal.write("jobs/parts/part.libsonnet", "{ PART: 'yes' }");
    let job = |import: &str| {
        let text = format!(
            "(import 'borg.libsonnet').batch('x', cmd=['true']) {{ env: {{ GOT: std.toString({import}) }} }}"
        );
        terminal.write("jobs/job.bcl", text);
    };
    let secret = terminal.path("secret").display().to_string();
    for path in ["../secret", "link", &secret, "parts/../../secret"] {
        job(&format!("importstr '{path}'"));
        for command in ["eval jobs/job.bcl", "plan jobs/job.bcl", "run jobs/job.bcl"] {
            let said = terminal.fails(2, &format!("bourg {command}"));
            assert!(!said.contains("hidden"), "{said}");
            let says = "outside of jobs, the folder of the file: to allow it, name its folder with \
                        --library DIR, or pass --allow-imports";
            assert!(said.contains(says), "{said}");
        }
        let json = terminal.ok("bourg eval --allow-imports jobs/job.bcl");
        assert!(json.contains("hidden"), "{json}");
    }
    job("import 'parts/part.libsonnet'");
    assert!(terminal.ok("bourg eval jobs/job.bcl").contains("PART"));
    assert!(terminal.ok("cd jobs && bourg eval job.bcl").contains("PART"));
    job("import 'part.libsonnet'");
    terminal.fails(2, "bourg eval jobs/job.bcl");
    assert!(terminal.ok("bourg eval jobs/job.bcl --library lib").contains("LIB"));
    assert!(terminal.ok("cd jobs && bourg eval job.bcl --library ../lib").contains("LIB"));
}

#[test]
fn a_valid_file_is_printed_as_json() {
    let terminal = Terminal::new();
    let json = terminal.ok("bourg eval $EXAMPLES/overrides.bcl");
    assert!(json.contains(r#""name": "shards""#) && json.contains(r#""name": "index""#), "{json}");
    terminal.ok("bourg eval $EXAMPLES/overrides.bcl > canonical.json");
    assert_eq!(terminal.ok("bourg eval canonical.json"), json, "plain JSON works too");
    assert!(terminal.ok("bourg eval --print-library").contains("service(name, tasks=1"));
}

//! The library and the examples under another Jsonnet implementation: Debian's, the oldest in
//! common use.

use crate::terminal::Terminal;
use crate::tools::needs;

#[test]
fn debians_jsonnet_evaluates_every_example_to_the_same_jobs() {
    needs("jsonnet", "jsonnet");
    let terminal = Terminal::new();
    terminal.ok("bourg eval --print-library > borg.libsonnet");
    let examples = terminal.ok("ls $EXAMPLES");
    let examples: Vec<&str> = examples.lines().filter(|name| name.ends_with(".bcl")).collect();
    assert!(examples.len() >= 7, "{examples:?}");
    for name in examples {
        let ours = terminal.ok(&format!("bourg eval $EXAMPLES/{name}"));
        terminal.ok(&format!("jsonnet -J . $EXAMPLES/{name} > theirs.json"));
        assert_eq!(terminal.ok("bourg eval theirs.json"), ours, "{name}");
    }
}

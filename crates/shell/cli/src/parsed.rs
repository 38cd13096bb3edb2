//! Which command lines are valid.

use clap::{CommandFactory, Parser};

use crate::Command;

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[test]
fn the_commands_are_consistent() {
    Line::command().debug_assert();
}

#[test]
fn lines_are_parsed_or_rejected() {
    for (line, valid) in [
        ("run a.bcl b.bcl -", true),
        ("run a.bcl --var a=1 --var b= --var-file c.json", true),
        ("run a.bcl --var a", false),
        ("run a.bcl --var 1a=b", false),
        ("run --name pi --cpu 1 --ram 1GiB --tasks 8 --wait -- pi --digits 3", true),
        ("run --print --image web@1", true),
        ("run --tasks many -- pi", false),
        ("run a.bcl --yes", false),
        ("run a.bcl --prune app=shop --yes", true),
        ("run a.bcl --print --wait", false),
        ("run a.bcl --detach --keep-waiting", false),
        ("plan a.bcl b.bcl --prune app=shop --exit-code", true),
        ("plan", false),
        ("update a.bcl b.bcl --prune app=shop --yes", true),
        ("update status web", true),
        ("update", false),
        ("wait web api --for running --timeout 1m", true),
        ("wait web --for bored", false),
        ("wait", false),
        ("why", true),
        ("why -l app=shop", true),
        ("exec web/0 bash -l", true),
        ("exec web/0 -t bash", true),
        ("exec -it web/0 -- bash", true),
        ("port-forward web/0 8080:http :80 grpc --address 0.0.0.0", true),
        ("port-forward web/0", false),
        ("port-forward web/0 8080:", false),
        ("logs web --since 1h --tail 5", true),
        ("eval", false),
        ("eval a.bcl -", true),
    ] {
        let words = std::iter::once("bourg").chain(line.split(' '));
        let parsed = Line::try_parse_from(words);
        assert_eq!(parsed.is_ok(), valid, "{line}: {parsed:?}");
    }
    let words = ["bourg", "exec", "-t", "web/0", "sh", "-c", "x"];
    let parsed = Line::try_parse_from(words).expect("a command");
    let Command::Exec(args) = parsed.command else { panic!("exec") };
    assert!(format!("{args:?}").contains(r#"["sh", "-c", "x"]"#), "{args:?}");
}

//! What is refused: each with a message that says what to do, and nothing changes.

use api::v1;
use client::MasterClient;
use tonic::Code;

use super::{WEB, change, json, machines, settled, told, write_web};
use crate::cell::Cell;
use crate::eventually::until;
use crate::pages::Of;
use crate::security::{issued, to, wait};

#[test]
fn an_impossible_update_is_refused_and_changes_nothing() {
    let cell = Cell::start();
    let m = machines(&cell).remove(0);
    write_web(&cell, 2, "");
    cell.ok("bourg run web.bcl");
    cell.write("other.bcl", "(import 'web.bcl') + { name: 'wab' }");
    change(&cell, "after", "after: ['other']");
    change(&cell, "allocs", "allocs: {}, cmd: [], healthCheck: null");
    let (pids, before) = (cell.tasks(WEB), cell.status(WEB));
    let gone =
        "there is no job root/wab; the nearest is root/web\nnext: bourg run FILE submits a job\n";
    let table: &[(i32, &str, &str)] = &[
        (2, "update other.bcl", gone),
        (2, "resize wab 3", gone),
        (2, "update status wab", gone),
        (2, "update undo wab", gone),
        (2, "resize web 1000000000", "a job has at most 100000 tasks, not 1000000000"),
        (2, "resize web 4294967296", "4294967296"),
        (2, "resize web/0 3", "'web/0' names tasks: an update belongs to the whole job"),
        (2, "update undo web/0", "'web/0' names tasks: an update belongs to the whole job"),
        (
            2,
            "update status web",
            "root/web has not been updated\nnext: bourg update FILE opens an update\n",
        ),
        (3, "update resume web", "it has not been updated (bourg update FILE opens an update)"),
        (3, "update pause web", "it has not been updated (bourg update FILE opens an update)"),
        (3, "update undo web", "it has not been updated (bourg update FILE opens an update)"),
        (3, "update close web", "it has not been updated (bourg update FILE opens an update)"),
        (2, "update env.bcl --tasks 7", "the job has tasks 0 to 1 only"),
        (2, "update env.bcl --batch 0", "0"),
        (2, "update env.bcl --on-failure ignore", "'ignore' is neither undo nor pause"),
        (2, "update env.bcl --healthy-for soon", "soon"),
        (3, "update after.bcl", "after"),
        (3, "update allocs.bcl", "allocs"),
        (2, "update nix.bcl", "nix.bcl"),
        (2, "plan nix.bcl", "nix.bcl"),
        (2, "drain MACHINE --force", "--by <TIME>"),
        (2, "drain MACHINE --by 2020-01-01T00:00:00Z --detach", "in the past"),
        (2, "drain MACHINE --by yesterday", "'yesterday' is not a time"),
        (2, "drain nix --detach", "there is no machine nix"),
        (2, "undrain nix", "there is no machine nix"),
    ];
    let mut wrong = Vec::new();
    for (code, line, says) in table {
        let line = format!("bourg {}", line.replace("MACHINE", &m));
        let ended = cell.types(&line);
        if (ended.code, ended.stderr.contains(says)) != (*code, true) {
            wrong.push(format!("$ {line}\n{code} {says}\n{} {}", ended.code, ended.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let after = cell.status(WEB);
    assert_eq!(
        (&after["tasks"], &after["lastVersion"]),
        (&before["tasks"], &before["lastVersion"])
    );
    assert_eq!(cell.tasks(WEB), pids);
    assert_eq!(told(&cell, "UPDATE_OPEN"), [""; 0]);
    assert_eq!(cell.ok("bourg machines -o state"), "up\n");

    // Of updates in each state.
    cell.ok("bourg update env.bcl --healthy-for 100ms");
    for (action, says) in [
        ("resume", "it is not paused"),
        ("pause", "it has succeeded, and there is nothing to pause"),
    ] {
        let said = cell.fails(3, &format!("bourg update {action} web"));
        assert!(said.contains(says), "{action}: {said}");
    }
    cell.ok("bourg update close web");
    for action in ["undo", "close", "resume", "pause"] {
        let said = cell.fails(3, &format!("bourg update {action} web"));
        let says = "it is closed; open another update with the old description";
        assert!(said.contains(says), "{action}: {said}");
    }
    cell.ok("bourg update web.bcl --healthy-for 100ms && bourg update undo web");
    for action in ["undo", "close", "resume", "pause"] {
        let said = cell.fails(3, &format!("bourg update {action} web"));
        assert!(said.contains("it was undone by root"), "{action}: {said}");
    }
    cell.ok("bourg kill web");
    for line in ["update env.bcl", "resize web 5", "update undo web"] {
        let said = cell.fails(3, &format!("bourg {line}"));
        assert!(said.contains("has ended") && said.contains("bourg run"), "{line}: {said}");
    }
}

#[test]
fn an_update_based_on_an_old_version_changes_nothing() {
    let cell = Cell::start();
    write_web(&cell, 2, "update: { healthyFor: '100ms' }");
    cell.ok("bourg run web.bcl");
    // Planned.
    let seen = json(&cell.types("bourg plan env.bcl -o json"))["version"].as_u64();
    assert_eq!(seen, Some(1));
    cell.ok("bourg resize web 3");
    wait(async {
        let mut client = MasterClient::over(to(&cell, Of::Master, issued(&cell, "user/root")));
        let session = client.cell.open_session(v1::OpenSessionRequest {}).await.expect("a session");
        let session = session.into_inner().session;
        let id = |sequence| Some(v1::RequestId { session, sequence });
        let resize = v1::update_request::Resize { job: WEB.to_owned(), tasks: 4 };
        let change = Some(v1::update_request::Change::Resize(resize));
        let request = |sequence, expected| v1::UpdateRequest {
            id: id(sequence),
            change: change.clone(),
            expected: Some(expected),
            ..v1::UpdateRequest::default()
        };
        let refused = client.updates.open(request(1, 1)).await.expect_err("it is outdated");
        assert_eq!(refused.code(), Code::Aborted, "{refused}");
        let says = "root opened the update to version 2, which has succeeded";
        assert!(refused.message().contains(says), "{refused}");
        let undo = v1::ControlUpdateRequest {
            id: id(2),
            job: Some(v1::JobAddress { user: String::new(), job: WEB.to_owned() }),
            action: v1::UpdateAction::UndoUpdate.into(),
            expected: Some(1),
            to: None,
        };
        let refused = client.updates.control(undo).await.expect_err("it is outdated");
        assert_eq!(refused.code(), Code::Aborted, "{refused}");
        assert_eq!(cell.ok("bourg status web -o lastVersion"), "2\n");
        let done = client.updates.open(request(3, 2)).await.expect("it is the last").into_inner();
        assert_eq!((done.version, done.unchanged), (3, false));
    });
    settled(&cell, 4);
    until("it has succeeded", || cell.ok("bourg update status web -o state") == "succeeded\n");
}

/// Two people at once: the first is told what the other did.
#[track_caller]
fn is_told(cell: &Cell, line: &str, says: &str) {
    change(cell, "env", &format!("env: {{ MODE: '{}' }}", line.len()));
    let follows = cell.start("bourg", &["update", "env.bcl", "--healthy-for", "5m"]);
    until("it follows", || follows.stderr().contains("[     "));
    cell.job(WEB, "has changed one", |job| {
        let (counts, changing) = (&job["counts"], &job["update"]["changing"][0]["index"]);
        *changing == 0 && counts["healthy"] == counts["tasks"]
    });
    cell.ok(line);
    let ended = follows.ends();
    assert_eq!(ended.code, 7, "{line}: {ended:?}");
    assert!(ended.stderr.contains(says), "{line}: {ended:?}");
    assert!(ended.stderr.contains("\nnext: bourg "), "{line}: {ended:?}");
}

#[test]
fn a_followed_update_reports_a_pause_or_replacement_by_another_user() {
    let cell = Cell::start();
    write_web(&cell, 2, "");
    cell.ok("bourg run web.bcl");
    is_told(&cell, "bourg update pause web", "error: root/web: the update was paused by root\n");
    is_told(&cell, "bourg resize web 3 --detach", "another update followed that to version 3\n");
    is_told(&cell, "bourg kill web", "error: root/web: the job ended\n");
}

#[test]
fn a_followed_update_reports_an_undo_by_another_user() {
    let cell = Cell::start();
    write_web(&cell, 2, "");
    cell.ok("bourg run web.bcl");
    is_told(&cell, "bourg update undo web", "undone");
}

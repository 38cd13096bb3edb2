//! What a person does: signs in, looks from the cell down to a line of a log, watches values change, undoes
//! an update, types into a terminal, uses keys, looks into the past, and reads without scripts.

use super::browser::Browser;
use super::{link, scene, sign_in};
use crate::cell::Cell;
use crate::eventually::until;

const TALKS: &str = "(import 'borg.libsonnet').batch('talk', tasks=2, cmd=[
  'sh', '-c', 'i=0; while :; do i=$((i+1)); echo line $i end; sleep 0.2; done',
]) { cpu: 0.02, ram: '16 MiB', priority: 'free' }";

#[test]
fn a_link_signs_in_one_browser_and_its_pages_update_themselves() {
    let cell = Cell::start();
    cell.write("talk.bcl", TALKS);
    cell.ok("bourg run talk.bcl");
    let browser = Browser::start(&cell);

    // A link is for one browser.
    let used = link(&cell, None);
    browser.open(&used);
    browser.click("main button");
    browser.is_at("/");
    browser.forget();
    browser.open(&used);
    browser.shows("main", "This link has been used, or is older than five minutes.");
    browser.shows("main", "bourg sigma open");
    assert_eq!(browser.count("nav, form"), 0, "nothing of the cell is shown");
    let origin = sign_in(&browser, &cell, None);

    // From the cell to a line of a log, by clicking.
    browser.click("#part-facts a[href='/jobs']");
    browser.is_at("/jobs");
    browser.click("a[href='/jobs/~/talk']");
    browser.is_at("/jobs/~/talk");
    let running = "a.task.good";
    until("both tasks run", || browser.count(running) == 2);
    // The page is not loaded again while its values change.
    browser.run("window.mark = 'the same page'", Vec::new());
    cell.ok("bourg kill talk/1");
    until("one is killed", || browser.count(running) == 1 && browser.count("a.task.over") == 1);
    browser.shows("#part-tasks", "killed");
    browser.shows("#part-history", "KILL");
    let mark = browser.run("return window.mark", Vec::new());
    assert_eq!(mark, "the same page");
    browser.click("#part-tasks th a[href='/jobs/~/talk/0']");
    browser.is_at("/jobs/~/talk/0");
    browser.click_text("Logs");
    browser.is_at("/jobs/~/talk/0/logs");
    browser.shows("#log", "line 1 end");
    browser.click("#follow");
    browser.shows("#follow-says", "Following");
    let lines = || browser.text("#log").lines().count();
    let before = lines();
    until("new lines come", || lines() > before + 3);
    browser.click("#follow");
    browser.shows("#follow-says", "Stopped");

    // A page that is wrong says so, and leads on.
    browser.open(&format!("{origin}/jobs/~/nothing"));
    browser.shows("main h1", "Not found");
    browser.shows("main", "nothing");
    browser.open(&format!("{origin}/?at=soon"));
    browser.shows("main h1", "Not understood");
    let complaints = browser.complaints();
    let is_known = |one: &String| one.contains("status of 401") || one.contains("status of 40");
    assert!(complaints.iter().all(is_known), "{complaints:?}");

    // Signed out, nothing is shown.
    browser.open(&format!("{origin}/jobs"));
    browser.click(".menu summary");
    browser.click(".menu form button");
    browser.shows("main", "You have signed out.");
    browser.open(&format!("{origin}/jobs"));
    browser.shows("main", "You are not signed in.");
    assert!(!browser.text("body").contains("talk"));
}

#[test]
fn a_browser_undoes_updates_types_into_terminals_and_shows_the_past() {
    let cell = Cell::start();
    scene::run_web(&cell);
    let browser = Browser::start(&cell);
    let origin = sign_in(&browser, &cell, None);

    // Keys.
    browser.types("?");
    browser.is_at("/help");
    browser.types("/");
    until("the search has the focus", || {
        browser.run("return document.activeElement.id", Vec::new()) == "search"
    });
    browser.types("we");
    browser.enter();
    browser.is_at("/jobs?q=we");
    browser.shows("#part-jobs", "root/web");
    browser.types("j");
    until("a row is selected", || browser.count("tr.selected") == 1);
    browser.enter();
    browser.is_at("/jobs/~/web");
    browser.types("d");
    browser.is_at("/jobs/~/web/description");
    browser.shows("#part-bcl", "MODE: 'new'");
    browser.types("u");
    browser.is_at("/jobs/~/web");

    // The update.
    browser.shows("#part-update", "Update from version 1 to 2");
    browser.shows("#part-update", "succeeded");
    browser.click_text("Undo");
    browser.shows("p.notice.good", "The update of root/web to version 2 is being undone.");
    browser.shows("#part-update", "undone");
    browser.shows("#part-update", "4 of 4 tasks");
    assert!(cell.status("web")["spec"]["env"].is_null(), "it has the old description");
    browser.shows("#part-history", "UPDATE_UNDO");
    assert_eq!(browser.count("#part-update form"), 0, "there is nothing to do now");

    // A terminal, with a command that has to be interpreted to say this.
    browser.open(&format!("{origin}/jobs/~/web/0/terminal"));
    browser.click_text("Open a terminal");
    browser.says("#terminal-says", "Open");
    browser.types("echo answer-$((6 * 7))");
    browser.enter();
    browser.shows(".terminal .screen", "\nanswer-42");
    browser.types("exit 3");
    browser.enter();
    browser.shows("#terminal-says", "3");
    browser.shows("#terminal-form", "Open a terminal");

    // Without scripts pages can be read, and buttons work.
    browser.scripts(false);
    browser.open(&format!("{origin}/jobs/~/web"));
    let text = browser.text("main");
    for shown in ["root/web", "running", "Update from version 1 to 2", "Kill job"] {
        assert!(text.contains(shown), "{shown} is not in\n{text}");
    }
    let refresh = "return document.querySelector('noscript').innerHTML";
    assert!(browser.run(refresh, Vec::new()).to_string().contains("refresh"));
    browser.click_text("Kill job");
    browser.shows("p.notice.good", "root/web: 4 tasks killed.");
    browser.scripts(true);

    // The past: before the kill it runs.
    let killed = cell.job("web", "is killed", |job| job["state"] == "killed");
    assert_eq!(killed["counts"]["running"], 0);
    let events = cell.ok("bourg events web --all -o json");
    let undone = events.lines().find(|line| line.contains("updateUndone")).expect("it is told");
    let undone: serde_json::Value = serde_json::from_str(undone).expect("JSON");
    let index = undone["index"].as_str().expect("a number");
    browser.open(&format!("{origin}/jobs/~/web?at={index}"));
    browser.shows("p.past", &format!("The cell as it was at {index}, show it now"));
    browser.shows("#part-summary", "running");
    assert_eq!(browser.count("main form.action"), 0, "the past cannot be changed");
    assert_eq!(browser.text("#live"), "past");
    browser.click("#part-tasks th a");
    browser.is_at(&format!("/jobs/~/web/0?at={index}"));
    browser.shows("#part-summary", "running");
    browser.click(".past a");
    browser.is_at("/jobs/~/web/0");
    browser.shows("#part-summary", "killed");
    assert_eq!(browser.complaints(), [""; 0]);
}

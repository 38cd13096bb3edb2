//! Script injection: text that users choose, such as labels and log lines, is never run in a viewer's browser.

use super::browser::Browser;
use super::sign_in;
use crate::cell::Cell;
use crate::eventually::until;

const SCRIPT: &str = "<script>document.title=/owned/</script>";
const IMAGE: &str = "<img src=x onerror=document.title=/owned/>";
const ATTRIBUTE: &str = "\"'><svg/onload=document.title=/owned/>";
/// A key has no `=`.
const KEY: &str = "\"'><script>document.title</script>";

/// Labels, an environment, a command that cannot be run, and lines of a log that contain such text.
fn job() -> String {
    let labels = serde_json::json!({ "a": SCRIPT, "b": IMAGE, "c": ATTRIBUTE, KEY: "d" });
    let env = serde_json::json!({ "A": SCRIPT, "B": format!("{IMAGE}{ATTRIBUTE}") });
    let script = "printf '%s\\n' \"$A\" \"$B\" \"\\033[31m$B\\033[0m\"; exec sleep 100000";
    format!(
        "local borg = import 'borg.libsonnet';
         [
           borg.service('hostile', cmd=['sh', '-c', {script:?}]) {{
             cpu: 0.02, ram: '16 MiB', labels: {labels}, env: {env},
           }},
           borg.batch('ends', cmd=[{IMAGE:?}]) {{
             cpu: 0.02, ram: '16 MiB', priority: 'free', labels: {labels},
           }},
         ]"
    )
}

/// Opens a page, which shows texts and interprets none.
#[track_caller]
fn shows(browser: &Browser, address: &str, texts: &[&str]) {
    browser.open(address);
    for text in texts {
        browser.shows("main", text);
    }
    // Neither in the page as it was loaded nor in a part that has come since.
    until(&format!("{address} is live or still"), || {
        matches!(browser.text("#live").as_str(), "live" | "as of this request")
    });
    interprets_nothing(browser);
}

#[track_caller]
fn interprets_nothing(browser: &Browser) {
    let foreign = "main script, main img, [onload], [onerror]";
    assert_eq!(browser.count(foreign), 0, "{}", browser.place());
    let title = browser.run("return document.title", Vec::new());
    assert!(!title.to_string().contains("owned"), "{}", browser.place());
    assert_eq!(browser.complaints(), [""; 0], "{}", browser.place());
}

#[test]
fn text_of_users_is_shown_and_never_interpreted() {
    let cell = Cell::start();
    let machine = cell.ok("bourg machines -o name").trim().to_owned();
    cell.write("hostile.bcl", job());
    // One of the jobs cannot be started.
    cell.types("bourg run hostile.bcl --timeout 1s");
    cell.is_healthy("hostile");
    cell.job("ends", "has ended", |job| job.to_string().contains("onerror"));
    let browser = Browser::start(&cell);
    let origin = sign_in(&browser, &cell, None);
    let to = |place: &str| format!("{origin}{place}");
    for (place, texts) in [
        ("/jobs/~/hostile", &[SCRIPT, IMAGE, ATTRIBUTE, KEY][..]),
        ("/jobs/~/hostile/description", &[SCRIPT, IMAGE]),
        ("/jobs/~/hostile/0", &[SCRIPT, IMAGE, ATTRIBUTE]),
        ("/jobs/~/hostile/0/logs", &[SCRIPT, IMAGE, ATTRIBUTE]),
        ("/jobs/~/hostile/0/logs?grep=img", &[IMAGE]),
        ("/jobs/~/ends", &[IMAGE]),
        ("/jobs/~/ends/0", &[IMAGE]),
        ("/pending", &[]),
        ("/names/root", &[]),
    ] {
        shows(&browser, &to(place), texts);
    }
    // Lines that come while the log is followed.
    browser.open(&to("/jobs/~/hostile/0/logs"));
    browser.click("#follow");
    browser.says("#follow-says", "Following");
    browser.shows("#log", ATTRIBUTE);
    interprets_nothing(&browser);

    // What a task prints into a terminal, also as its title.
    browser.open(&to("/jobs/~/hostile/0/terminal"));
    browser.click_text("Open a terminal");
    browser.says("#terminal-says", "Open");
    browser.types("printf '\\033]0;%s\\007\\033[1m%s\\n' \"$B\" \"$B\"");
    browser.enter();
    browser.shows(".terminal .screen", &format!("\n{IMAGE}"));
    interprets_nothing(&browser);
    browser.click("#terminal-close");
    browser.says("#terminal-says", "Closed");

    // The reason of a drain, what was searched, and addresses.
    cell.write("reason", IMAGE);
    cell.ok(&format!("bourg drain {machine} --reason \"$(cat reason)\" --detach"));
    let typed = "%3Cimg%20src%3Dx%20onerror%3Ddocument.title%3D%2Fowned%2F%3E";
    shows(&browser, &to(&format!("/machines/{machine}")), &[IMAGE]);
    shows(&browser, &to("/events"), &[IMAGE]);
    shows(&browser, &to(&format!("/jobs?q={typed}")), &["No job matches"]);
    let field = "return document.querySelector('main input[name=q]').value";
    assert_eq!(browser.run(field, Vec::new()), IMAGE);
    shows(&browser, &to(&format!("/search?q={typed}")), &["No job matches"]);
    for place in [format!("/jobs/~/{typed}"), format!("/machines/{typed}"), format!("/?at={typed}")]
    {
        browser.open(&to(&place));
        browser.shows("main", IMAGE);
        assert_eq!(browser.count("main img"), 0, "{place}");
        // That there is no such page.
        let complaints = browser.complaints();
        assert!(complaints.iter().all(|one| one.contains("a status of 40")), "{complaints:?}");
    }
}

//! Users without rights, forms that no page of theirs has, other sites, and users who are revoked.

use serde_json::{Value, json};

use super::browser::Browser;
use super::{own, scene, sign_in};
use crate::cell::Cell;
use crate::eventually::until;

/// Sends a form as a script on a page of the same server would; returns the status and the text.
const SEND: &str = "
    const [path, fields, done] = arguments;
    fetch(path, { method: 'POST', body: new URLSearchParams(fields) })
      .then(async (answer) => done([answer.status, await answer.text()]), (error) => done([0, String(error)]));";
const CSRF: &str = "return document.querySelector('input[name=csrf]').value";

#[track_caller]
fn send(browser: &Browser, path: &str, fields: Value) -> (u64, String) {
    let answer = browser.run_to_its_end(SEND, vec![path.into(), fields]);
    (answer[0].as_u64().expect("a status"), answer[1].as_str().expect("a text").to_owned())
}

#[test]
fn unpermitted_users_see_no_buttons_and_revoked_users_see_no_pages() {
    let cell = Cell::start();
    scene::run_web(&cell);
    cell.ok("bourg user add ana --for 1h");
    let machine = cell.ok("bourg machines -o name").trim().to_owned();
    let before = cell.tasks("web");
    let browser = Browser::start(&cell);
    let origin = sign_in(&browser, &cell, Some("./ana"));
    let buttons = "main form.action, main a[data-key=s], main a[data-key=l]";
    for place in ["/jobs/~/web", "/jobs/~/web/0", &format!("/machines/{machine}")] {
        browser.open(&format!("{origin}{place}"));
        browser.shows("main", "running");
        assert_eq!(browser.count(buttons), 0, "{place}: {}", browser.text("main"));
    }
    browser.open(&format!("{origin}/jobs/~/web/0/terminal"));
    browser.shows("main", "ana may not run commands in root/web/0");
    browser.open(&format!("{origin}/jobs/~/web/0/logs"));
    browser.shows("main", "ana may not");

    // By hand, with her own token.
    browser.open(&format!("{origin}/jobs/~/web"));
    browser.shows("#part-tasks", "running");
    let csrf = browser.run(CSRF, Vec::new());
    let web = |what: &str, csrf: &Value| {
        json!({
            "csrf": csrf, "what": what, "user": "root", "job": "web", "task": "0", "version": "2",
            "machine": machine, "reason": "", "back": own("/jobs/~/web"),
        })
    };
    for what in ["kill-job", "undo-update", "drain-machine"] {
        let (status, text) = send(&browser, "/do", web(what, &csrf));
        let notice = text.split_once("class=\"notice bad\"").map_or("", |(_, rest)| rest);
        assert!(notice.contains("ana may not"), "{what} {status}: {text}");
    }
    let terminal = json!({
        "csrf": csrf, "user": "root", "job": "web", "index": "0", "command": "", "rows": "24", "columns": "80",
    });
    let (status, text) = send(&browser, "/terminal", terminal);
    assert_eq!(status, 403, "{text}");
    assert!(text.contains("ana may not run commands in"), "{text}");

    // A token of nobody, and none.
    for wrong in [json!("AAAA"), json!("")] {
        for path in ["/do", "/sign-out"] {
            let (status, text) = send(&browser, path, web("kill-job", &wrong));
            assert_eq!(status, 403, "{path}: {text}");
            assert!(text.contains("This form is not of your session: nothing was changed."));
        }
    }
    // Her token is of no use in the session of somebody who may.
    browser.forget();
    sign_in(&browser, &cell, None);
    let (status, _) = send(&browser, "/do", web("kill-job", &csrf));
    assert_eq!(status, 403);
    // Another site sends a form with everything in it.
    let own = browser.run(CSRF, Vec::new());
    let own = own.as_str().expect("a token");
    let field = |name: &str, value: &str| format!("<input name={name} value=\"{value}\">");
    let fields =
        [("csrf", own), ("what", "kill-job"), ("user", "root"), ("job", "web"), ("back", "/")];
    let fields: String = fields.iter().map(|(name, value)| field(name, value)).collect();
    let site = format!("<form method=post action={origin}/do>{fields}<button>Win</button></form>");
    cell.write("site.html", &site);
    browser.open(&format!("file://{}", cell.path("site.html").display()));
    browser.click("button");
    browser.shows("body", "another site sent this: open Sigma itself");
    assert_eq!(cell.tasks("web"), before, "nothing of all this has changed anything");
    assert!(!cell.ok("bourg machines -o state").contains("drain"));

    // Revoked, while a page is open.
    browser.forget();
    sign_in(&browser, &cell, Some("./ana"));
    browser.open(&format!("{origin}/jobs"));
    browser.shows("#part-jobs", "root/web");
    browser.shows("#live", "live");
    cell.ok("bourg user revoke ana");
    browser.shows("main h1", "Signed out");
    assert!(browser.text("body").contains("were revoked"), "{}", browser.text("body"));
    assert!(!browser.text("body").contains("root/web"), "nothing of the cell stays");
    assert_eq!(browser.run("return document.title", Vec::new()), "Signed out");
    browser.open(&format!("{origin}/jobs"));
    browser.shows("main", "You are not signed in.");
    until("no session is left", || !browser.text("body").contains("web"));
}

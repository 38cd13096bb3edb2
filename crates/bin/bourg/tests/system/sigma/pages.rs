//! Every page: accessible in both themes and at both widths, without complaints, and with requests to this
//! server alone. With `BOURG_SCREENSHOTS` set to a directory it writes pictures there
//! (`cargo xtask screenshots`).

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::browser::Browser;
use super::{scene, sign_in};
use crate::cell::Cell;

/// The checker of accessibility, and what it has to check: the rules of WCAG, levels A and AA. Only those
/// about colours can find more in another theme.
const AXE: &str = include_str!("axe/axe.min.js");
const CHECK: &str = "
    const [ofColours, done] = arguments;
    const rules = ofColours
      ? { type: 'rule', values: ['color-contrast', 'link-in-text-block'] }
      : { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] };
    axe.run(document, { runOnly: rules, resultTypes: ['violations'] }).then((found) => {
      done(found.violations.flatMap((rule) => rule.nodes.map((node) =>
        `${rule.id}: ${node.html.slice(0, 200)}: ${node.failureSummary}`)));
    }, (error) => done([String(error)]));";
/// What is wider than the page, and not in a box that scrolls.
const TOO_WIDE: &str = "
    const wide = document.documentElement.scrollWidth > innerWidth;
    const all = wide ? [...document.body.querySelectorAll('*')] : [];
    return all.filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll, pre'))
      .map((one) => one.outerHTML.slice(0, 200));";
const HEIGHT: &str = "return Math.ceil(document.documentElement.scrollHeight)";

const WIDE: u64 = 1280;
const PHONE: u64 = 390;
const LOW: u64 = 800;
/// A higher page is cut off in pictures.
const HIGH: u64 = 2_400;

/// The pages: the name of the picture, the address, what it shows, the command that gives the same data.
/// `MACHINE` is the name of a machine.
const PAGES: [(&str, &str, &str, &str); 23] = [
    ("cell", "/?of=ram&by=limit", "Resources by band", "bourg cell status"),
    ("jobs", "/jobs", "root/index", "bourg status"),
    ("job", "/jobs/~/web", "Update from version 1 to 2", "bourg status root/web -o wide"),
    ("description", "/jobs/~/web/description", "MODE: 'new'", "bourg status root/web -o json"),
    ("why", "/jobs/~/model/why", "CPU", "bourg why root/model --scores"),
    ("task", "/jobs/~/web/0", "Incarnations", "bourg status root/web/0 -o wide"),
    ("logs", "/jobs/~/index/0/logs", "shard 1 is read", "bourg logs root/index/0 -n 500"),
    ("terminal", "/jobs/~/web/0/terminal", "Open a terminal", "bourg exec -it root/web/0"),
    ("alloc-set", "/jobs/~/room", "root/saver", "bourg status root/room -o wide"),
    ("alloc", "/jobs/~/room/0", "root/saver/", "bourg status root/room/0 -o wide"),
    ("machines", "/machines", "MACHINE", "bourg machines -o wide"),
    ("machine", "/machines/MACHINE", "production", "bourg machine show MACHINE"),
    ("pending", "/pending", "root/model", "bourg why"),
    ("queue", "/queue", "Assumed runtime", "bourg queue -o wide"),
    ("users", "/users", "ana", "bourg user list"),
    ("user", "/users/ana", "mid", "bourg quota show ana"),
    ("names", "/names", "shop", "bourg bns list"),
    ("names-of", "/names/root", "web", ""),
    ("events", "/events", "SUBMIT", "bourg events --last 100"),
    ("help", "/help", "Keys", "bourg --help"),
    (
        "past",
        "/jobs/~/web?at=1s",
        "The cell as it was 1s ago",
        "bourg status root/web -o wide --at 1s",
    ),
    ("users-past", "/users/ana?at=1s", "mid", "bourg quota show ana --at 1s"),
    ("names-past", "/names/root?at=1s", "web", ""),
];

#[test]
fn every_page_is_accessible_has_no_complaints_and_asks_no_other_host() {
    let cell = Cell::start_with(&["--machines", "3", "--usage-history-interval", "1s"]);
    scene::run_all(&cell);
    let machines = cell.ok("bourg machines -o name");
    let machine = machines.lines().next().expect("a cell has machines");
    let pictures =
        std::env::var_os("BOURG_SCREENSHOTS").filter(|path| !path.is_empty()).map(PathBuf::from);
    let browser = Browser::start(&cell);
    let origin = sign_in(&browser, &cell, None);
    let mut wrong = Vec::new();
    for theme in ["light", "dark"] {
        browser.run("localStorage.setItem('theme', arguments[0])", vec![theme.into()]);
        for (name, place, shown, command) in PAGES {
            let place = place.replace("MACHINE", machine);
            browser.size(WIDE, LOW);
            browser.open(&format!("{origin}{place}"));
            browser.shows("body", &shown.replace("MACHINE", machine));
            let says = browser.text(".heading .says code");
            assert!(says.starts_with(&command.replace("MACHINE", machine)), "{place}: {says}");
            assert_ne!(says, "", "{place}");
            let theme_is = browser.run("return document.documentElement.dataset.theme", Vec::new());
            assert_eq!(theme_is, theme, "{place}");
            browser.run(AXE, Vec::new());
            let mut found = |what: &str, value: Value| {
                let all: Vec<String> = serde_json::from_value(value).expect("a list of texts");
                wrong.extend(all.iter().map(|one| format!("{place} ({theme}, {what}): {one}")));
            };
            found("wide", browser.run_to_its_end(CHECK, vec![(theme == "dark").into()]));
            picture(&browser, pictures.as_ref(), &format!("{name}-{theme}-{WIDE}"), WIDE);
            browser.size(PHONE, LOW);
            found("phone", browser.run(TOO_WIDE, Vec::new()));
            picture(&browser, pictures.as_ref(), &format!("{name}-{theme}-{PHONE}"), PHONE);
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    assert_eq!(browser.complaints(), [""; 0]);
    let asked = browser.asked();
    assert!(asked.len() > PAGES.len(), "it has asked only for {asked:?}");
    for address in asked {
        assert!(address.starts_with(&format!("{origin}/")), "{address} is of another host");
    }
}

/// Writes a picture of the whole page, if pictures are wanted, and of what a window shows of it.
fn picture(browser: &Browser, directory: Option<&PathBuf>, name: &str, width: u64) {
    let Some(directory) = directory else { return };
    fs::create_dir_all(directory).expect("a directory for pictures");
    let write = |name: String| {
        fs::write(directory.join(name), browser.picture()).expect("a picture can be written");
    };
    if width == WIDE {
        write(format!("{name}-window.png"));
    }
    let height = browser.run(HEIGHT, Vec::new()).as_u64().expect("a number");
    browser.size(width, height.clamp(LOW, HIGH));
    write(format!("{name}.png"));
}

//! What the pages are, and their keys.

use maud::html;

use super::{Page, Part};

const KEYS: [(&str, &str); 9] = [
    ("/ or :", "search: a job, a task such as ana/web/3, a machine, or a part of a name"),
    ("j k", "select the next or the previous row"),
    ("Enter", "open the selected row"),
    ("l", "the logs of the selected row, or of this page"),
    ("s", "a shell in the selected task, or in that of this page"),
    ("d", "the description of the selected job, or of this page's"),
    ("w", "why it is pending"),
    ("u", "up: the job of a task, the cell of a machine"),
    ("?", "this page"),
];

pub(super) fn page() -> Page {
    let keys = html! {
        h2 { "Keys" }
        div class="scroll" { table {
            thead { tr { th scope="col" { "Key" } th scope="col" { "Does" } } }
            tbody { @for (key, does) in KEYS { tr { td { kbd { (key) } } td { (does) } } } }
        } }
    };
    let pages = html! {
        h2 { "Pages" }
        p {
            "Every page has an address that can be shared, and shows the command that gives the same data. At the \
             bottom of each is the time: move the slider, or type a moment, and the page shows the cell as it was."
        }
        p {
            "Sigma has no rights of its own. It asks the cell as you, and shows the buttons that you may use. What you do is \
             recorded with your name, as from the command line."
        }
        p {
            "Colours of machines say how much of a resource is limit, reservation or usage. Production is judged by limits, \
             all else by reservations: what lies between a limit and its reservation is reclaimed, and batch jobs run in it."
        }
    };
    let parts = vec![Part::new("keys", keys), Part::new("pages", pages)];
    Page::live("Help", html! { h1 { "Help" } }, "bourg --help", parts).still()
}

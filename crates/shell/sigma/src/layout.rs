//! The document around a page.

use axum::http::StatusCode;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::{Span, Time};
use process::clock::wall_clock;

use crate::address::{Place, Query};
use crate::asker::PageClient;
use crate::page::{self, Page};
use crate::problem::Problem;
use crate::session::{Said, Session};
use crate::{assets, show};

const MINUTE: Span = Span::from_secs(60);
const DAY: Span = Span::from_secs(86_400);

/// The sections of the navigation, with their keys.
const SECTIONS: [(&str, Section); 7] = [
    ("Cell", Section::Cell),
    ("Jobs", Section::Jobs),
    ("Pending", Section::Pending),
    ("Machines", Section::Machines),
    ("Users", Section::Users),
    ("Names", Section::Names),
    ("Events", Section::Events),
];

/// A part of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Cell,
    Jobs,
    Pending,
    Machines,
    Users,
    Names,
    Events,
}

impl Section {
    fn of(place: &Place) -> Option<Self> {
        Some(match place {
            Place::Cell(_) => Self::Cell,
            Place::Jobs(_)
            | Place::Job { .. }
            | Place::Description { .. }
            | Place::Task { .. }
            | Place::Logs { .. }
            | Place::Terminal { .. } => Self::Jobs,
            Place::Pending | Place::Queue | Place::Why { .. } => Self::Pending,
            Place::Machines(_) | Place::Machine { .. } => Self::Machines,
            Place::Users | Place::User { .. } => Self::Users,
            Place::Names | Place::NamesOf { .. } => Self::Names,
            Place::Events(_) => Self::Events,
            Place::Help => return None,
        })
    }

    fn place(self) -> Place {
        match self {
            Self::Cell => Place::Cell(Query::default()),
            Self::Jobs => Place::Jobs(Query::default()),
            Self::Pending => Place::Pending,
            Self::Machines => Place::Machines(Query::default()),
            Self::Users => Place::Users,
            Self::Names => Place::Names,
            Self::Events => Place::Events(Query::default()),
        }
    }
}

/// A page, as a document.
pub(crate) fn document(
    cell: &str,
    asker: &PageClient,
    shown: &Page,
    said: Option<&Said>,
) -> Markup {
    let address = &asker.address;
    let is_live = shown.is_live && asker.at.is_none();
    let live = is_live.then(|| {
        let address = crate::address::encoded(&address.to_string());
        format!("/live?page={address}&have={}", page::have(&shown.parts))
    });
    let body = html! {
        (header(cell, asker))
        @if let Some(at) = &address.at {
            p class="notice past" role="status" {
                "The cell as it was " @if is_age(at) { strong { (at) " ago" } } @else { "at " strong { (at) } } ", "
                a href=(address.at(None)) { "show it now" }
            }
        }
        @if let Some(said) = said {
            p class=(if said.is_bad { "notice bad" } else { "notice good" }) role="status" { (said.text) }
        }
        p id="lost" class="notice bad" role="status" hidden { "No answer: what you see is not live. Connecting again …" }
        main id="main" tabindex="-1" data-live=[live] {
            header class="heading" {
                div class="title" { (shown.heading) }
                @if !shown.command.is_empty() { p class="says" { (show::command(&shown.command)) } }
            }
            @for part in &shown.parts {
                section id={ "part-" (part.id) } class=[part.class] { (PreEscaped(&part.html)) }
            }
        }
        (footer(asker, is_live))
    };
    shell(cell, &shown.title, &body, is_live)
}

/// Whether a moment is given as how long ago it was.
fn is_age(at: &str) -> bool {
    at.ends_with(|last: char| last.is_ascii_lowercase())
}

fn header(cell: &str, asker: &PageClient) -> Markup {
    let here = Section::of(&asker.address.place);
    html! {
        a class="skip" href="#main" { "Skip to the content" }
        header class="top" {
            a class="brand" href=(asker.to(Place::Cell(Query::default()))) { "Σ " (cell) }
            nav aria-label="Sections" {
                @for (name, section) in SECTIONS {
                    a href=(asker.to(section.place())) aria-current=[(here == Some(section)).then_some("page")] { (name) }
                }
            }
            form class="search" role="search" action="/search" {
                @if let Some(at) = &asker.address.at { input type="hidden" name="at" value=(at); }
                input type="search" name="q" id="search" placeholder="Search  /" autocomplete="off"
                    maxlength="200" aria-label="Search jobs, machines and users";
            }
            details class="menu" {
                summary { (asker.rights.user) }
                div {
                    a href=(asker.to(Place::User { name: asker.rights.user.clone() })) { "Quota and rights" }
                    a href="/help" { "Help and keys" }
                    button type="button" id="theme" hidden { "Dark or light" }
                    form method="post" action="/sign-out" {
                        input type="hidden" name="csrf" value=(asker.csrf);
                        button type="submit" { "Sign out" }
                    }
                }
            }
        }
    }
}

/// How many minutes the slider goes back: to the beginning of the cell, or a day if that is not known.
fn slider_minutes(beginning: Option<Time>, now: Time) -> i64 {
    let back = beginning.map_or(DAY, |beginning| now.since(beginning));
    i64::try_from(back.0 / MINUTE.0).unwrap_or(i64::MAX)
}

/// The time of the page, and how to go to another one.
fn footer(asker: &PageClient, is_live: bool) -> Markup {
    let address = &asker.address;
    let path = address.at(None);
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    html! {
        footer class="time" {
            form class="at" action=(path) {
                @for pair in query.split('&').filter(|pair| !pair.is_empty()) {
                    @let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    input type="hidden" name=(crate::address::decoded(name)) value=(crate::address::decoded(value));
                }
                label for="at" { "Time" }
                input type="range" id="slider" min=(-slider_minutes(asker.beginning, wall_clock())) max="0" step="1" value="0" hidden
                    aria-label="Minutes before now";
                input type="text" id="at" name="at" value=[address.at.as_deref()] maxlength="40"
                    placeholder="now, or 10m, or 2026-11-19 03:10";
                button type="submit" { "Show" }
                @for ago in ["10m", "1h", "1d"] { a href=(address.at(Some(ago))) { (ago) " ago" } }
                @if address.at.is_some() { a href=(address.at(None)) { "now" } }
            }
            p class="muted" {
                span id="live" class=[is_live.then_some("is-live")] {
                    @if is_live { "live" } @else if asker.at.is_some() { "past" } @else { "as of this request" }
                }
                " · " time datetime=(process::moment::rfc3339(asker.now)) { (show::exact(asker.now.0)) " UTC" }
            }
        }
    }
}

/// A document without a page: why there is none.
pub(crate) fn problem(cell: &str, session: &Session, problem: &Problem) -> Markup {
    let body = html! {
        header class="top" {
            a class="brand" href="/" { "Σ " (cell) }
            nav aria-label="Sections" {
                @for (name, section) in SECTIONS { a href=(section.place()) { (name) } }
            }
            span class="muted" { (session.user) }
        }
        main id="main" class="problem" {
            h1 { (heading(problem.status)) }
            p { (problem.what) }
            @if !problem.next.is_empty() { p { (problem.next) } }
            @if let Some(now) = &problem.now { p { a href=(now) { "Show this page as it is now" } } }
            p { a href="/" { "The cell" } " · " a href="/help" { "Help" } }
        }
    };
    shell(cell, heading(problem.status), &body, false)
}

fn heading(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::BAD_REQUEST => "Not understood",
        StatusCode::CONFLICT => "Not possible now",
        StatusCode::TOO_MANY_REQUESTS => "Too busy",
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY => "The cell does not answer",
        _ => "Something went wrong",
    }
}

/// For somebody who is not signed in.
pub(crate) fn signed_out(cell: &str, problem: &Problem) -> (StatusCode, Markup) {
    let body = html! {
        main id="main" class="card" {
            h1 { "Σ " (cell) }
            p { (problem.what) }
            p { "Sign in with a link that is for you alone and works once:" }
            p { (show::command("bourg sigma open")) }
            p class="muted" {
                "Or load your certificate of this cell into your browser, and open this page again."
            }
        }
    };
    (problem.status, shell(cell, "Sign in", &body, false))
}

/// Asks whether to sign in.
pub(crate) fn sign_in(cell: &str, user: &str, token: &str) -> Markup {
    let body = html! {
        main id="main" class="card" {
            h1 { "Σ " (cell) }
            p { "This link signs this browser in as " strong { (user) } ", once." }
            form method="post" action={ "/sign-in/" (crate::address::encoded(token)) } {
                button type="submit" class="primary" autofocus { "Sign in as " (user) }
            }
        }
    };
    shell(cell, "Sign in", &body, false)
}

/// Goes on to a page of this server. A redirect would not have the cookie if another site began it.
pub(crate) fn continue_to(cell: &str, to: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content={ "0; url=" (to) };
                title { "Σ " (cell) }
            }
            body { p { a href=(to) { "Continue" } } }
        }
    }
}

fn shell(cell: &str, title: &str, body: &Markup, is_live: bool) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · " (cell) }
                link rel="icon" href=(assets::address("icon.svg"));
                link rel="stylesheet" href=(assets::address("sigma.css"));
                link rel="stylesheet" href=(assets::address("charts.css"));
                link rel="stylesheet" href=(assets::address("terminal.css"));
                script src=(assets::address("sigma.js")) defer {}
                script src=(assets::address("map.js")) defer {}
                script src=(assets::address("terminal.js")) defer {}
                @if is_live { noscript { meta http-equiv="refresh" content="10"; } }
            }
            body { (body) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    #[test]
    fn an_age_is_told_from_a_moment() {
        for (at, expected) in [
            ("10m", true),
            ("1d", true),
            ("88412", false),
            ("2026-11-19 03:10", false),
            ("2026-11-19T03:10:00Z", false),
        ] {
            assert_eq!(is_age(at), expected, "{at}");
        }
    }

    #[test]
    fn the_slider_begins_with_the_cell() {
        let at = |minutes: u64| Time(minutes * MINUTE.0);
        for (beginning, now, minutes) in [
            (Some(at(100)), Time(at(103).0 + 1), 3),
            (Some(at(100)), Time(at(101).0 - 1), 0),
            (Some(at(100)), at(100 + 525_600), 525_600),
            (Some(at(100)), at(99), 0),
            (None, at(10_000), 1_440),
        ] {
            assert_eq!(slider_minutes(beginning, now), minutes, "{beginning:?} {now:?}");
        }
    }

    #[test]
    fn each_page_is_in_a_section() {
        for (text, section) in [
            ("/", Some(Section::Cell)),
            ("/jobs/ana/web/3/logs", Some(Section::Jobs)),
            ("/jobs/ana/web/why", Some(Section::Pending)),
            ("/machines/m1", Some(Section::Machines)),
            ("/help", None),
        ] {
            let place = Address::read(text).expect("a page").place;
            assert_eq!(Section::of(&place), section, "{text}");
        }
    }
}

//! Pieces that many pages have: facts, links, bars, the command that gives the same data.

use maud::{Markup, Render, html};
use present::amount::percent;

/// A link.
pub(crate) fn link(href: &str, text: &str) -> Markup {
    html! { a href=(href) { (text) } }
}

/// Names and values, one below the other.
pub(crate) fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, Markup)>) -> Markup {
    html! {
        dl class="facts" {
            @for (name, value) in facts { div { dt { (name) } dd { (value) } } }
        }
    }
}

/// What to run next, where there is nothing to show.
pub(crate) fn empty(what: &str, run: &str) -> Markup {
    html! {
        div class="empty" {
            p { (what) }
            @if !run.is_empty() { p { "Run " (command(run)) } }
        }
    }
}

/// A command that can be copied.
pub(crate) fn command(text: &str) -> Markup {
    html! {
        span class="command" {
            code { (text) }
            button type="button" class="copy" data-copy=(text) title="Copy" aria-label={ "Copy " (text) } {
                svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" {
                    path d="M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z" {}
                }
            }
        }
    }
}

/// How full something is, as a bar and in per cent.
pub(crate) fn bar(share: Option<i64>, what: &str) -> Markup {
    let text = percent(share);
    let width = share.unwrap_or_default().min(1_000);
    html! {
        span class="bar" title={ (what) ": " (text) } {
            svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
                rect class="bar-track" width="1000" height="10" {}
                rect class=(if share.is_some_and(|share| share > 1_000) { "bar-over" } else { "bar-part" })
                    width=(width.render()) height="10" {}
            }
            span class="num" { (text) }
        }
    }
}

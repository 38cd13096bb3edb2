//! What a page consists of.

use maud::Markup;

/// The digits that stand for the content of a part.
pub(crate) const DIGITS: usize = 8;

/// What a page shows.
#[derive(Debug)]
pub(crate) struct Page {
    /// For the tab of the browser.
    pub(crate) title: String,
    /// The heading with what does not change while the page is open.
    pub(crate) heading: Markup,
    /// The command that gives the same data; empty if there is none.
    pub(crate) command: String,
    /// What changes, from top to bottom.
    pub(crate) parts: Vec<Part>,
    /// Whether it is rendered again while it is open.
    pub(crate) is_live: bool,
}

/// A part of a page that is replaced as a whole when it changes.
#[derive(Debug)]
pub(crate) struct Part {
    /// Unique on the page.
    pub(crate) id: String,
    pub(crate) class: Option<&'static str>,
    pub(crate) html: String,
}

impl Part {
    pub(crate) fn new(id: impl Into<String>, html: Markup) -> Self {
        Self { id: id.into(), class: None, html: html.into_string() }
    }

    pub(crate) fn class(self, class: &'static str) -> Self {
        Self { class: Some(class), ..self }
    }
}

impl Page {
    /// A live page.
    pub(crate) fn live(
        title: impl Into<String>,
        heading: Markup,
        command: impl Into<String>,
        parts: Vec<Part>,
    ) -> Self {
        Self { title: title.into(), heading, command: command.into(), parts, is_live: true }
    }

    /// The same, but it stays as it is.
    pub(crate) fn still(self) -> Self {
        Self { is_live: false, ..self }
    }
}

/// What a browser has of the parts, in their order.
pub(crate) fn have(parts: &[Part]) -> String {
    parts.iter().map(digits).collect()
}

/// The digits of a part.
pub(crate) fn digits(part: &Part) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(part.id.as_bytes()).update(b"\0").update(part.html.as_bytes());
    hash.finalize().to_hex()[..DIGITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_a_part_changes_with_its_content() {
        let part =
            |id: &str, html: &str| Part::new(id.to_owned(), maud::PreEscaped(html.to_owned()));
        let had = have(&[part("a", "1"), part("b", "2")]);
        assert_eq!(had.len(), 2 * DIGITS);
        assert_eq!(have(&[part("a", "1"), part("b", "2")]), had);
        let other = have(&[part("a", "1"), part("b", "3")]);
        assert_eq!(other[..DIGITS], had[..DIGITS]);
        assert_ne!(other[DIGITS..], had[DIGITS..]);
    }
}

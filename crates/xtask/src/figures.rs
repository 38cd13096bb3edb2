//! Sections of `docs/figures.md` that commands write.
//!
//! A section is what stands between the lines `<!-- begin NAME -->` and `<!-- end NAME -->`.

use std::fs;

use anyhow::Context as _;

use crate::run::root;

/// The page.
pub(crate) const PAGE: &str = "docs/figures.md";

/// Replaces a section of the page.
///
/// # Errors
/// If the page cannot be read or written, or has no such section.
pub(crate) fn write(section: &str, text: &str) -> anyhow::Result<()> {
    let path = root().join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    let page = replaced(&page, section, text)
        .with_context(|| format!("{PAGE} has no section {section}"))?;
    fs::write(&path, page).with_context(|| format!("cannot write {PAGE}"))?;
    println!("written down in {PAGE}");
    Ok(())
}

fn replaced(page: &str, section: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(&format!("<!-- begin {section} -->\n"))?;
    let (_, after) = rest.split_once(&format!("<!-- end {section} -->\n"))?;
    let text = text.trim();
    Some(format!("{before}<!-- begin {section} -->\n{text}\n<!-- end {section} -->\n{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_between_its_lines() {
        let page = "a\n<!-- begin soak -->\nold\n<!-- end soak -->\nb\n";
        let expected = "a\n<!-- begin soak -->\nnew\n<!-- end soak -->\nb\n";
        assert_eq!(replaced(page, "soak", "new\n").as_deref(), Some(expected));
        assert_eq!(replaced(page, "faults", "new"), None);
    }

    #[test]
    fn the_page_has_the_sections_that_commands_write() {
        let page = fs::read_to_string(root().join(PAGE)).expect("the page");
        for section in [crate::campaign::SECTION, crate::faults::SECTION] {
            assert!(replaced(&page, section, "").is_some(), "{section}");
        }
    }
}

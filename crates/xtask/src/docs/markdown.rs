//! A partial Markdown parser: links, headings and tables.

#[cfg(test)]
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;

/// A Markdown file.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its path from the repository's root.
    pub(crate) path: PathBuf,
    /// Its content.
    pub(crate) text: String,
}

/// A link to something other than a web page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The line in which it ends, from 1.
    pub(crate) line: usize,
    /// The target, as written.
    pub(crate) target: String,
}

/// Every Markdown file of the repository, by path.
///
/// # Errors
/// If one of them cannot be read.
#[cfg(test)]
pub(crate) fn pages(root: &Path) -> anyhow::Result<Vec<Page>> {
    let mut pages = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let listed = fs::read_dir(root.join(&directory));
        let listed = listed.with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in listed {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            let name = entry.file_name();
            if entry.file_type()?.is_dir() {
                let left_out = ["target", ".git", "corpus", "artifacts"];
                let built = root.join(&path).join("CACHEDIR.TAG").exists();
                if !left_out.iter().any(|out| name == *out) && !built {
                    directories.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(Page::read(root, path)?);
            }
        }
    }
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(pages)
}

impl Page {
    /// Reads a file.
    ///
    /// # Errors
    /// If that fails.
    pub(crate) fn read(root: &Path, path: PathBuf) -> anyhow::Result<Self> {
        let text = fs::read_to_string(root.join(&path));
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { path, text })
    }

    /// The text with the lines of fenced blocks and comments replaced by empty ones.
    fn prose(&self) -> String {
        let mut fence: Option<String> = None;
        let mut prose = String::with_capacity(self.text.len());
        for line in self.text.lines() {
            let trimmed = line.trim_start();
            let ticks: String = trimmed.chars().take_while(|c| *c == '`').collect();
            match &fence {
                Some(open) => {
                    if trimmed.trim_end() == open {
                        fence = None;
                    }
                }
                None if ticks.len() >= 3 => fence = Some(ticks),
                None => prose.push_str(line),
            }
            prose.push('\n');
        }
        prose
    }

    /// The links of this page that do not lead to the web.
    pub(crate) fn links(&self) -> Vec<Link> {
        let text = without_code(&self.prose());
        let mut links = Vec::new();
        for (at, _) in text.match_indices("](") {
            let Some(end) = text[at..].find(')') else { continue };
            let target = text[at + 2..at + end].split_whitespace().next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                let line = text[..at].matches('\n').count() + 1;
                links.push(Link { line, target: target.to_owned() });
            }
        }
        links
    }

    /// The valid anchors of this page: one for each heading.
    #[cfg(test)]
    pub(crate) fn anchors(&self) -> BTreeSet<String> {
        let mut times: BTreeMap<String, u32> = BTreeMap::new();
        let mut anchors = BTreeSet::new();
        for line in self.prose().lines().filter(|line| line.starts_with('#')) {
            let heading = line.trim_start_matches('#');
            if !heading.starts_with(' ') {
                continue;
            }
            let slug = slug(heading.trim());
            let before = times.entry(slug.clone()).or_default();
            anchors.insert(match *before {
                0 => slug,
                number => format!("{slug}-{number}"),
            });
            *before += 1;
        }
        anchors
    }

    /// Lines of tables, with their numbers.
    #[cfg(test)]
    pub(crate) fn table_lines(&self) -> Vec<(usize, String)> {
        let prose = self.prose();
        let lines = (1..).zip(prose.lines()).filter(|(_, line)| line.trim_start().starts_with('|'));
        lines.map(|(number, line)| (number, line.to_owned())).collect()
    }

    /// The file and the anchor to which a link of this page leads; for a link within the page, the
    /// page's own path. `None` if it leads out of the repository.
    pub(crate) fn resolve(&self, target: &str) -> Option<(PathBuf, Option<String>)> {
        let (file, anchor) = match target.split_once('#') {
            Some((file, anchor)) => (file, Some(anchor.to_owned())),
            None => (target, None),
        };
        if file.is_empty() {
            return Some((self.path.clone(), anchor));
        }
        let from = self.path.parent().unwrap_or(Path::new(""));
        normal(&from.join(file)).map(|path| (path, anchor))
    }
}

/// A path from the root without `.` and `..`; `None` if it leads out of the root.
pub(crate) fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normal)
}

/// The anchor of a heading, as GitHub and mdBook generate it.
pub(crate) fn slug(heading: &str) -> String {
    let text = link_texts(heading);
    let kept = text.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_lowercase().to_string()),
        c if c.is_whitespace() => Some("-".to_owned()),
        _ => None,
    });
    kept.collect()
}

/// `[text](target)` becomes `text`.
fn link_texts(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    while let Some(middle) = rest.find("](") {
        let Some(end) = rest[middle..].find(')') else { break };
        text.push_str(&rest[..middle].replacen('[', "", 1));
        rest = &rest[middle + end + 1..];
    }
    text + rest
}

/// The text with the content of code spans blanked.
fn without_code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut blanked = bytes.to_vec();
    let run = |from: usize| bytes[from..].iter().take_while(|byte| **byte == b'`').count();
    let mut at = 0;
    while at < bytes.len() {
        let length = run(at);
        if length == 0 {
            at += 1;
            continue;
        }
        let begin = at + length;
        let mut next = begin;
        // A code span ends within its paragraph.
        let end = loop {
            if next >= bytes.len() || bytes[next..].starts_with(b"\n\n") {
                break None;
            }
            match run(next) {
                0 => next += 1,
                found if found == length => break Some(next),
                found => next += found,
            }
        };
        if let Some(end) = end {
            for byte in &mut blanked[begin..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end + length;
        } else {
            at = begin;
        }
    }
    String::from_utf8_lossy(&blanked).into_owned()
}

//! The book: the pages of `docs/`, and others that its table of contents names, built by mdBook.
//!
//! The pages are copied to `target/book/src` with their paths, so that links between them, and to
//! other files of the repository, stay valid.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use super::markdown::{Page, normal};
use crate::run::{cargo, root, succeed, succeeds};

/// The version of mdBook.
const MDBOOK: &str = "0.5.4";

/// The table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The first page of a directory: its name on GitHub and in mdBook.
const FRONT: &str = "README.md";
const INDEX: &str = "index.md";

/// Builds the book and checks every link in it.
///
/// # Errors
/// If a page or a link is missing, or mdBook cannot be installed or fails.
pub(crate) fn book() -> anyhow::Result<()> {
    let root = root();
    let mdbook = installed(&root)?;
    let place = root.join("target/book");
    if place.exists() {
        fs::remove_dir_all(&place).context("cannot remove the last book")?;
    }
    stage(&root, &place)?;
    succeed(Command::new(mdbook).arg("build").arg(&place))?;
    let html = place.join("html");
    let broken = broken_links(&html)?;
    ensure!(broken.is_empty(), "the book has links that lead nowhere:\n{}", broken.join("\n"));
    println!("the book is {}", html.join("index.html").display());
    Ok(())
}

/// The program, installed if necessary.
fn installed(root: &Path) -> anyhow::Result<PathBuf> {
    let tools = root.join("target/tools");
    let program = tools.join("bin/mdbook");
    if !succeeds(Command::new(&program).arg("--version")) {
        let mut install = cargo(&["install", "mdbook", "--version", MDBOOK, "--locked"]);
        install.args(["--no-default-features", "--features", "search", "--root"]).arg(&tools);
        succeed(install.arg("--target-dir").arg(tools.join("build")))?;
    }
    Ok(program)
}

/// The pages in the table of contents, from the repository's root.
///
/// # Errors
/// If it cannot be read, or names something outside the repository.
pub(crate) fn contents(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let summary = Page::read(root, PathBuf::from(SUMMARY))?;
    let pages = summary.links().into_iter().map(|link| {
        let (path, _) = summary.resolve(&link.target).with_context(|| link.target.clone())?;
        Ok(path)
    });
    pages.collect()
}

/// Copies the pages and the files that they link to, with their paths.
fn stage(root: &Path, place: &Path) -> anyhow::Result<()> {
    let source = place.join("src");
    fs::create_dir_all(&source)?;
    fs::copy(root.join("docs/book.toml"), place.join("book.toml"))?;
    let pages = contents(root)?;
    let mut files: BTreeSet<PathBuf> = pages.iter().cloned().collect();
    for path in &pages {
        let page = Page::read(root, path.clone())?;
        for link in page.links() {
            let (file, _) = page.resolve(&link.target).with_context(|| link.target.clone())?;
            files.insert(file);
        }
    }
    files.remove(Path::new(SUMMARY));
    for file in files {
        let to = source.join(shown_as(&file));
        fs::create_dir_all(to.parent().unwrap_or(&source))?;
        if file.extension().is_some_and(|extension| extension == "md") {
            let page = Page::read(root, file.clone())?;
            fs::write(to, relinked(&page, |target| target.replace(FRONT, INDEX)))?;
        } else {
            let copied = fs::copy(root.join(&file), to);
            copied.with_context(|| format!("cannot copy {}", file.display()))?;
        }
    }
    let summary = Page::read(root, PathBuf::from(SUMMARY))?;
    let from_root = |target: &str| {
        let (path, _) = summary.resolve(target).unwrap_or_default();
        shown_as(&path).display().to_string()
    };
    fs::write(source.join("SUMMARY.md"), relinked(&summary, from_root))?;
    // The front page links to the table of contents, which the book shows beside every page.
    let front = source.join(INDEX);
    let text = fs::read_to_string(&front)?;
    let text = text.replace("[docs/SUMMARY.md](docs/SUMMARY.md)", "the list beside this page");
    fs::write(front, text)?;
    Ok(())
}

/// The path of a file in the book: mdBook and GitHub use different names for the first page of a
/// directory.
fn shown_as(file: &Path) -> PathBuf {
    if file.ends_with(FRONT) { file.with_file_name(INDEX) } else { file.to_owned() }
}

/// The text of a page with its link targets mapped.
fn relinked(page: &Page, target: impl Fn(&str) -> String) -> String {
    let mut text = page.text.clone();
    let unique: BTreeSet<String> = page.links().into_iter().map(|link| link.target).collect();
    for from in unique {
        text = text.replace(&format!("]({from})"), &format!("]({})", target(&from)));
    }
    text
}

/// The links in the book to missing files or anchors.
fn broken_links(html: &Path) -> anyhow::Result<Vec<String>> {
    let mut broken = Vec::new();
    let mut checked = 0;
    for path in files(html)?.iter().filter(|path| path.extension().is_some_and(|e| e == "html")) {
        let from = path.strip_prefix(html)?;
        // It repeats the links of all pages from another location.
        if ["print.html", "toc.html", "404.html"].iter().any(|name| from == Path::new(name)) {
            continue;
        }
        let text = fs::read_to_string(path)?;
        for target in text.split(" href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            if target.contains("://") || target.starts_with("mailto:") || target.is_empty() {
                continue;
            }
            checked += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = match file {
                "" => Some(from.to_owned()),
                file => normal(&from.parent().unwrap_or(Path::new("")).join(file)),
            };
            let Some(to) = to else {
                bail!("{}: {target} leads out of the book", from.display());
            };
            let to = if file.ends_with('/') || file == "." { to.join("index.html") } else { to };
            let there = html.join(&to);
            let has_anchor = || {
                let text = fs::read_to_string(&there).unwrap_or_default();
                anchor.is_empty() || text.contains(&format!("id=\"{anchor}\""))
            };
            if !there.is_file() || !has_anchor() {
                broken.push(format!("{}: {target}", from.display()));
            }
        }
    }
    ensure!(checked > 100, "only {checked} links were found in the book");
    broken.sort();
    broken.dedup();
    Ok(broken)
}

fn files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() { directories.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

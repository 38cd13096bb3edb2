//! `bourg checkpoint edit`: edits a checkpoint as text and validates the result.

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ::checkpoint;
use anyhow::{Context, bail};
use cell::{Cell, Image};
use command::{Done, Failure};
use formats::image::{read_image_json, write_image_json};

use super::{EditArgs, sound, unusable};

/// The maximum number of backups of one checkpoint.
const BACKUPS_MAX: u32 = 1_000;

pub(super) fn edit(args: &EditArgs) -> Done {
    let (image, origin) = checkpoint::read_image(&args.file).map_err(|error| unusable(&error))?;
    // For a symbolic link, the backup and the new file go beside its target.
    let file = fs::canonicalize(&args.file).map_err(|error| unusable(&error.into()))?;
    let text = match &args.from {
        Some(text) => text.clone(),
        None => in_editor(&file, &image)?,
    };
    let taken = take(&text, &image, args.force);
    let cell = match (taken, &args.from) {
        (Ok(Some(cell)), _) => cell,
        (Ok(None), from) => {
            if from.is_none() {
                remove(&text);
            }
            eprintln!("nothing was changed");
            return Ok(());
        }
        (Err(failure), Some(_)) => return Err(failure),
        // Preserve the user's edits.
        (Err(failure), None) => {
            let (file, text) = (args.file.display(), text.display());
            let insists = if args.force { "" } else { " [--force]" };
            return Err(failure.next(format!(
                "correct {text}, then: bourg checkpoint edit {file} --from {text}{insists}"
            )));
        }
    };
    let former = keep_former(&file)?;
    if let Err(error) = checkpoint::write_as(&file, &cell.image(), origin) {
        remove(&former);
        return Err(error.into());
    }
    if args.from.is_none() {
        remove(&text);
    }
    let (file, former, hash) =
        (args.file.display(), former.display(), formats::image::state_hash(&cell).short());
    eprintln!("{file}: state {hash}; the previous version is {former}");
    Ok(())
}

/// Reads a cell from an edited text; `None` if it equals `before`.
fn take(text: &Path, before: &Image, force: bool) -> Result<Option<Cell>, Failure> {
    let shown = text.display();
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("error: {shown}: {why}; nothing was changed"))
    };
    let read = File::open(text).map_err(|error| wrong(&format!("cannot read it: {error}")))?;
    let image = read_image_json(BufReader::new(read)).map_err(|error| wrong(&error))?;
    if image == *before {
        return Ok(None);
    }
    let cell =
        Cell::from_image(image).map_err(|error| wrong(&format!("not a valid cell: {error}")))?;
    sound(&cell, text, force)?;
    Ok(Some(cell))
}

/// Writes the text to a file beside the checkpoint and opens it in an editor.
fn in_editor(file: &Path, image: &Image) -> Result<PathBuf, Failure> {
    let set = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).ok_or_else(|| {
        let text = "error: no editor is configured: neither VISUAL nor EDITOR is set";
        Failure::usage(text).next("set one of them, or pass an edited text with --from")
    })?;
    let text = beside(file, ".edit.jsonl");
    // The file contains the data of every user: only the owner may read it.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&text);
    let made = made.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let text = text.display();
            Failure::usage(format!(
                "error: {text} exists: it is left from an edit that was not applied"
            ))
            .next("apply it with --from, or remove it")
        }
        _ => Failure::failed(format!("error: cannot create {}: {error}", text.display())),
    })?;
    match written_and_edited(&text, made, image, &editor) {
        Ok(()) => Ok(text),
        Err(error) => {
            remove(&text);
            Err(error.into())
        }
    }
}

fn written_and_edited(text: &Path, made: File, image: &Image, editor: &str) -> anyhow::Result<()> {
    let mut out = BufWriter::new(made);
    write_image_json(image, &mut out)
        .and_then(|()| out.flush())
        .with_context(|| format!("cannot write {}", text.display()))?;
    // The variable is a shell command line, such as `code --wait`.
    let status = std::process::Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(text)
        .status()
        .context("cannot run a shell")?;
    if !status.success() {
        bail!("the editor ({editor}) ended with {status}; nothing was changed");
    }
    Ok(())
}

/// Links the current checkpoint under the first free backup name.
fn keep_former(file: &Path) -> anyhow::Result<PathBuf> {
    for number in 1..=BACKUPS_MAX {
        let number = if number == 1 { String::new() } else { number.to_string() };
        let former = beside(file, &format!(".bak{number}"));
        match fs::hard_link(file, &former) {
            Ok(()) => return Ok(former),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                let (file, former) = (file.display(), former.display());
                bail!("cannot back up {file} as {former}: {error}; nothing was changed");
            }
        }
    }
    bail!("{} has {BACKUPS_MAX} backups already: remove some", file.display())
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn remove(file: &Path) {
    let _gone = fs::remove_file(file);
}

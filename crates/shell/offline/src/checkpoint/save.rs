//! `bourg checkpoint save`: writes the chunks that the master streams into a file.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use ::checkpoint::{Origin, Writing};
use api::v1;
use api::v1::save_checkpoint_response::{Head, Piece};
use client::Target;
use command::{Done, Failure, with_cell};
use formats::image::StateHasher;
use model::{LogIndex, RestoreEpoch, Term, Time};
use store::checkpoint::CheckpointReader;

use process::moment::{self, Moment};

pub(super) fn save(cell: Target<'_>, file: &Path, at: Option<Moment>) -> Done {
    may_be_replaced(file)?;
    with_cell(cell, async |mut connection| {
        let request = v1::SaveCheckpointRequest { at: at.map(Moment::message) };
        let mut pieces = connection
            .stream(request, async |mut client, request| {
                client.history.save_checkpoint(request).await
            })
            .await?;
        let mut begun: Option<(Writing, Head)> = None;
        let mut hasher = StateHasher::default();
        while let Some(message) = pieces.message().await? {
            match (message.piece, &mut begun) {
                (Some(Piece::Head(head)), None) => begun = Some((begin(file, &head)?, head)),
                (Some(Piece::Image(bytes)), Some((writing, _))) => {
                    hasher.update(&bytes);
                    writing.piece(&bytes).map_err(cannot_write)?;
                }
                (Some(Piece::StateHash(expected)), Some(_)) => {
                    let hash = hasher.finish();
                    if hash.to_string() != expected {
                        let text = "error: the received data is corrupt: nothing was saved";
                        return Err(Failure::failed(text).next("try again"));
                    }
                    if let Some((writing, head)) = begun {
                        writing.finish().map_err(cannot_write)?;
                        say(file, &head, &hash.short());
                    }
                    return Ok(());
                }
                (piece, _) => {
                    let what = piece.map_or("an unknown chunk", |_| "a chunk out of order");
                    return Err(Failure::failed(format!(
                        "error: the master sent {what}: nothing was saved"
                    ))
                    .next("use the bourg version of the master"));
                }
            }
        }
        let text = "error: the master closed the stream early: nothing was saved";
        Err(Failure::failed(text).next("try again"))
    })
}

/// Refuses to overwrite a file that is not a checkpoint.
fn may_be_replaced(file: &Path) -> Done {
    let shown = file.display();
    match fs::symlink_metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
            match parent {
                Some(parent) if !parent.is_dir() => {
                    let parent = parent.display();
                    Err(Failure::usage(format!("error: no directory {parent}")))
                }
                _ => Ok(()),
            }
        }
        Err(error) => Err(Failure::usage(format!("error: cannot read {shown}: {error}"))),
        Ok(found) if found.is_file() && CheckpointReader::open(file).is_ok() => Ok(()),
        Ok(_) => {
            let text = format!("error: {shown} exists and is not a checkpoint");
            Err(Failure::usage(text).next("choose another name, or remove it"))
        }
    }
}

fn begin(file: &Path, head: &Head) -> Result<Writing, Failure> {
    let (counter, random) = (head.restore_epoch, head.restore_random);
    let restore_epoch = RestoreEpoch { counter, random };
    let origin = Origin { term: Term(head.term), restore_epoch };
    Writing::begin_as(file, (LogIndex(head.index), Time(head.time)), origin).map_err(cannot_write)
}

#[expect(clippy::needless_pass_by_value, reason = "map_err passes it by value")]
fn cannot_write(error: store::Error) -> Failure {
    Failure::failed(format!("error: nothing was saved: {error}"))
}

fn say(file: &Path, head: &Head, hash: &str) {
    let (file, time) = (file.display(), moment::shown(Time(head.time)));
    let Head { index, name, .. } = head;
    eprintln!("{file}: cell {name} as of index {index}, {time}, state {hash}");
}

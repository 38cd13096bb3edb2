//! Marks of volumes: whether a directory is the one that a task had, or another.
//!
//! A Borglet marks the directory of a volume before the first task starts with it. An order says what is
//! known of the directory, and a start with another one is lost: a disk that is not mounted would
//! otherwise look like an empty volume, and a directory that is given again would show one user's data to
//! another.

use std::fmt;
use std::str::FromStr;

use model::{
    CellName, CollectionId, Generation, InstanceId, TaskIndex, UserName, VolumeContent, VolumeMark,
    VolumeName,
};
use thiserror::Error;

/// The first word of a mark, with the version of its form.
const FORM: &str = "bourg-volume-1";
/// In place of an owner: it is shared by all users.
const ALL_USERS: &str = "-";

/// What the directory of a volume says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryMark {
    /// The cell.
    pub cell: CellName,
    /// The volume's name.
    pub volume: VolumeName,
    /// The task that was placed first since the volume has its data.
    pub first: InstanceId,
    /// Whose data is in it; `None`: it is shared by all users.
    pub owner: Option<UserName>,
}

/// Not a mark of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it is not a mark of a volume")]
pub struct NotAMark;

/// `bourg-volume-1 lab data 7 0 1 ana`.
impl fmt::Display for DirectoryMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cell, volume, first, owner } = self;
        let owner = owner.as_ref().map_or(ALL_USERS, |owner| owner.as_str());
        let InstanceId { collection, index, generation } = first;
        let (collection, index, generation) = (collection.0, index.0, generation.0);
        write!(f, "{FORM} {cell} {volume} {collection} {index} {generation} {owner}")
    }
}

impl FromStr for DirectoryMark {
    type Err = NotAMark;

    fn from_str(text: &str) -> Result<Self, NotAMark> {
        let words: Vec<_> = text.split(' ').collect();
        let [FORM, cell, volume, collection, index, generation, owner] = words[..] else {
            return Err(NotAMark);
        };
        let first = InstanceId {
            collection: CollectionId(collection.parse().map_err(|_| NotAMark)?),
            index: TaskIndex(index.parse().map_err(|_| NotAMark)?),
            generation: Generation(generation.parse().map_err(|_| NotAMark)?),
        };
        let owner = match owner {
            ALL_USERS => None,
            owner => Some(owner.parse().map_err(|_| NotAMark)?),
        };
        let (cell, volume) = (cell.parse(), volume.parse());
        let (cell, volume) = (cell.map_err(|_| NotAMark)?, volume.map_err(|_| NotAMark)?);
        Ok(Self { cell, volume, first, owner })
    }
}

/// What was found of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDirectory {
    /// Its mark, if it has one; an error if no Borglet wrote it.
    pub mark: Option<Result<DirectoryMark, NotAMark>>,
    /// Whether nothing is in it.
    pub is_empty: bool,
    /// Whether nothing can be written there, by nobody.
    pub is_read_only: bool,
}

/// The directory is not to be shown to the task.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WrongDirectory {
    /// It has no mark, although a task has run with it.
    #[error(
        "it is not the directory that the task had before, for it has no mark of that: its disk may not be mounted"
    )]
    Unmarked,
    /// It has the mark of another volume.
    #[error("it is not the directory that the task had before: {}", other(.0))]
    Another(Option<DirectoryMark>),
    /// It has data of another user or another cell.
    #[error("it is not empty, and {}", other(.0))]
    DataOfOthers(Option<DirectoryMark>),
}

fn other(mark: &Option<DirectoryMark>) -> String {
    match mark {
        None => "it has a mark that is not known".to_owned(),
        Some(DirectoryMark { cell, volume, owner, .. }) => {
            let whose = owner.as_ref().map_or("all users", |owner| owner.as_str());
            format!("it has the data of {whose}, of the volume {volume} of the cell {cell}")
        }
    }
}

/// Whether a task may have a directory as its volume; and the mark that it gets first, if it has not that
/// already.
///
/// # Errors
/// If it is not what the order expects.
pub fn judge_directory(
    cell: &CellName,
    volume: &VolumeName,
    expected: &VolumeMark,
    read_only: bool,
    found: &FoundDirectory,
) -> Result<Option<DirectoryMark>, WrongDirectory> {
    let VolumeMark { first, owner, content } = expected.clone();
    let new = DirectoryMark { cell: cell.clone(), volume: volume.clone(), first, owner };
    let is_same = |mark: &DirectoryMark| (&mark.cell, mark.first) == (cell, first);
    let is_of_owner = |mark: &DirectoryMark| {
        mark.cell == *cell && (mark.owner.is_none() || mark.owner == new.owner)
    };
    // Nothing is lost where nothing can be written.
    let only_reads = read_only && found.is_read_only;
    match (content, &found.mark) {
        (VolumeContent::Known, None) if !only_reads => return Err(WrongDirectory::Unmarked),
        (VolumeContent::Known, Some(Err(NotAMark))) => return Err(WrongDirectory::Another(None)),
        (VolumeContent::Known, Some(Ok(mark))) if !is_same(mark) => {
            return Err(WrongDirectory::Another(Some(mark.clone())));
        }
        (VolumeContent::Unknown, Some(Err(NotAMark))) if !found.is_empty => {
            return Err(WrongDirectory::DataOfOthers(None));
        }
        (VolumeContent::Unknown, Some(Ok(mark))) if !is_of_owner(mark) && !found.is_empty => {
            return Err(WrongDirectory::DataOfOthers(Some(mark.clone())));
        }
        _ => {}
    }
    let has_it = found.mark.as_ref().is_some_and(|mark| mark.as_ref() == Ok(&new));
    Ok((!has_it && !only_reads).then_some(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(cell: &str, number: u64, owner: &str) -> DirectoryMark {
        let text = format!("{FORM} {cell} data {number} 0 1 {owner}");
        text.parse().expect("a mark")
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        for text in [
            "bourg-volume-1 lab data 7 3 2 ana",
            "bourg-volume-1 lab data 18446744073709551615 0 1 -",
        ] {
            let mark: DirectoryMark = text.parse().expect("a mark");
            assert_eq!(mark.to_string(), text);
        }
        for text in [
            "",
            "bourg-volume-2 lab data 7 3 2 ana",
            "bourg-volume-1 lab data 7 3 2",
            "bourg-volume-1 lab data 7 3 x ana",
            "bourg-volume-1 lab data 7 3 2 ana more",
            "bourg-volume-1 l/b data 7 3 2 ana",
        ] {
            assert_eq!(text.parse::<DirectoryMark>(), Err(NotAMark), "{text}");
        }
    }

    /// What an order knows of the volume of `ana` with the mark 7, what is found, and what follows.
    #[test]
    fn a_task_gets_the_directory_that_it_had() {
        use VolumeContent::{Accepted, Known, Unknown};
        let (cell, volume) = ("lab".parse().expect("a name"), "data".parse().expect("a name"));
        let mine = || Some(Ok(mark("lab", 7, "ana")));
        let earlier = || Some(Ok(mark("lab", 3, "ana")));
        let all = || Some(Ok(mark("lab", 3, "-")));
        let of_ben = || Some(Ok(mark("lab", 3, "ben")));
        let of_other_cell = || Some(Ok(mark("home", 7, "ana")));
        let broken = || Some(Err(NotAMark));
        for (content, found, is_empty, outcome) in [
            (Known, mine(), false, "kept"),
            (Known, mine(), true, "kept"),
            (Known, None, true, "unmarked"),
            (Known, None, false, "unmarked"),
            (Known, earlier(), false, "another"),
            (Known, of_ben(), true, "another"),
            (Known, of_other_cell(), false, "another"),
            (Known, broken(), false, "another"),
            (Unknown, None, true, "marked"),
            (Unknown, None, false, "marked"),
            (Unknown, mine(), false, "kept"),
            (Unknown, earlier(), false, "marked"),
            (Unknown, all(), false, "marked"),
            (Unknown, of_ben(), true, "marked"),
            (Unknown, of_ben(), false, "others"),
            (Unknown, of_other_cell(), false, "others"),
            (Unknown, broken(), false, "others"),
            (Unknown, broken(), true, "marked"),
            (Accepted, None, false, "marked"),
            (Accepted, of_ben(), false, "marked"),
            (Accepted, broken(), false, "marked"),
            (Accepted, mine(), false, "kept"),
        ] {
            let owner = Some("ana".parse().expect("a name"));
            let expected = VolumeMark { first: mark("lab", 7, "ana").first, owner, content };
            let case = format!("{content} {found:?} {is_empty}");
            let found = FoundDirectory { mark: found, is_empty, is_read_only: false };
            let judged = judge_directory(&cell, &volume, &expected, false, &found);
            let is = match judged {
                Ok(None) => "kept",
                Ok(Some(new)) if new == mark("lab", 7, "ana") => "marked",
                Ok(Some(_)) => "marked as another",
                Err(WrongDirectory::Unmarked) => "unmarked",
                Err(WrongDirectory::Another(_)) => "another",
                Err(WrongDirectory::DataOfOthers(_)) => "others",
            };
            assert_eq!(is, outcome, "{case}");
        }
    }

    #[test]
    fn what_only_reads_needs_no_mark_where_nothing_can_be_written() {
        let (cell, volume) = ("lab".parse().expect("a name"), "data".parse().expect("a name"));
        for (content, read_only, is_read_only, may) in [
            (VolumeContent::Known, true, true, true),
            (VolumeContent::Known, true, false, false),
            (VolumeContent::Known, false, true, false),
            (VolumeContent::Unknown, true, true, true),
        ] {
            let first = mark("lab", 7, "-").first;
            let expected = VolumeMark { first, owner: None, content };
            let found = FoundDirectory { mark: None, is_empty: true, is_read_only };
            let judged = judge_directory(&cell, &volume, &expected, read_only, &found);
            assert_eq!(judged == Ok(None), may, "{content} {read_only} {is_read_only}: {judged:?}");
        }
    }
}

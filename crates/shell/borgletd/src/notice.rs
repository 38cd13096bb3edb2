//! The notice that a task finds in the file that `BOURG_NOTICE` names, before SIGTERM.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use borglet::{NOTICE_DIRECTORY, NOTICE_FILE, Notice};
use linux::record::Bind;
use linux::task::TaskDirectory;
use model::Time;
use process::moment::rfc3339;

/// The name of the directory of a task that it sees at [`NOTICE_DIRECTORY`].
const DIRECTORY: &str = "notice";

/// Creates the directory in which a task will find its notice.
pub(super) fn prepare(task: &TaskDirectory) -> anyhow::Result<()> {
    let path = task.path().join(DIRECTORY);
    let made = DirBuilder::new().recursive(true).create(&path);
    made.and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot create {}", path.display()))
}

/// The bind mount of that directory.
pub(super) fn bind(task: &TaskDirectory) -> Bind {
    let (source, target) = (task.path().join(DIRECTORY), NOTICE_DIRECTORY.into());
    Bind { source, target, writable: false }
}

/// Writes the notice of a task, complete or not at all. A task that was given notice by an earlier
/// Borglet keeps that one: its time runs.
pub(super) fn write(task: &TaskDirectory, notice: &Notice, now: Time) -> anyhow::Result<()> {
    let directory = task.path().join(DIRECTORY);
    let path = directory.join(NOTICE_FILE);
    if path.exists() {
        return Ok(());
    }
    replace(&directory, &path, &text(notice, now)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

fn replace(directory: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    let new = directory.join(format!(".{NOTICE_FILE}.new"));
    let mut file = File::create(&new)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}

/// JSON, with each field on a line of its own.
fn text(notice: &Notice, now: Time) -> anyhow::Result<String> {
    let Notice { reason, cause, length } = notice;
    let cause = serde_json::to_string(cause)?;
    let deadline = rfc3339(now + *length);
    let millis = length.as_millis();
    Ok(format!(
        "{{\n  \"reason\": \"{reason}\",\n  \"cause\": {cause},\n  \"deadline\": \"{deadline}\",\n  \
         \"noticeSeconds\": {}.{:03}\n}}\n",
        millis / 1_000,
        millis % 1_000
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{NoticeReason, Span};

    #[test]
    fn a_notice_is_json_that_is_written_once() {
        let base = tempfile::tempdir().expect("a directory");
        let task = TaskDirectory::create(base.path(), "1-0-1").expect("a new one");
        prepare(&task).expect("room");
        let notice = |cause: &str| Notice {
            reason: NoticeReason::Preempted,
            cause: cause.to_owned(),
            length: Span::from_millis(2_050),
        };
        let now = Time(86_400_000_000);
        write(&task, &notice("preempted by \"ana\"/web/3"), now).expect("room");
        write(&task, &notice("another"), now).expect("nothing to do");
        let path = task.path().join(DIRECTORY).join(NOTICE_FILE);
        let text = fs::read_to_string(path).expect("a notice");
        let expected = [
            "{",
            "  \"reason\": \"preempted\",",
            "  \"cause\": \"preempted by \\\"ana\\\"/web/3\",",
            "  \"deadline\": \"1970-01-02T00:00:02.050Z\",",
            "  \"noticeSeconds\": 2.050",
            "}",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["noticeSeconds"], 2.05);
    }
}

//! A root that is made of the layers of an image.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The directory of a task with what it writes to the root that an image gives it, in
/// [`UPPER_DIRECTORY`] and [`WORK_DIRECTORY`]. It counts as the task's, and means nothing after its end.
pub const IMAGE_DIRECTORY: &str = "image";
/// The directory in a task directory with the files that the task has changed in its root: the upper
/// directory of an overlay.
pub const UPPER_DIRECTORY: &str = "image/upper";
/// The directory in a task directory that the overlay itself uses. Before they appear in
/// [`UPPER_DIRECTORY`], files are here.
pub const WORK_DIRECTORY: &str = "image/work";

/// The maximum number of layers of a root: the kernel's own for an overlay.
pub const LAYERS_MAX: usize = 500;
/// The maximum length of [`ImageRoot::user`], in bytes.
pub const USER_BYTES_MAX: usize = 256;

/// The root of a task as an image describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRoot {
    /// Absolute paths of directories on the host, the lowest layer first, from 1 to [`LAYERS_MAX`].
    /// They are unpacked for overlayfs, and shared by all tasks, of which none changes them. A removed
    /// file is a character device 0:0. A directory that hides those below it has the attribute
    /// `trusted.overlay.opaque`; rootless, `user.overlay.opaque`.
    pub layers: Vec<PathBuf>,
    /// The image's user, whose files become the task's, as the image says it: `USER`, `UID`,
    /// `USER:GROUP` or `UID:GID`, of at most [`USER_BYTES_MAX`] bytes; empty: root. Names are those in
    /// the image's `/etc/passwd` and `/etc/group`. A user without a group has the group in
    /// `/etc/passwd`, or 0.
    pub user: String,
}

#[cfg(test)]
mod tests {
    use super::super::{LAUNCH_FILE, Launch, Root};
    use super::*;

    /// As it was written before roots could be images.
    const BEFORE: &str = r#"{
        "version": 1, "label": "you/hello/3", "argv": ["sh"], "env": [], "uid": 60000, "gid": 60000,
        "hostname": "hello-3", "cgroup": "bourg/hello-3",
        "limits": {
            "cpu_milli": 100, "cpu_hard_cap": false, "memory_bytes": 4096, "pids_max": 10,
            "sharing": SHARING
        },
        "log": {"file_bytes_max": 4096, "files_max": 1}, "tmp_bytes_max": 0, "notice_ms": 0,
        "jail": {"system_dirs": ["/usr"], "bourg_executable": "/bourg", "root": "host_system"}
    }"#;

    #[test]
    fn a_record_without_an_image_reads_and_one_with_it_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let sharing = serde_json::to_string(&crate::cgroup::Sharing::default()).unwrap();
        let before = BEFORE.replace("SHARING", &sharing);
        std::fs::write(dir.path().join(LAUNCH_FILE), before).unwrap();
        let mut launch = Launch::read(dir.path()).unwrap().unwrap();
        assert_eq!(launch.jail.root, Root::HostSystem);
        assert_eq!((launch.stop_signal, &launch.working_directory), (None, &None));
        launch.jail.root = Root::Image(ImageRoot {
            layers: vec!["/layers/one".into(), "/layers/two".into()],
            user: "nginx:www-data".to_owned(),
        });
        launch.stop_signal = Some(3);
        launch.working_directory = Some("/srv".into());
        launch.write(dir.path()).unwrap();
        assert_eq!(Launch::read(dir.path()).unwrap(), Some(launch));
    }
}

//! What a task sees of its own cgroup.

use std::path::{Path, PathBuf};

use super::{Hierarchy, TaskCgroup, V1Mounts, v1};

/// The files that say on which CPUs and memory nodes processes run.
const CPUSET_FILES: [&str; 4] =
    ["cpuset.cpus", "cpuset.mems", "cpuset.effective_cpus", "cpuset.effective_mems"];

/// A part of a task's `/sys/fs/cgroup`; names are relative to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A directory of the cgroup.
    Directory {
        /// On the host.
        source: PathBuf,
        /// Empty for the whole.
        name: PathBuf,
    },
    /// A single file, in the directory of a tree in which the cgroup has no directory of its own.
    File {
        /// On the host.
        source: PathBuf,
        /// The tree's name.
        tree: PathBuf,
        /// The file's name.
        name: &'static str,
    },
    /// Another name of a tree.
    Link {
        /// A controller.
        name: &'static str,
        /// The tree's name.
        to: PathBuf,
    },
}

impl TaskCgroup {
    /// What its task sees of it.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        match &self.hierarchy {
            Hierarchy::V2 { root } => {
                vec![Shown::Directory { source: root.join(&self.name), name: PathBuf::new() }]
            }
            Hierarchy::V1(mounts) => shown_v1(mounts, &self.name),
        }
    }
}

fn shown_v1(mounts: &V1Mounts, name: &str) -> Vec<Shown> {
    let V1Mounts { cpu, cpuacct, memory, pids, cpuset, blkio, unified } = mounts;
    let trees = [
        ("cpu", Some(cpu)),
        ("cpuacct", Some(cpuacct)),
        ("memory", Some(memory)),
        ("pids", Some(pids)),
        ("cpuset", cpuset.as_ref()),
        ("blkio", blkio.as_ref()),
        ("unified", unified.as_ref()),
    ];
    let mut shown: Vec<Shown> = Vec::with_capacity(10);
    for (controller, tree) in trees {
        let Some(tree) = tree else { continue };
        // The mount table has the real name of a tree with several controllers: `cpu,cpuacct`.
        let Some(own) = tree.file_name().map(PathBuf::from) else { continue };
        if own != Path::new(controller) {
            shown.push(Shown::Link { name: controller, to: own.clone() });
        }
        let source = tree.join(name);
        let directory = Shown::Directory { source, name: own.clone() };
        match &directory {
            known if shown.contains(known) => {}
            Shown::Directory { source, .. } if source.is_dir() => shown.push(directory),
            // Its processes are in a cgroup of several tasks there, whose names are not its business;
            // the Java runtime needs to find the tree.
            _ if controller == "cpuset" => {
                let nearest = v1::nearest_in(tree, name).unwrap_or_else(|| tree.clone());
                let files = CPUSET_FILES.map(|file| (nearest.join(file), file));
                shown.extend(
                    files
                        .into_iter()
                        .filter(|(source, _)| source.is_file())
                        .map(|(source, name)| Shown::File { source, tree: own.clone(), name }),
                );
            }
            _ => {}
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_tree_is_shown_once_and_nothing_of_other_tasks() {
        let host = tempfile::tempdir().expect("a directory");
        let at = |name: &str| host.path().join(name);
        for tree in ["cpu,cpuacct", "memory", "pids", "unified"] {
            fs::create_dir_all(at(tree).join("bourg/1-0-1")).expect("room");
        }
        for tree in ["cpuset", "blkio"] {
            fs::create_dir_all(at(tree).join("bourg")).expect("room");
        }
        fs::write(at("cpuset/bourg/cpuset.cpus"), "0-3").expect("room");
        let mounts = V1Mounts {
            cpu: at("cpu,cpuacct"),
            cpuacct: at("cpu,cpuacct"),
            memory: at("memory"),
            pids: at("pids"),
            cpuset: Some(at("cpuset")),
            blkio: Some(at("blkio")),
            unified: Some(at("unified")),
        };
        let group =
            TaskCgroup { hierarchy: Hierarchy::V1(mounts.clone()), name: "bourg/1-0-1".to_owned() };
        let directory = |tree: &str| Shown::Directory {
            source: at(tree).join("bourg/1-0-1"),
            name: tree.into(),
        };
        let link = |name| Shown::Link { name, to: "cpu,cpuacct".into() };
        let file = Shown::File {
            source: at("cpuset/bourg/cpuset.cpus"),
            tree: "cpuset".into(),
            name: "cpuset.cpus",
        };
        let mut expected = vec![
            link("cpu"),
            directory("cpu,cpuacct"),
            link("cpuacct"),
            directory("memory"),
            directory("pids"),
            file,
            directory("unified"),
        ];
        assert_eq!(group.shown(), expected);
        // With CPUs of its own it has a directory of its own.
        fs::create_dir(at("cpuset/bourg/1-0-1")).expect("room");
        expected[5] = directory("cpuset");
        assert_eq!(group.shown(), expected);
    }
}

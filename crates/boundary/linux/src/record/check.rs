//! Validation of a launch record, before anything is done with it.

use std::path::Path;

use super::{
    BindablePorts, ImageRoot, LAYERS_MAX, Launch, PORTS_MAX, Root, SecretVariable, USER_BYTES_MAX,
};
use crate::Isolation;
use crate::cgroup;

/// A launch record is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// There is no program to run.
    #[error("argv is empty: name the program to run")]
    NoProgram,
    /// A string that the kernel cannot accept.
    #[error("{field} contains a NUL byte, which no program can receive: `{}…`", .beginning.escape_debug())]
    Nul {
        /// The field: `argv[2]`, `env PATH`.
        field: String,
        /// The text before the NUL.
        beginning: String,
    },
    /// An environment variable's name that is empty or contains `=`.
    #[error("`{}` cannot name an environment variable: it must not be empty nor contain `=`", .name.escape_debug())]
    EnvironmentName {
        /// The name as given.
        name: String,
    },
    /// Tasks do not run as root.
    #[error("uid {uid}, gid {gid}: a task runs under an unprivileged uid and gid, not 0")]
    Privileged {
        /// As given.
        uid: u32,
        /// As given.
        gid: u32,
    },
    /// Not a host name.
    #[error("hostname `{}`: use 1 to 63 letters, digits, `-` and `.`", .name.escape_debug())]
    Hostname {
        /// As given.
        name: String,
    },
    /// A number below its minimum.
    #[error("{field} is {value}, but must be at least {min}")]
    TooSmall {
        /// The field.
        field: &'static str,
        /// As given.
        value: u64,
        /// The minimum.
        min: u64,
    },
    /// A path that is not absolute, or contains `..` or a NUL byte.
    #[error("{field} `{}` must be an absolute path without `..` and NUL bytes", .path.escape_debug())]
    BadPath {
        /// The field.
        field: &'static str,
        /// As given.
        path: String,
    },
    /// An invalid cgroup name.
    #[error("{0}")]
    Cgroup(String),
    /// A capability that tasks cannot have.
    #[error("capability {number} is not one that a task can keep")]
    Capability {
        /// Its number.
        number: u8,
    },
    /// A capability without root.
    #[error("kernel features require a machine whose Borglet runs as root; this one does not")]
    RootlessCapability,
    /// A rule about ports without root.
    #[error(
        "without root the kernel does not check which ports a task binds: bindable_ports must be `any`"
    )]
    RootlessPorts,
    /// More ports than a task can have.
    #[error("bindable_ports are {count} ports, but a task can have at most {PORTS_MAX}")]
    TooManyPorts {
        /// Their number.
        count: usize,
    },
    /// A network without root.
    #[error(
        "a network of its own requires a machine whose Borglet runs as root; this one does not"
    )]
    RootlessNetwork,
    /// A signal that cannot ask a task to end.
    #[error("stop_signal is {number}, but must be from 1 to 64, and not 19, which no program gets")]
    StopSignal {
        /// As given.
        number: u8,
    },
    /// An image without layers, or with too many.
    #[error("the image of the root has {count} layers, but must have from 1 to {LAYERS_MAX}")]
    Layers {
        /// Their number.
        count: usize,
    },
    /// Not what an image says about its user.
    #[error(
        "the user of the image, `{}`, must be empty, or USER, UID, USER:GROUP or UID:GID, of at most \
         {USER_BYTES_MAX} bytes without control characters",
        .beginning.escape_debug()
    )]
    ImageUser {
        /// The first characters of it.
        beginning: String,
    },
}

impl Launch {
    /// Validates everything that can be checked without accessing the machine.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(Invalid::NoProgram);
        }
        for (index, argument) in self.argv.iter().enumerate() {
            no_nul(|| format!("argv[{index}]"), argument)?;
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains('=') {
                return Err(Invalid::EnvironmentName { name: name.clone() });
            }
            no_nul(|| "the name of an environment variable".to_owned(), name)?;
            no_nul(|| format!("env {}", name.escape_debug()), value)?;
        }
        for SecretVariable { name, .. } in &self.secret_env {
            if name.is_empty() || name.contains('=') {
                return Err(Invalid::EnvironmentName { name: name.clone() });
            }
            no_nul(|| "the name of an environment variable".to_owned(), name)?;
        }
        if self.uid == 0 || self.gid == 0 {
            return Err(Invalid::Privileged { uid: self.uid, gid: self.gid });
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if !(1..=63).contains(&self.hostname.len()) || !self.hostname.chars().all(plain) {
            return Err(Invalid::Hostname { name: self.hostname.clone() });
        }
        cgroup::check_name(&self.cgroup).map_err(|error| Invalid::Cgroup(error.to_string()))?;
        at_least("log.file_bytes_max", self.log.file_bytes_max, 4096)?;
        at_least("log.files_max", self.log.files_max.into(), 1)?;
        at_least("limits.memory_bytes", self.limits.memory_bytes, 4096)?;
        // The init, the task, and one to spare for whatever it starts.
        at_least("limits.pids_max", self.limits.pids_max, 2)?;
        let unknown = |number: &&u8| !crate::CAPABILITIES.contains(number);
        if let Some(&number) = self.capabilities.iter().find(unknown) {
            return Err(Invalid::Capability { number });
        }
        if self.isolation == Isolation::Rootless && !self.capabilities.is_empty() {
            return Err(Invalid::RootlessCapability);
        }
        if let BindablePorts::Only(ports) = &self.bindable_ports {
            if self.isolation == Isolation::Rootless {
                return Err(Invalid::RootlessPorts);
            }
            if ports.len() > PORTS_MAX {
                return Err(Invalid::TooManyPorts { count: ports.len() });
            }
        }
        if self.isolation == Isolation::Rootless && self.network.is_some() {
            return Err(Invalid::RootlessNetwork);
        }
        if let Some(path) = self.network.as_ref().and_then(|network| network.of_alloc.as_ref()) {
            absolute("network.of_alloc", path)?;
        }
        if let Some(number) = self.stop_signal
            && (!(1..=64).contains(&number) || i32::from(number) == libc::SIGSTOP)
        {
            return Err(Invalid::StopSignal { number });
        }
        if let Some(path) = &self.working_directory {
            absolute("working_directory", path)?;
        }
        for directory in &self.jail.system_dirs {
            absolute("jail.system_dirs", Path::new(directory))?;
        }
        absolute("jail.bourg_executable", &self.jail.bourg_executable)?;
        if let Root::Image(image) = &self.jail.root {
            check_image(image)?;
        }
        for bind in self.jail.binds.iter().chain(&self.jail.volumes) {
            absolute("jail.binds.source", &bind.source)?;
            absolute("jail.binds.target", &bind.target)?;
        }
        Ok(())
    }
}

fn check_image(image: &ImageRoot) -> Result<(), Invalid> {
    let ImageRoot { layers, user } = image;
    if !(1..=LAYERS_MAX).contains(&layers.len()) {
        return Err(Invalid::Layers { count: layers.len() });
    }
    for layer in layers {
        absolute("jail.root.image.layers", layer)?;
    }
    let (name, group) = user.split_once(':').unwrap_or((user, "0"));
    let complete = user.is_empty() || !(name.is_empty() || group.is_empty());
    let plain = !user.contains(char::is_control) && !group.contains(':');
    if complete && plain && user.len() <= USER_BYTES_MAX {
        return Ok(());
    }
    Err(Invalid::ImageUser { beginning: user.chars().take(40).collect() })
}

fn no_nul(field: impl FnOnce() -> String, text: &str) -> Result<(), Invalid> {
    match text.split_once('\0') {
        None => Ok(()),
        Some((before, _)) => {
            Err(Invalid::Nul { field: field(), beginning: before.chars().take(40).collect() })
        }
    }
}

fn at_least(field: &'static str, value: u64, min: u64) -> Result<(), Invalid> {
    if value < min { Err(Invalid::TooSmall { field, value, min }) } else { Ok(()) }
}

fn absolute(field: &'static str, path: &Path) -> Result<(), Invalid> {
    use std::path::Component::{Normal, RootDir};
    let good = path.is_absolute() && path.components().all(|c| matches!(c, RootDir | Normal(_)));
    let good = good && !path.as_os_str().as_encoded_bytes().contains(&0);
    if good { Ok(()) } else { Err(Invalid::BadPath { field, path: path.display().to_string() }) }
}

#[cfg(test)]
mod tests {
    use super::super::{Jail, Rotation};
    use super::*;
    use crate::Isolation;
    use crate::cgroup::Limits;

    fn launch() -> Launch {
        Launch {
            network: None,
            label: "you/hello/3 generation 2".to_owned(),
            argv: vec!["sh".to_owned()],
            env: vec![("A".to_owned(), "1".to_owned())],
            isolation: Isolation::Jail,
            uid: 60_000,
            gid: 60_000,
            hostname: "hello-3".to_owned(),
            cgroup: "bourg/x/hello-3".to_owned(),
            in_alloc: false,
            oom_score_adj: 0,
            limits: Limits {
                cpu_milli: 100,
                cpu_hard_cap: false,
                memory_bytes: 1 << 20,
                pids_max: 10,
                sharing: cgroup::Sharing::default(),
            },
            log: Rotation { file_bytes_max: 4096, files_max: 1 },
            tmp_bytes_max: 0,
            scratch_bytes_max: None,
            notice_ms: 0,
            stop_signal: None,
            working_directory: None,
            jail: Jail::host("/usr/bin/bourg".into()),
            capabilities: vec![10],
            secret_env: Vec::new(),
            bindable_ports: BindablePorts::Any,
        }
    }

    fn image(layers: &[&str], user: &str) -> Root {
        let layers = layers.iter().map(Into::into).collect();
        Root::Image(ImageRoot { layers, user: user.to_owned() })
    }

    #[test]
    fn an_image_may_name_its_user_in_five_ways() {
        for user in ["", "nginx", "101", "nginx:www-data", "101:33"] {
            let mut launch = launch();
            launch.jail.root = image(&["/layers/one", "/layers/two"], user);
            launch.check().unwrap();
        }
        let mut launch = launch();
        launch.jail.root = image(&["/layers/one"], &"x".repeat(USER_BYTES_MAX + 1));
        assert!(matches!(launch.check(), Err(Invalid::ImageUser { .. })));
    }

    #[test]
    fn an_invalid_launch_names_the_problem() {
        type Change = fn(&mut Launch);
        launch().check().unwrap();
        let table: [(Change, &str); 25] = [
            (
                |launch| launch.capabilities = vec![10, 21],
                "capability 21 is not one that a task can keep",
            ),
            (
                |launch| launch.isolation = Isolation::Rootless,
                "kernel features require a machine whose Borglet runs as root; this one does not",
            ),
            (
                |launch| {
                    launch.isolation = Isolation::Rootless;
                    launch.capabilities.clear();
                    launch.bindable_ports = BindablePorts::Only(Vec::new());
                },
                "without root the kernel does not check which ports a task binds",
            ),
            (
                |launch| launch.bindable_ports = BindablePorts::Only(vec![7; 1025]),
                "bindable_ports are 1025 ports, but a task can have at most 1024",
            ),
            (|l| l.argv.clear(), "argv is empty"),
            (|l| l.argv.push("a\0b".to_owned()), "argv[1] contains a NUL byte"),
            (|l| l.env.push(("A=B".to_owned(), String::new())), "`A=B` cannot name"),
            (|l| l.uid = 0, "uid 0, gid 60000"),
            (|l| l.hostname = "a b".to_owned(), "hostname `a b`"),
            (|l| l.cgroup = "../x".to_owned(), "`../x` cannot name a cgroup"),
            (|l| l.log.files_max = 0, "log.files_max is 0"),
            (|l| l.limits.pids_max = 1, "limits.pids_max is 1"),
            (|l| l.jail.root = image(&["/a/../b"], ""), "jail.root.image.layers `/a/../b`"),
            (|l| l.jail.root = image(&[], ""), "the image of the root has 0 layers"),
            (|l| l.jail.root = image(&["/a"; 501], ""), "the image of the root has 501 layers"),
            (|l| l.jail.root = image(&["/a"], "a:"), "the user of the image, `a:`, must be"),
            (|l| l.jail.root = image(&["/a"], "a:b:c"), "the user of the image, `a:b:c`, must be"),
            (|l| l.stop_signal = Some(19), "stop_signal is 19"),
            (|l| l.working_directory = Some("work".into()), "working_directory `work`"),
            // Quoted text is shown without its control characters.
            (|l| l.argv.push("\x1b[2J\0".to_owned()), "argv[1] contains a NUL byte, which no"),
            (|l| l.env.push(("\x7f=".to_owned(), String::new())), "`\\u{7f}=` cannot name"),
            (|l| l.env.push(("\n".to_owned(), "\0".to_owned())), "env \\n contains a NUL byte"),
            (|l| l.hostname = "a\tb".to_owned(), "hostname `a\\tb`"),
            (|l| l.cgroup = "a/\x7f/..".to_owned(), "`a/\\u{7f}/..` cannot name a cgroup"),
            (|l| l.jail.root = image(&["a\r"], ""), "jail.root.image.layers `a\\r`"),
        ];
        for (change, expected) in table {
            let mut launch = launch();
            change(&mut launch);
            let message = launch.check().unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message:?}");
            assert!(!message.contains(char::is_control), "{message:?}");
        }
    }
}

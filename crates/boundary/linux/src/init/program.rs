//! Executes the task's program: its environment, the search in `PATH`, and error messages.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::execve;

use crate::record::{Launch, SECRET_VARIABLE_BYTES_MAX, SecretVariable};

/// Where programs are searched when the task has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The launch with the variables whose values are in files. Nothing writes it anywhere.
pub(crate) fn with_secrets(launch: &Launch) -> Result<Launch, String> {
    let mut launch = launch.clone();
    for SecretVariable { name, source } in &launch.secret_env {
        let read = || -> std::io::Result<String> {
            let mut value = String::new();
            let file = File::open(source)?;
            file.take(SECRET_VARIABLE_BYTES_MAX).read_to_string(&mut value)?;
            Ok(value)
        };
        let value =
            read().map_err(|error| format!("cannot read the secret for ${name}: {error}"))?;
        launch.env.push((name.clone(), value));
    }
    Ok(launch)
}

/// The task's environment, completed with the variables that every program expects.
pub(crate) fn complete_environment(launch: &Launch) -> Vec<(String, String)> {
    let mut environment = launch.env.clone();
    let defaults = [
        ("PATH", DEFAULT_PATH),
        ("HOME", "/home/task"),
        ("USER", "task"),
        ("HOSTNAME", launch.hostname.as_str()),
    ];
    for (name, value) in defaults {
        if !environment.iter().any(|(there, _)| there == name) {
            environment.push((name.to_owned(), value.to_owned()));
        }
    }
    environment
}

/// Replaces this process by a program; returns only on failure, with a message for the user.
pub(crate) fn exec(argv: &[String], environment: &[(String, String)]) -> String {
    let Some(name) = argv.first() else { return "argv is empty".to_owned() };
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or(DEFAULT_PATH, |(_, value)| value);
    let candidates = if name.contains('/') { vec![PathBuf::from(name)] } else { split(path, name) };
    let c_string = |text: &str| CString::new(text).ok();
    let arguments: Option<Vec<_>> = argv.iter().map(|text| c_string(text)).collect();
    let variables: Option<Vec<_>> =
        environment.iter().map(|(name, value)| c_string(&format!("{name}={value}"))).collect();
    let (Some(arguments), Some(variables)) = (arguments, variables) else {
        return "an argument or a variable contains a NUL byte".to_owned();
    };
    // As in shells: a candidate that is not executable does not end the search, but becomes the
    // reason in the end.
    let mut denied = None;
    for candidate in &candidates {
        let Ok(file) = CString::new(candidate.as_os_str().as_bytes()) else { continue };
        let Err(error) = execve(&file, &arguments, &variables);
        match error {
            nix::Error::ENOENT | nix::Error::ENOTDIR if !candidate.exists() => {}
            nix::Error::EACCES => denied = denied.or_else(|| Some(why_denied(candidate))),
            error => return explain(candidate, error),
        }
    }
    denied.unwrap_or_else(|| not_found(name))
}

fn split(path: &str, name: &str) -> Vec<PathBuf> {
    path.split(':').filter(|dir| !dir.is_empty()).map(|dir| Path::new(dir).join(name)).collect()
}

fn not_found(name: &str) -> String {
    if name.contains('/') {
        format!("no such file: {name}")
    } else {
        // A value of the environment is not for everybody who sees why a task did not start.
        format!("no such file: {name} (not in the directories of PATH)")
    }
}

fn why_denied(program: &Path) -> String {
    let shown = program.display();
    if program.is_dir() {
        format!("{shown} is a directory, not a program")
    } else if program.exists() {
        format!("permission denied: {shown} is not executable for the task's user")
    } else {
        format!("permission denied: {shown}")
    }
}

fn explain(program: &Path, error: nix::Error) -> String {
    let shown = program.display();
    match error {
        nix::Error::ENOEXEC => {
            format!("{shown} is neither a program for this machine nor a script with a #! line")
        }
        nix::Error::ENOENT => {
            format!(
                "{shown} exists, but its interpreter or dynamic loader does not{}",
                loader(program)
            )
        }
        nix::Error::E2BIG => {
            format!("cannot run {shown}: its arguments and environment are too long together")
        }
        error => format!("cannot run {shown}: {}", error.desc()),
    }
}

/// The interpreter named by a script, for the message.
fn loader(program: &Path) -> String {
    let Ok(content) = std::fs::read(program) else { return String::new() };
    let line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match line.strip_prefix(b"#!") {
        Some(interpreter) if interpreter.len() < 256 => {
            format!(": {}", OsStr::from_bytes(interpreter.trim_ascii()).display())
        }
        _ => String::new(),
    }
}

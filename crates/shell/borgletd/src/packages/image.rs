//! What the configuration of an image means for a task (OCI image specification, `config.md`).

use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use borglet::ImageDefaults;
use nix::libc;
use nix::sys::signal::Signal;
use package::manifest::ImageConfig;

/// Where programs of an image are looked for that does not say it, as in other container runtimes.
const PATH: (&str, &str) = ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");

/// How a task is started if its job does not say it.
pub(super) fn defaults(config: &ImageConfig) -> ImageDefaults {
    let variable = |text: &String| {
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let (path, usual) = PATH;
    let mut env: Vec<(String, String)> = config.env.iter().filter_map(variable).collect();
    if !env.iter().any(|(name, _)| name == path) {
        env.push((path.to_owned(), usual.to_owned()));
    }
    ImageDefaults { entrypoint: config.entrypoint.clone(), cmd: config.cmd.clone(), env }
}

/// The working directory: an absolute path without `.` and `..`.
pub(super) fn working_directory(config: &ImageConfig) -> PathBuf {
    let mut directory = PathBuf::from("/");
    for part in Path::new(&config.working_dir).components() {
        match part {
            Component::Normal(name) => directory.push(name),
            Component::ParentDir => _ = directory.pop(),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    directory
}

/// The number of the signal that asks a task to stop; `None`: SIGTERM. An image names it `SIGQUIT`, `QUIT`, `3` or
/// `SIGRTMIN+3`.
pub(super) fn stop_signal(config: &ImageConfig) -> anyhow::Result<Option<u8>> {
    let text = config.stop_signal.as_str();
    if text.is_empty() {
        return Ok(None);
    }
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let offset = |from: Option<&str>| from.map_or(Some(0), |offset| offset.parse::<i32>().ok());
    let number = if let Ok(number) = text.parse::<i32>() {
        Some(number)
    } else if let Some(rest) = name.strip_prefix("RTMIN") {
        let plus = (!rest.is_empty()).then(|| rest.strip_prefix('+').unwrap_or(rest));
        offset(plus).and_then(|offset| libc::SIGRTMIN().checked_add(offset))
    } else if let Some(rest) = name.strip_prefix("RTMAX") {
        let minus = (!rest.is_empty()).then(|| rest.strip_prefix('-').unwrap_or(rest));
        offset(minus).and_then(|offset| libc::SIGRTMAX().checked_sub(offset))
    } else {
        format!("SIG{name}").parse::<Signal>().ok().map(|signal| signal as i32)
    };
    let is_handled = |number: &i32| {
        (1..=libc::SIGRTMAX()).contains(number) && ![libc::SIGKILL, libc::SIGSTOP].contains(number)
    };
    let number = number.filter(is_handled).and_then(|number| u8::try_from(number).ok());
    let number = number.with_context(|| {
        format!("its stop signal `{}` is none that a task can handle", text.escape_debug())
    });
    number.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_signals_are_names_and_numbers() {
        for (text, number) in [
            ("", Some(None)),
            ("SIGTERM", Some(Some(15))),
            ("QUIT", Some(Some(3))),
            ("3", Some(Some(3))),
            ("SIGRTMIN", Some(Some(34))),
            ("SIGRTMIN+3", Some(Some(37))),
            ("RTMAX-1", Some(Some(63))),
            ("SIGRTMIN+40", None),
            ("SIGSTOP", None),
            ("9", None),
            ("0", None),
            ("65", None),
            ("-1", None),
            ("SIGNOTHING", None),
            ("SIGRTMIN+99999999999", None),
        ] {
            let config = ImageConfig { stop_signal: text.to_owned(), ..ImageConfig::default() };
            assert_eq!(stop_signal(&config).ok(), number, "{text}");
        }
    }

    #[test]
    fn working_directories_are_absolute() {
        for (text, path) in [
            ("", "/"),
            ("/", "/"),
            ("/srv/app/", "/srv/app"),
            ("srv", "/srv"),
            ("/a/../../b/./c", "/b/c"),
        ] {
            let config = ImageConfig { working_dir: text.to_owned(), ..ImageConfig::default() };
            assert_eq!(working_directory(&config), Path::new(path), "{text}");
        }
    }
}

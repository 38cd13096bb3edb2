//! What the configuration of an image means for a task (OCI image specification, `config.md`).

use std::path::{Component, Path, PathBuf};

use borglet::ImageDefaults;
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

#[cfg(test)]
mod tests {
    use super::*;

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

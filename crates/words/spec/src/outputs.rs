//! What a task leaves behind for its owner after its end.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use model::{InstanceId, PackageId, PackageName, PackageVersion, Span, UserName};
use thiserror::Error;

use crate::limits::OUTPUT_PATH_BYTES_MAX;

/// The outputs of a task: what its machine keeps after its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputPolicy {
    /// The files and directories that are kept.
    pub paths: BTreeSet<OutputPath>,
    /// How long they are kept; [`OutputPolicy::KEEP`] if the job does not say.
    pub keep: Option<Span>,
    /// The package of the job's owner of which they become a version; `None`: of none.
    pub package: Option<PackageName>,
}

impl OutputPolicy {
    /// How long outputs are kept if their job does not say: a day.
    pub const KEEP: Span = Span::from_secs(86_400);

    /// How long they are kept.
    #[must_use]
    pub fn kept_for(&self) -> Span {
        self.keep.unwrap_or(Self::KEEP)
    }

    /// The version that the outputs of an instance become, if they become one. Its name is that of the instance, as
    /// `12-0-1`: no other outputs have it.
    #[must_use]
    pub fn version_of(&self, owner: &UserName, instance: InstanceId) -> Option<PackageId> {
        let (name, owner) = (self.package.clone()?, owner.clone());
        let version = PackageVersion::new(&instance.to_string()).ok()?;
        Some(PackageId { owner, name, version })
    }

    /// The output that this path names or is in; `None` if it is in none.
    #[must_use]
    pub fn output_of(&self, path: &OutputPath) -> Option<&OutputPath> {
        self.paths.iter().find(|output| path == *output || path.is_in(output))
    }
}

/// `out, result.txt`, `out, into package words`.
impl fmt::Display for OutputPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, path) in self.paths.iter().enumerate() {
            let before = if position > 0 { ", " } else { "" };
            write!(f, "{before}{path}")?;
        }
        if let Some(package) = &self.package {
            write!(f, ", into package {package}")?;
        }
        Ok(())
    }
}

/// A path below the home directory of a task: relative, and without `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputPath(String);

/// The text is not the path of an output.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "'{}' is not the path of an output: write a relative path without '.', '..', empty parts and control \
     characters, of at most {OUTPUT_PATH_BYTES_MAX} bytes, such as 'out/result.txt'",
    .0.escape_debug()
)]
pub struct OutputPathError(String);

impl OutputPath {
    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is below another path.
    #[must_use]
    pub fn is_in(&self, other: &Self) -> bool {
        self.0.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl FromStr for OutputPath {
    type Err = OutputPathError;

    fn from_str(text: &str) -> Result<Self, OutputPathError> {
        let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= 255;
        let is_path = text.len() <= OUTPUT_PATH_BYTES_MAX
            && !text.chars().any(char::is_control)
            && text.split('/').all(is_part);
        match is_path {
            true => Ok(Self(text.to_owned())),
            false => Err(OutputPathError(text.chars().take(64).collect())),
        }
    }
}

impl fmt::Display for OutputPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_below_the_home_directory() {
        for path in ["result.txt", "out", "out/a/b", ".cache", "..a", "a b"] {
            assert_eq!(path.parse::<OutputPath>().expect("a path").to_string(), path);
        }
        let long = "x".repeat(256);
        for path in [
            "",
            "/",
            "/etc/shadow",
            ".",
            "..",
            "../a",
            "a/../b",
            "a/./b",
            "a//b",
            "a/",
            "a\n",
            &long,
        ] {
            let error = path.parse::<OutputPath>().expect_err(path).to_string();
            assert!(error.contains("is not the path of an output"), "{error}");
        }
    }

    #[test]
    fn a_path_belongs_to_the_output_that_it_is_in() {
        let path = |text: &str| text.parse::<OutputPath>().expect("a path");
        let policy =
            OutputPolicy { paths: [path("out"), path("a/b")].into(), ..OutputPolicy::default() };
        for (asked, output) in [
            ("out", Some("out")),
            ("out/n", Some("out")),
            ("output", None),
            ("a", None),
            ("a/b", Some("a/b")),
            ("a/b/c/d", Some("a/b")),
        ] {
            let found = policy.output_of(&path(asked)).map(OutputPath::as_str);
            assert_eq!(found, output, "{asked}");
        }
        assert_eq!(
            (policy.to_string().as_str(), policy.kept_for()),
            ("a/b, out", OutputPolicy::KEEP)
        );
    }

    #[test]
    fn the_version_of_a_package_is_named_after_the_instance() {
        let owner = "ana".parse().expect("a user");
        let instance = "12-3-1".parse().expect("an instance");
        let mut policy = OutputPolicy {
            paths: ["out".parse().expect("a path")].into(),
            ..OutputPolicy::default()
        };
        assert_eq!(policy.version_of(&owner, instance), None);
        policy.package = Some("words".parse().expect("a name"));
        let version = policy.version_of(&owner, instance).expect("it becomes one");
        assert_eq!(version.to_string(), "ana/words@12-3-1");
        assert_eq!(policy.to_string(), "out, into package words");
    }
}

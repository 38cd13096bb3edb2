//! Which files a BCL file may import. A file may come from somebody else, and whatever it imports is
//! shown with the job: so only what is beside it or below, unless the user says otherwise.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bcl::{Loaded, Loader, NotLoaded, ParameterFile, Settings};
use clap::Args;
use command::Failure;
use model::{PackageName, PackageReference};
use serde::{Deserialize, Serialize};

use crate::package::registries::RegistryArgs;
use crate::registry_image::RegistryImage;

/// The flags about how a file is evaluated: what it may import, and its parameters.
#[derive(Clone, Debug, Default, Args)]
pub struct ImportArgs {
    /// A folder of libraries from which files may import, besides their own folder; repeatable. An
    /// import that is not beside the importing file is looked for there.
    #[arg(long = "library", value_name = "DIR")]
    libraries: Vec<PathBuf>,
    /// Let the file import any file that you can read, not only from its own folder and below. Its
    /// content becomes part of the job.
    #[arg(long)]
    allow_imports: bool,
    /// How the registries of images are reached that the file names.
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
    /// A parameter of a file that is a function: the value is a string. Repeatable.
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// A JSON or Jsonnet file with an object of parameters; repeatable. Of the same parameter in several
    /// places, the last file counts, and --var before all files.
    #[arg(long = "var-file", value_name = "FILE")]
    variable_files: Vec<PathBuf>,
}

/// The maximum number of files with parameters.
const VARIABLE_FILES_MAX: usize = 64;

/// Parses `region=eu`. The name is one that a function can have.
fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it has no '=': write NAME=VALUE")?;
    let mut characters = name.chars();
    let begins = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if !begins || !characters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let name = name.escape_debug();
        return Err(format!(
            "'{name}' cannot be the name of a parameter: use letters, digits and _"
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

impl ImportArgs {
    /// The same flags for another process.
    pub(crate) fn flags(&self) -> Vec<std::ffi::OsString> {
        let libraries = self.libraries.iter();
        let mut flags: Vec<_> =
            libraries.flat_map(|library| ["--library".into(), library.into()]).collect();
        flags.extend(self.allow_imports.then(|| "--allow-imports".into()));
        let variables = self.variables.iter();
        flags.extend(variables.map(|(name, value)| format!("--var={name}={value}").into()));
        for file in &self.variable_files {
            flags.extend(["--var-file".into(), file.into()]);
        }
        flags
    }

    /// The parameters for the evaluation.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        if self.variable_files.len() > VARIABLE_FILES_MAX {
            let text = format!("error: --var-file is given more than {VARIABLE_FILES_MAX} times");
            return Err(Failure::usage(text));
        }
        let mut parameter_files = Vec::new();
        for file in &self.variable_files {
            let (name, content) = (file.to_string_lossy().into_owned(), read_source(file)?);
            parameter_files.push(ParameterFile { name, content });
        }
        let parameters = self.variables.iter().cloned().collect();
        Ok(Settings { parameters, parameter_files, ..Settings::default() })
    }
}

/// The maximum number of directories that one file makes packages of.
const DIRECTORIES_MAX: usize = 64;

/// The maximum number of images of registries that one file names.
const IMAGES_MAX: usize = 64;

/// A directory that becomes a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PackageDirectory {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The name of the package.
    pub(crate) name: String,
    /// The reference in the jobs that stands for it, until its version is known.
    pub(crate) placeholder: String,
}

/// Resolves imports as files, relative to the importing file, and then to the libraries.
pub(crate) struct Files {
    /// The folders from which files may be imported, without symlinks; `None` for any.
    allowed: Option<Vec<PathBuf>>,
    /// The folder of the evaluated file, as it was given.
    folder: PathBuf,
    libraries: Vec<PathBuf>,
    directories: Vec<PackageDirectory>,
    images: Vec<RegistryImage>,
}

impl Files {
    /// For the imports of a file.
    pub(crate) fn new(file: &Path, imports: &ImportArgs) -> Self {
        let folder = match file.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let libraries = imports.libraries.clone();
        let all = std::iter::once(&folder).chain(&libraries);
        // A folder that is not there has no files.
        let all = all.filter_map(|folder| folder.canonicalize().ok()).collect();
        let allowed = (!imports.allow_imports).then_some(all);
        Self { allowed, folder, libraries, directories: Vec::new(), images: Vec::new() }
    }

    /// The directories and the images of registries that the file makes packages of.
    pub(crate) fn into_sources(self) -> (Vec<PackageDirectory>, Vec<RegistryImage>) {
        (self.directories, self.images)
    }

    /// Reads a file if it may be imported, wherever symlinks lead; the error says why not.
    fn read(&self, found: &Path) -> Result<Vec<u8>, String> {
        let failed = |error: std::io::Error| error.to_string();
        if self.allowed.is_none() {
            return read_bounded(found).map_err(failed);
        }
        read_bounded(&self.allowed(found)?).map_err(failed)
    }

    /// What a path leads to, if the file may use it; the error says why not.
    fn allowed(&self, found: &Path) -> Result<PathBuf, String> {
        let real = found.canonicalize().map_err(|error| error.to_string())?;
        let Some(allowed) = &self.allowed else { return Ok(real) };
        if allowed.iter().any(|folder| real.starts_with(folder)) {
            return Ok(real);
        }
        Err(format!(
            "it is outside of {}, the folder of the file: to allow it, name its folder with --library \
             DIR, or pass --allow-imports if you trust the file with all that you can read",
            self.folder.display()
        ))
    }
}

impl Loader for Files {
    fn load(&mut self, from: &str, path: &str) -> Result<Loaded, NotLoaded> {
        let beside = Path::new(from).parent().unwrap_or(Path::new(""));
        let folders = std::iter::once(beside).chain(self.libraries.iter().map(PathBuf::as_path));
        let mut tried: Vec<(String, String)> = Vec::new();
        for folder in folders {
            let found = folder.join(path);
            let name = found.to_string_lossy().into_owned();
            if tried.iter().any(|(before, _)| *before == name) {
                continue;
            }
            match self.read(&found) {
                Ok(content) => return Ok(Loaded { name, content }),
                Err(why) => tried.push((name, why)),
            }
        }
        Err(NotLoaded { tried })
    }

    fn directory(&mut self, path: &str, name: &str) -> Result<PackageReference, String> {
        let path = self.allowed(&self.folder.join(path))?;
        if !path.is_dir() {
            return Err("it is not a directory".to_owned());
        }
        let name: PackageName = name.parse().map_err(|error| format!("{error}"))?;
        let is_same = |known: &PackageDirectory| known.path == path && known.name == name.as_str();
        if let Some(known) = self.directories.iter().find(|known| is_same(known)) {
            return known.placeholder.parse().map_err(|error| format!("{error}"));
        }
        let number = self.directories.len();
        if number >= DIRECTORIES_MAX {
            return Err(format!("the file has more than {DIRECTORIES_MAX} directories"));
        }
        let version = format!("borg.directory.{number}").parse();
        let version = version.map_err(|error| format!("{error}"))?;
        let reference = PackageReference { owner: None, name: name.clone(), version };
        let (name, placeholder) = (name.to_string(), reference.to_string());
        self.directories.push(PackageDirectory { path, name, placeholder });
        Ok(reference)
    }

    fn image(&mut self, reference: &str) -> Result<PackageReference, String> {
        if let Some(known) = self.images.iter().find(|known| known.reference == reference) {
            return known.placeholder.parse().map_err(|error| format!("{error}"));
        }
        let number = self.images.len();
        if number >= IMAGES_MAX {
            return Err(format!("the file has more than {IMAGES_MAX} images of registries"));
        }
        let image = RegistryImage::new(reference, number)?;
        let placeholder = image.placeholder.parse().map_err(|error| format!("{error}"))?;
        self.images.push(image);
        Ok(placeholder)
    }

    fn trace(&mut self, text: &str) {
        let shown: String = text.chars().take(1_000).flat_map(char::escape_debug).collect();
        eprintln!("trace: {shown}");
    }
}

/// Reads a file, or a byte more than a source may have.
pub(crate) fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let most = bcl::limits::SOURCE_BYTES_MAX as u64;
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a source file completely.
pub(crate) fn read_source(path: &Path) -> Result<Vec<u8>, Failure> {
    let shown = path.display().to_string().escape_debug().to_string();
    let read = read_bounded(path);
    let source =
        read.map_err(|error| Failure::usage(format!("error: cannot read {shown}: {error}")))?;
    check_length(&source, &shown)?;
    Ok(source)
}

/// An error if a source is longer than one may be.
pub(crate) fn check_length(source: &[u8], shown: &str) -> Result<(), Failure> {
    if source.len() > bcl::limits::SOURCE_BYTES_MAX {
        let most = bcl::limits::SOURCE_BYTES_MAX >> 20;
        return Err(Failure::usage(format!("error: {shown} is longer than {most} MiB")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn imports_stay_below_the_file_or_a_library_despite_links() {
        let place = tempfile::tempdir().expect("a directory");
        let at = |path: &str| place.path().join(path);
        for folder in ["jobs/below", "jobs-2", "lib/deep"] {
            fs::create_dir_all(at(folder)).expect("a folder");
        }
        for file in ["jobs/a", "jobs/below/b", "jobs-2/c", "lib/d", "lib/deep/e", "secret"] {
            fs::write(at(file), file).expect("a file");
        }
        for (link, to) in [
            ("jobs/inside", "below/b"),
            ("jobs/outside", "../secret"),
            ("jobs/out", ".."),
            ("jobs/through", "inside"),
            ("lib/outside", "../secret"),
            ("jobs/to-lib", "../lib/d"),
        ] {
            symlink(to, at(link)).expect("a link");
        }
        let secret = at("secret").display().to_string();
        let [none, library, all] = [(None, false), (Some(at("lib")), false), (None, true)].map(
            |(library, allow_imports)| ImportArgs {
                libraries: library.into_iter().collect(),
                allow_imports,
                registry: RegistryArgs::default(),
                ..ImportArgs::default()
            },
        );
        // The path, and whether it is read without flags, with the library, and with any file allowed.
        for (path, reads) in [
            ("a", [true, true, true]),
            ("./below/../a", [true, true, true]),
            ("below/b", [true, true, true]),
            ("inside", [true, true, true]),
            ("through", [true, true, true]),
            ("../jobs/a", [true, true, true]),
            ("../secret", [false, false, true]),
            ("below/../../secret", [false, false, true]),
            // A folder whose name begins with that of the file's.
            ("../jobs-2/c", [false, false, true]),
            ("outside", [false, false, true]),
            ("out/secret", [false, false, true]),
            ("out/jobs/a", [true, true, true]),
            (&secret, [false, false, true]),
            ("d", [false, true, false]),
            ("deep/e", [false, true, false]),
            ("to-lib", [false, true, true]),
            ("nothing", [false, false, false]),
        ] {
            let file = at("jobs/job.bcl");
            for (imports, reads) in [&none, &library, &all].into_iter().zip(reads) {
                let mut files = Files::new(&file, imports);
                let loaded = files.load(&file.to_string_lossy(), path);
                assert_eq!(loaded.is_ok(), reads, "{path} {imports:?}: {loaded:?}");
            }
        }
        let mut files = Files::new(&at("jobs/job.bcl"), &none);
        let file = at("jobs/job.bcl").display().to_string();
        let tried = files.load(&file, "outside").expect_err("it leads outside").tried;
        assert!(tried[0].1.contains("--allow-imports"), "{tried:?}");
        // What a library imports is beside it.
        let mut files = Files::new(&at("jobs/job.bcl"), &library);
        let loaded = files.load(&file, "deep/e").expect("it is there");
        assert!(files.load(&loaded.name, "../d").is_ok());
        assert!(files.load(&loaded.name, "../outside").is_err());
    }
}

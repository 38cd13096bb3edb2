//! Client directories.

use std::path::Path;

use rpc::Credentials;
use serde::{Deserialize, Serialize};

/// The stem of a user's certificate in a client directory.
pub const USER_STEM: &str = "user";
/// Where a cell answers, in a client directory.
pub const CELL_FILE: &str = "cell.toml";

/// Where a cell answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellFile {
    /// Its name.
    pub cell: String,
    /// Where its masters answer, as `host:port`.
    pub masters: Vec<String>,
}

/// Writes a client directory.
///
/// # Errors
/// Where it cannot be written.
pub fn write(directory: &Path, file: &CellFile, user: &Credentials) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    user.write(directory, USER_STEM)?;
    write_file(directory, file)
}

/// Writes where a cell answers into a client directory, whole: others read it at any time.
///
/// # Errors
/// Where it cannot be written.
pub fn write_file(directory: &Path, file: &CellFile) -> anyhow::Result<()> {
    let (path, new) = (directory.join(CELL_FILE), directory.join("cell.toml.tmp"));
    std::fs::write(&new, toml::to_string(file)?)?;
    Ok(std::fs::rename(new, path)?)
}

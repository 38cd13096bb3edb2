//! Client directories.

use std::path::Path;

use rpc::Credentials;
use serde::{Deserialize, Serialize};

/// The stem of the file names of a user's certificate in a client directory.
pub const USER_STEM: &str = "user";
/// The file with the cell's name and addresses in a client directory.
pub const CELL_FILE: &str = "cell.toml";

/// The content of [`CELL_FILE`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellFile {
    /// The cell's name.
    pub cell: String,
    /// The addresses of its masters, as `host:port`.
    pub masters: Vec<String>,
    /// Whether the client learns the other masters of the cell from these. Without that it calls
    /// these alone, for example those at the other end of a tunnel.
    #[serde(default = "learns", skip_serializing_if = "std::clone::Clone::clone")]
    pub learn: bool,
}

impl CellFile {
    /// The file for a cell with these masters.
    #[must_use]
    pub fn new(cell: String, masters: Vec<String>) -> Self {
        Self { cell, masters, learn: learns() }
    }
}

fn learns() -> bool {
    true
}

/// Writes a client directory.
///
/// # Errors
/// If it cannot be written.
pub fn write(directory: &Path, file: &CellFile, user: &Credentials) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    user.write(directory, USER_STEM)?;
    write_file(directory, file)
}

/// Atomically replaces the cell file in a client directory, since others may read it at any time.
///
/// # Errors
/// If it cannot be written.
pub fn write_file(directory: &Path, file: &CellFile) -> anyhow::Result<()> {
    let (path, new) = (directory.join(CELL_FILE), directory.join("cell.toml.tmp"));
    std::fs::write(&new, toml::to_string(file)?)?;
    Ok(std::fs::rename(new, path)?)
}

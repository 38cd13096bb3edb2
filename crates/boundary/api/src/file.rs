//! The files and secrets of tasks: `job.proto`.

use std::collections::BTreeMap;
use std::str::FromStr;

use model::SecretName;
use spec::{FileContent, FileMode, TaskFile};

use crate::error::{At, Fault, Malformed};
use crate::v1;

impl From<&TaskFile> for v1::TaskFile {
    fn from(file: &TaskFile) -> Self {
        let data = match &file.content {
            FileContent::Text(text) => v1::task_file::Data::Content(text.to_string()),
            FileContent::Bytes(bytes) => v1::task_file::Data::Base64(bytes.to_vec()),
        };
        let mode = file.mode;
        let mode = if mode == FileMode::default() { String::new() } else { mode.to_string() };
        Self { mode, data: Some(data) }
    }
}

impl TryFrom<v1::TaskFile> for TaskFile {
    type Error = Malformed;

    fn try_from(file: v1::TaskFile) -> Result<Self, Malformed> {
        let content = match file.data.ok_or(Fault::Missing).field("content")? {
            v1::task_file::Data::Content(text) => FileContent::Text(text.into()),
            v1::task_file::Data::Base64(bytes) => FileContent::Bytes(bytes.to_vec().into()),
        };
        let mode = match file.mode.as_str() {
            "" => FileMode::default(),
            text => FileMode::from_str(text).map_err(Fault::from).field("mode")?,
        };
        Ok(Self { content, mode })
    }
}

pub(crate) fn files(files: &BTreeMap<String, TaskFile>) -> BTreeMap<String, v1::TaskFile> {
    files.iter().map(|(path, file)| (path.clone(), file.into())).collect()
}

pub(crate) fn read_files(
    files: BTreeMap<String, v1::TaskFile>,
) -> Result<BTreeMap<String, TaskFile>, Malformed> {
    let file = |(path, file): (String, v1::TaskFile)| -> Result<_, Malformed> {
        let file = TaskFile::try_from(file).key(&path)?;
        Ok((path, file))
    };
    files.into_iter().map(file).collect::<Result<_, Malformed>>().field("files")
}

pub(crate) fn secrets(secrets: &BTreeMap<String, SecretName>) -> BTreeMap<String, String> {
    secrets.iter().map(|(place, name)| (place.clone(), name.to_string())).collect()
}

pub(crate) fn read_secrets(
    secrets: BTreeMap<String, String>,
    field: &str,
) -> Result<BTreeMap<String, SecretName>, Malformed> {
    let secret = |(place, name): (String, String)| -> Result<_, Malformed> {
        let name = SecretName::new(&name).map_err(Fault::from).key(&place)?;
        Ok((place, name))
    };
    secrets.into_iter().map(secret).collect::<Result<_, Malformed>>().field(field)
}

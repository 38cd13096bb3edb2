//! The names of other jobs' tasks to which a description refers.

use std::collections::BTreeSet;

use crate::template::{self, Reference};
use crate::{JobSpec, NameReference, TaskOverride, TaskSpec};

/// The names that a text refers to.
fn names_in(text: &str) -> impl Iterator<Item = NameReference> {
    template::references(text).filter_map(|(_, found)| match found {
        Ok(Reference::Name(name)) => Some(name),
        _ => None,
    })
}

impl TaskSpec {
    /// The names of other jobs' tasks that its command, variables and files refer to, each once.
    #[must_use]
    pub fn names(&self) -> BTreeSet<NameReference> {
        let files = self.files.values().filter_map(|file| file.content.text());
        let texts = self.cmd.iter().chain(self.env.values()).map(String::as_str);
        texts.chain(files).flat_map(names_in).collect()
    }
}

impl TaskOverride {
    /// The names that it refers to beside those of its job.
    fn names(&self) -> impl Iterator<Item = NameReference> {
        let cmd = self.cmd.iter().flatten();
        cmd.chain(self.env.values()).flat_map(|text| names_in(text))
    }
}

impl JobSpec {
    /// The names of other jobs' tasks that its tasks refer to, each once.
    #[must_use]
    pub fn names(&self) -> BTreeSet<NameReference> {
        let mut names = self.task.names();
        names.extend(self.overrides.values().flat_map(TaskOverride::names));
        names
    }
}

#[cfg(test)]
mod tests {
    use model::TaskIndex;

    use super::*;
    use crate::testing::job;

    #[test]
    fn names_are_found_in_commands_variables_files_and_overrides() {
        let mut job = job();
        job.task.cmd.push("--db=${bns.db.address} $${bns.none.host} ${bns.bad}".to_owned());
        job.task.env.insert("DB".to_owned(), "${bns.db.address}${bns.ana/db/1.host}".to_owned());
        let env = [("X".to_owned(), "${bns.other.host}".to_owned())].into();
        job.overrides.insert(TaskIndex(1), TaskOverride { env, ..TaskOverride::default() });
        let said = |names: BTreeSet<NameReference>| -> Vec<String> {
            names.iter().map(ToString::to_string).collect()
        };
        assert_eq!(said(job.task.names()), ["bns.db.address", "bns.ana/db/1.host"]);
        assert_eq!(said(job.names()).len(), 3);
    }
}

//! The encoded tree of a layer, as a store gives it: what is read is written again as the same bytes.

use package::{TreeEntry, TreeReader, TreeWriter};

use crate::assert_harmless;

pub(crate) fn run(bytes: &[u8]) {
    let entries: Vec<TreeEntry> = match TreeReader::new(bytes).collect() {
        Ok(entries) => entries,
        Err(error) => return assert_harmless(&error.to_string()),
    };
    let mut writer = TreeWriter::new(Vec::new());
    for entry in &entries {
        writer.write(entry).expect("what was read can be written");
    }
    assert_eq!(writer.entries(), entries.len() as u64);
    assert!(writer.into_inner() == bytes, "there is one encoding of a tree");
}

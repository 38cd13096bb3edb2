//! The manifest of a package, as a store gives it: what is read is written again as the same bytes.

use package::{Manifest, digest_of};

use crate::assert_harmless;

pub(crate) fn run(bytes: &[u8]) {
    match Manifest::decode(bytes) {
        Ok(manifest) => {
            let encoded = manifest.encode().expect("what was read can be written");
            assert!(encoded == bytes, "there is one encoding of a manifest");
            assert_eq!(manifest.digest(), Ok(digest_of(bytes)));
            let first = &manifest.variants[0];
            assert_eq!(manifest.variant(&first.architecture), Some(first));
        }
        Err(error) => assert_harmless(&error.to_string()),
    }
}

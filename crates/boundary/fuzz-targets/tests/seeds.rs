//! Every kept input of the fuzz targets, replayed: what fuzzing found once stays found.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fuzz_targets::TARGETS;

fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds")
}

/// The entries of a directory, sorted.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(directory).expect("the directory can be listed");
    let mut paths: Vec<_> = listed.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// A test of a target, which replays its inputs. On a failure the last line has the input's path.
macro_rules! replay {
    ($($name:ident)*) => {
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                let target = fuzz_targets::target(stringify!($name)).expect("a target");
                let inputs = entries(&seeds().join(stringify!($name)));
                assert!(!inputs.is_empty(), "there are inputs");
                for input in inputs {
                    println!("{}", input.display());
                    target(&fs::read(&input).expect("an input can be read"));
                }
            }
        )*
    };
}

replay! {
    bcl canonical_json cell_image cell_image_json checkpoint dns event_record event_segments
    image_layer join_token link log_record log_segments ops package_manifest package_tree
    saved_cell task_records texts trace_tables wire
}

#[test]
fn every_target_is_replayed_and_has_inputs() {
    let targets: BTreeSet<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let replayed = REPLAYED.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(targets, replayed);
    let kept = entries(&seeds()).into_iter();
    let kept = kept.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    assert_eq!(targets, kept, "targets, and directories in fuzz/seeds");
}

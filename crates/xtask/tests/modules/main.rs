//! Checks that no modules of a crate depend on each other in a cycle: a module can be read, changed
//! and tested without those that use it. A top-level module and its children are one unit
//! ([`scan`]).

mod scan;

use cargo_metadata::{MetadataCommand, TargetKind};
use scan::Graph;

#[test]
fn no_crate_has_a_circle_of_modules() {
    let metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata runs");
    let root = metadata.workspace_root.as_std_path();
    let mut refused = String::new();
    for package in metadata.workspace_packages() {
        let ours = |kind: &TargetKind| matches!(kind, TargetKind::Lib | TargetKind::Bin);
        for target in package.targets.iter().filter(|target| target.kind.iter().any(ours)) {
            let graph = Graph::of_crate(target.src_path.as_std_path(), root);
            for circle in graph.circles() {
                let names: Vec<&str> = circle.iter().copied().collect();
                let names = names.join(", ");
                refused += &format!("{}: {names}\n{}", package.name, graph.shown(&circle));
            }
        }
    }
    assert!(refused.is_empty(), "modules use each other in a circle:\n{refused}");
}

//! Compiles the protobuf files to Rust types with their canonical JSON. Pure Rust: no protoc.

use std::path::PathBuf;

use prost::Message;

/// Lists that may be there and empty, which protobuf can say of messages alone. Their JSON is the
/// list, as people write it, and not that of protobuf.
const LISTS: [&str; 2] = [".bourg.v1.TaskOverride.Ports", ".bourg.v1.TaskOverride.Constraints"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from("proto");
    let files = ["job", "cell", "log", "image", "events", "borglet", "scheduling", "borgmaster"]
        .map(|name| format!("bourg/v1/{name}.proto"));
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(files, [&root])?;
    let encoded = descriptors.encode_to_vec();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    std::fs::write(out.join("descriptors.bin"), &encoded)?;
    let mut prost = prost_build::Config::new();
    prost
        .btree_map(["."])
        .compile_well_known_types()
        .extern_path(".google.protobuf.Duration", "crate::Duration");
    for list in LISTS {
        let json = "#[derive(::serde::Serialize, ::serde::Deserialize)] #[serde(transparent)]";
        prost.type_attribute(list, json);
    }
    prost.compile_fds(descriptors)?;
    pbjson_build::Builder::new()
        .btree_map(["."])
        .exclude(LISTS)
        .register_descriptors(&encoded)?
        .build(&[".bourg.v1"])?;
    Ok(())
}

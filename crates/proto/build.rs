//! Compiles the protobuf files to Rust types with their canonical JSON. Pure Rust: no protoc.

use std::path::PathBuf;

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from("proto");
    let files = ["job", "cell", "log", "image", "borglet", "scheduling", "borgmaster"]
        .map(|name| format!("bourg/v1/{name}.proto"));
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(files, [&root])?;
    let encoded = descriptors.encode_to_vec();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    std::fs::write(out.join("descriptors.bin"), &encoded)?;
    prost_build::Config::new()
        .btree_map(["."])
        .compile_well_known_types()
        .extern_path(".google.protobuf", "::pbjson_types")
        .compile_fds(descriptors)?;
    pbjson_build::Builder::new()
        .btree_map(["."])
        .register_descriptors(&encoded)?
        .build(&[".bourg.v1"])?;
    Ok(())
}

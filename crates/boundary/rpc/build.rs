//! Generates the clients and servers of the services. Crate `api` has their messages.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from("../api/proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let files =
        ["borglet", "scheduling", "borgmaster", "enrolment", "names", "packages", "secrets"]
            .map(|name| format!("bourg/v1/{name}.proto"));
    let descriptors = protox::compile(files, [&root])?;
    tonic_prost_build::configure()
        .extern_path(".bourg.v1", "::api::v1")
        .compile_well_known_types(true)
        .compile_fds(descriptors)?;
    Ok(())
}

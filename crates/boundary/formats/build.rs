//! Compiles the protobuf files of the formats. Messages of the API that they use are those of the crate
//! `api`. Pure Rust: no protoc.

use std::path::{Path, PathBuf};

use prost::Message;

/// The files compiled here.
const FILES: [&str; 3] = ["bourg/v1/image.proto", "bourg/v1/log.proto", "bourg/v1/rejection.proto"];

/// Enums of the API in these files whose JSON is one of our words (`api::Word`).
const WORDS: [&str; 1] = ["Health"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (own, api) = (Path::new("proto"), Path::new("../api/proto"));
    for directory in [own, api] {
        println!("cargo:rerun-if-changed={}", directory.display());
    }
    let descriptors = protox::compile(FILES, [own, api])?;
    let encoded = descriptors.encode_to_vec();
    let (mut ours, mut of_api) = (Vec::new(), Vec::new());
    for file in descriptors.file.iter().filter(|file| file.package() == "bourg.v1") {
        let messages = file.message_type.iter().map(|message| message.name().to_owned());
        let enums = file.enum_type.iter().map(|kind| kind.name().to_owned());
        let names = if FILES.contains(&file.name()) { &mut ours } else { &mut of_api };
        names.extend(messages.chain(enums));
    }
    let mut prost = prost_build::Config::new();
    prost
        .btree_map(["."])
        .compile_well_known_types()
        .extern_path(".google.protobuf.Duration", "::api::Duration");
    for name in &of_api {
        prost.extern_path(format!(".bourg.v1.{name}"), format!("::api::v1::{name}"));
    }
    prost.compile_fds(descriptors)?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    std::fs::write(out.join("bourg.v1.serde.rs"), json(&encoded, &ours, &of_api)?)?;
    Ok(())
}

/// The code that writes and reads the JSON of our messages.
fn json(descriptors: &[u8], ours: &[String], of_api: &[String]) -> std::io::Result<Vec<u8>> {
    let mut builder = pbjson_build::Builder::new();
    builder.btree_map(["."]).register_descriptors(descriptors)?.emit_fields();
    for name in of_api.iter().filter(|name| !WORDS.contains(&name.as_str())) {
        builder.extern_path(format!(".bourg.v1.{name}"), format!("::api::v1::{name}"));
        builder.exclude([format!(".bourg.v1.{name}")]);
    }
    for name in WORDS {
        builder.extern_path(format!(".bourg.v1.{name}"), format!("::api::Word::<{name}>"));
        builder.exclude([format!(".bourg.v1.{name}")]);
    }
    let prefixes: Vec<String> = ours.iter().map(|name| format!(".bourg.v1.{name}")).collect();
    let code = builder.generate(&prefixes, |_| Ok(Vec::new()))?;
    let code: Vec<u8> = code.into_iter().flat_map(|(_, code)| code).collect();
    let mut code = String::from_utf8(code).map_err(std::io::Error::other)?;
    for name in WORDS {
        // Values are cast to numbers after reading, which only works for enums.
        let word = format!("<::api::Word::<{name}>>()?");
        code = code.replace(&format!("{word} as i32"), &format!("{word}.number()"));
    }
    Ok(code.into_bytes())
}

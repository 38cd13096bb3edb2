//! Compiles `replication.proto` to its messages and its service. Messages of other files that it
//! uses come from the crate `formats`.

use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message as _;

/// The file compiled here.
const FILE: &str = "bourg/v1/replication.proto";

fn main() -> Result<(), Box<dyn Error>> {
    let (own, others) =
        (Path::new("proto"), [Path::new("../formats/proto"), Path::new("../api/proto")]);
    for directory in [own, others[0], others[1]] {
        println!("cargo:rerun-if-changed={}", directory.display());
    }
    let mut descriptors = protox::compile([FILE], [own, others[0], others[1]])?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    std::fs::write(out.join("replication.bin"), descriptors.encode_to_vec())?;
    let mut build = tonic_prost_build::configure().bytes(".bourg.v1.LogEntry.record");
    for file in &mut descriptors.file {
        if file.name() == FILE {
            continue;
        }
        let messages = file.message_type.iter().map(|message| message.name().to_owned());
        let enums = file.enum_type.iter().map(|kind| kind.name().to_owned());
        for name in messages.chain(enums).filter(|_| file.package() == "bourg.v1") {
            build =
                build.extern_path(format!(".bourg.v1.{name}"), format!("::formats::v1::{name}"));
        }
        file.service.clear();
    }
    build.compile_fds(descriptors)?;
    Ok(())
}

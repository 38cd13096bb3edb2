//! Compiles the protobuf files to Rust types with their canonical JSON. Pure Rust: no protoc.

use std::path::PathBuf;

use prost::Message;

/// Lists that may be present but empty, which protobuf only supports with messages. Their JSON is
/// the plain list, as people write it, and not that of protobuf.
const LISTS: [&str; 3] = [
    ".bourg.v1.TaskOverride.Ports",
    ".bourg.v1.TaskOverride.Constraints",
    ".bourg.v1.MachineReport.Held",
];
/// Job descriptions, whose JSON is terse: fields with their default values are omitted. All other
/// messages have all their fields except absent messages, so that a program that reads a field
/// finds it, even if it is 0.
const DESCRIPTION: [&str; 12] = [
    ".bourg.v1.Autoscale",
    ".bourg.v1.Constraint",
    ".bourg.v1.CpuRam",
    ".bourg.v1.DisruptionBudget",
    ".bourg.v1.JobSpec",
    ".bourg.v1.HealthCheck",
    ".bourg.v1.LogPolicy",
    ".bourg.v1.MetricsPage",
    ".bourg.v1.RestartPolicy",
    ".bourg.v1.TaskFile",
    ".bourg.v1.TaskOverride",
    ".bourg.v1.UpdatePolicy",
];

/// Enums whose JSON is one of our words, such as `running`, or the number of a value that this
/// version does not know (`api::word`).
const WORDS: [&str; 11] = [
    "Band",
    "ChangeKind",
    "Health",
    "JobState",
    "MachineState",
    "MemberState",
    "PackageKind",
    "ProblemKind",
    "ReschedulingState",
    "TaskState",
    "UpdateState",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from("proto");
    let files = [
        "job",
        "cell",
        "replica",
        "credential",
        "events",
        "borglet",
        "scheduling",
        "borgmaster",
        "enrolment",
        "exec",
        "names",
        "past",
        "files",
        "locks",
        "services",
        "package",
        "packages",
        "secrets",
        "outputs",
        "queue_settings",
    ]
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
        .skip_debug([
            ".bourg.v1.JoinResponse",
            ".bourg.v1.JoinToken",
            ".bourg.v1.SetSecretRequest",
            ".bourg.v1.OpenedSecret",
            ".bourg.v1.SecretKey",
        ])
        .extern_path(".google.protobuf.Duration", "crate::Duration");
    for list in LISTS {
        let json = "#[derive(::serde::Serialize, ::serde::Deserialize)] #[serde(transparent)]";
        prost.type_attribute(list, json);
    }
    prost.compile_fds(descriptors)?;
    std::fs::write(out.join("bourg.v1.serde.rs"), json(&encoded)?)?;
    Ok(())
}

/// The code that writes and reads the messages' JSON.
fn json(descriptors: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut builder = pbjson_build::Builder::new();
    builder.btree_map(["."]).exclude(LISTS).register_descriptors(descriptors)?;
    for name in WORDS {
        builder.extern_path(format!(".bourg.v1.{name}"), format!("crate::Word::<{name}>"));
        builder.exclude([format!(".bourg.v1.{name}")]);
    }
    let mut code = builder.generate(&DESCRIPTION, |_| Ok(Vec::new()))?;
    builder.emit_fields().exclude(DESCRIPTION);
    code.extend(builder.generate(&[".bourg.v1"], |_| Ok(Vec::new()))?);
    let code: Vec<u8> = code.into_iter().flat_map(|(_, code)| code).collect();
    let mut code = String::from_utf8(code).map_err(std::io::Error::other)?;
    for name in WORDS {
        // Values are cast to numbers after reading, which only works for enums.
        let word = format!("<crate::Word::<{name}>>()?");
        code = code.replace(&format!("{word} as i32"), &format!("{word}.number()"));
    }
    Ok(code.into_bytes())
}

//! The layers of the architecture, checked with cargo's metadata: dependencies between our crates
//! only point down, and the pure crates cannot reach a socket, a disk or the system's randomness.
//! `ARCHITECTURE.md` has the same picture for people.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};

/// Each of our crates and those of our crates that it may depend on. A crate that is missing here
/// is an error, and so is every other dependency: normal, build and dev dependencies alike. The
/// folder of a crate determines its kind ([`Kind`]).
const LAYERS: &[(&str, &[&str])] = &[
    // The words.
    ("model", &[]),
    ("spec", &["model"]),
    ("event", &["model", "spec"]),
    ("poll", &["model", "spec"]),
    ("chart", &[]),
    // The core.
    ("cell", &["model", "spec", "event", "generator", "script", "diagnostics"]),
    ("bns", &["model", "cell", "script"]),
    ("bcl", &["model", "spec"]),
    ("borglet", &["model", "spec", "poll"]),
    ("reclaim", &["model"]),
    ("autoscale", &["model", "spec"]),
    ("batch", &["model", "spec", "cell", "trace", "script"]),
    ("placement", &["model", "spec", "cell", "script"]),
    ("repack", &["model", "cell", "script"]),
    ("scheduler", &["model", "spec", "cell", "placement", "trace", "script"]),
    ("follower", &["model", "batch", "cell", "scheduler", "script"]),
    ("master", &["model", "spec", "cell", "borglet", "reclaim", "diagnostics"]),
    ("replica", &["model", "cell", "bns", "borglet", "master"]),
    ("trace", &["model", "spec"]),
    // The harness. Random mutations are for tests alone. Tests of the cell and of the scheduler use the harness,
    // too: their libraries do not.
    ("generator", &["model", "spec", "cell"]),
    ("script", &["model", "spec", "cell"]),
    (
        "sim",
        &[
            "model",
            "spec",
            "batch",
            "cell",
            "bns",
            "borglet",
            "placement",
            "follower",
            "master",
            "replica",
            "trace",
            "script",
        ],
    ),
    ("lab", &["model", "spec", "cell", "reclaim", "trace"]),
    // The boundary.
    ("diagnostics", &["model", "spec", "cell"]),
    ("api", &["model", "spec", "event", "poll"]),
    ("formats", &["model", "spec", "event", "poll", "cell", "bns", "api", "generator"]),
    ("replication", &["model", "cell", "master", "replica", "api", "formats"]),
    ("store", &[]),
    ("linux", &[]),
    ("link", &[]),
    ("dns", &["model"]),
    ("rpc", &["model", "api", "link"]),
    ("checkpoint", &["model", "spec", "cell", "api", "formats", "store"]),
    ("package", &["model"]),
    ("package-store", &["model"]),
    ("registry", &[]),
    ("archive", &[]),
    (
        "fuzz-targets",
        &[
            "model",
            "spec",
            "cell",
            "bcl",
            "borglet",
            "replica",
            "trace",
            "api",
            "formats",
            "replication",
            "store",
            "linux",
            "link",
            "dns",
            "rpc",
            "package",
        ],
    ),
    // The shell.
    ("process", &["model", "api", "rpc"]),
    ("client", &["model", "api", "rpc"]),
    ("present", &["model", "spec", "event", "api", "process"]),
    ("command", &["model", "api", "rpc", "process", "client", "present"]),
    ("sigma", &["chart", "model", "api", "rpc", "process", "client", "present"]),
    ("nameserver", &["model", "dns", "process"]),
    (
        "masterd",
        &[
            "model",
            "spec",
            "cell",
            "batch",
            "bns",
            "placement",
            "repack",
            "scheduler",
            "borglet",
            "master",
            "replica",
            "api",
            "formats",
            "store",
            "rpc",
            "checkpoint",
            "diagnostics",
            "replication",
            "dns",
            "nameserver",
            "process",
            "client",
            "sigma",
        ],
    ),
    ("schedulerd", &["model", "cell", "follower", "api", "formats", "rpc", "process"]),
    ("packagesd", &["model", "package", "api", "package-store", "rpc", "process"]),
    (
        "borgletd",
        &[
            "model",
            "spec",
            "borglet",
            "api",
            "dns",
            "linux",
            "store",
            "rpc",
            "nameserver",
            "process",
            "client",
            "package",
            "archive",
        ],
    ),
    ("clientd", &["model", "api", "rpc", "client", "command"]),
    (
        "autoscalerd",
        &["model", "spec", "autoscale", "api", "process", "client", "command", "clientd"],
    ),
    ("proxyd", &["model", "api", "process", "client", "command", "clientd"]),
    ("repackerd", &["model", "api", "process", "client", "command", "clientd"]),
    (
        "dev",
        &[
            "model", "spec", "api", "store", "linux", "rpc", "process", "client", "present",
            "command", "masterd", "borgletd",
        ],
    ),
    (
        "offline",
        &[
            "model",
            "cell",
            "master",
            "replica",
            "sim",
            "api",
            "formats",
            "store",
            "rpc",
            "checkpoint",
            "process",
            "client",
            "command",
            "masterd",
        ],
    ),
    (
        "cli",
        &[
            "model",
            "spec",
            "bcl",
            "api",
            "rpc",
            "process",
            "client",
            "present",
            "command",
            "clientd",
            "autoscalerd",
            "proxyd",
            "repackerd",
            "sigma",
            "package",
            "registry",
            "archive",
        ],
    ),
    (
        "bench",
        &[
            "model",
            "spec",
            "cell",
            "bns",
            "borglet",
            "batch",
            "placement",
            "scheduler",
            "master",
            "replica",
            "sim",
            "trace",
            "reclaim",
            "lab",
            "chart",
            "api",
            "formats",
            "store",
            "linux",
            "package",
            "rpc",
            "checkpoint",
            "process",
            "diagnostics",
            "client",
            "command",
            "masterd",
            "borgletd",
            "dev",
        ],
    ),
    // The program; its tests run it from outside.
    (
        "bourg",
        &[
            "model",
            "spec",
            "cell",
            "api",
            "formats",
            "linux",
            "replication",
            "rpc",
            "store",
            "client",
            "command",
            "masterd",
            "schedulerd",
            "packagesd",
            "borgletd",
            "dev",
            "offline",
            "cli",
            "bench",
        ],
    ),
    ("xtask", &["model", "trace"]),
];

/// What a crate may not depend on, in any way and whatever [`LAYERS`] allows to others, and why.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("sim", "scheduler", "the loop around a scheduler is that of `follower`, which is simulated"),
    ("schedulerd", "scheduler", "the loop around a scheduler is that of `follower`"),
    ("placement", "scheduler", "placement knows no queue"),
    ("placement", "follower", "placement knows no queue"),
    ("scheduler", "follower", "a scheduler does not know how it is driven"),
];

/// Programs beside the cell: clients, their commands and services. What they need of a cell are the words of
/// its API; the state machine stays out of them.
const CLIENTS: &[&str] = &[
    "client",
    "present",
    "command",
    "sigma",
    "clientd",
    "autoscalerd",
    "proxyd",
    "repackerd",
    "cli",
];

#[test]
fn clients_reach_no_state_machine() {
    let metadata = metadata();
    let graph = Graph::of(&metadata);
    let mut refused = Vec::new();
    for name in CLIENTS {
        let linked = graph.reach(&graph.ours(name), |_, kind| kind != DependencyKind::Development);
        let machines = linked.keys().filter(|id| ["cell", "borglet"].contains(&graph.name(id)));
        refused.extend(machines.map(|id| graph.way(&linked, id).join(" → ")));
    }
    assert!(refused.is_empty(), "\n{}\n", refused.join("\n"));
}

/// The kind of a crate, by its folder below `crates/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// `words`, `core`, `harness`: pure logic; no clock, file, socket or thread.
    Pure,
    /// `boundary`: it has effects behind a narrow interface, or implements an external format.
    Boundary,
    /// `shell`, `bin`, and `xtask`: it runs processes and threads.
    Shell,
}

impl Kind {
    fn of(package: &Package) -> Self {
        let folder = package.manifest_path.parent().and_then(|directory| directory.parent());
        match folder.and_then(|folder| folder.file_name()) {
            Some("words" | "core" | "harness") => Self::Pure,
            Some("boundary") => Self::Boundary,
            Some("shell" | "bin") => Self::Shell,
            Some("crates") if package.name.as_str() == "xtask" => Self::Shell,
            folder => panic!("{}: {folder:?} is no folder of the architecture", package.name),
        }
    }
}

/// Runtimes, sockets and system calls: no pure crate may reach one, by any kind of dependency,
/// including those of its tests.
const EFFECTS: &[&str] = &[
    "async-io",
    "async-std",
    "axum",
    "hyper",
    "hyper-util",
    "mio",
    "nix",
    "polling",
    "reqwest",
    "rustls",
    "smol",
    "socket2",
    "tokio",
    "tokio-stream",
    "tonic",
    "tower",
    "ureq",
];

/// The system's randomness, and the system library that provides it: no pure crate may be linked
/// with one, except as in [`RAFT_BRINGS`]. Tests may: property tests draw seeds.
const SYSTEM: &[&str] = &["fastrand", "getrandom", "libc", "rand", "rand_chacha", "rustix"];

/// Crates that are only for tests: only dev dependencies lead to them. Property tests draw seeds,
/// so these crates may be linked with [`SYSTEM`].
const FOR_TESTS: &[&str] = &["generator"];

/// The crate that makes sentences of rejections: above the core, because it knows the command line, and
/// without effects. Tests of pure crates may compare sentences.
const SENTENCES: &str = "diagnostics";

/// The crates of [`SYSTEM`] that `raft` depends on, and why they are allowed: raft-rs draws
/// election timeouts from `rand`, which seeds itself through `getrandom` and `libc`. The replica
/// overwrites each of these draws from its own seed, so none of them decides anything
/// (docs/decisions/002).
const RAFT_BRINGS: &[&str] = &["getrandom", "libc", "rand", "rand_chacha"];

#[test]
fn edges_between_our_crates_point_down_only() {
    let metadata = metadata();
    let packages = metadata.workspace_packages();
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let listed: BTreeSet<&str> = LAYERS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(ours, listed, "crates of the workspace, and crates in LAYERS of {}", file!());

    let mut refused = Vec::new();
    for package in &packages {
        refused.extend(refused_edges(package, &ours));
        // Independent of the table: pure crates depend on nothing that has effects.
        for edge in &package.dependencies {
            let compares = edge.kind == DependencyKind::Development && edge.name == SENTENCES;
            let below = packages.iter().find(|below| below.name.as_str() == edge.name);
            let below = below.filter(|_| !compares);
            if let Some(below) = below.filter(|below| Kind::of(below) > Kind::of(package)) {
                refused.push(format!("{} → {} points up", package.name, below.name));
            }
            let for_tests = FOR_TESTS.contains(&edge.name.as_str());
            if for_tests && edge.kind != DependencyKind::Development {
                refused.push(format!("{} → {} is for tests alone", package.name, edge.name));
            }
        }
    }
    assert!(refused.is_empty(), "\n{}\n", refused.join("\n"));
}

/// What people type: commands, and what runs a whole cell for them. Whatever else needs something of one of these
/// takes it to where both can reach it. The list names all who may depend on each.
const COMMANDS: &[(&str, &[&str])] =
    &[("cli", &["bourg"]), ("dev", &["bourg", "bench"]), ("offline", &["bourg"])];

#[test]
fn only_named_crates_depend_on_command_crates() {
    let metadata = metadata();
    let mut refused = Vec::new();
    for package in metadata.workspace_packages() {
        for (commands, named) in COMMANDS {
            let depends = package.dependencies.iter().any(|edge| edge.name == *commands);
            if depends && !named.contains(&package.name.as_str()) {
                refused.push(format!("{} → {commands}: only {named:?} may", package.name));
            }
        }
    }
    assert!(refused.is_empty(), "\n{}\n", refused.join("\n"));
}

#[test]
fn forbidden_edges_are_not_there() {
    let metadata = metadata();
    let packages = metadata.workspace_packages();
    for (from, to, why) in FORBIDDEN {
        let package = |name: &str| packages.iter().find(|package| package.name.as_str() == name);
        assert!(package(to).is_some(), "FORBIDDEN names {to}, which is no crate of ours");
        let from = package(from).expect("FORBIDDEN names a crate of ours");
        let depends = from.dependencies.iter().any(|edge| edge.name == *to);
        assert!(!depends, "{} → {to} is forbidden: {why}", from.name);
    }
}

#[test]
fn pure_crates_reach_no_effects() {
    let metadata = metadata();
    let graph = Graph::of(&metadata);
    let mut refused = Vec::new();
    for package in metadata.workspace_packages() {
        let name = package.name.as_str();
        if Kind::of(package) != Kind::Pure && name != SENTENCES {
            continue;
        }
        let start = graph.ours(name);
        let tested = graph.reach(&start, |_, _| true);
        refused.extend(found(&graph, name, &tested, EFFECTS, "even for its tests"));
        if FOR_TESTS.contains(&name) {
            continue;
        }
        // Build dependencies and macros are not linked, but must meet the same rule: none needs
        // more.
        let linked = graph.reach(&start, |from, kind| {
            kind != DependencyKind::Development && graph.name(from) != "raft"
        });
        refused.extend(found(&graph, name, &linked, SYSTEM, "except through raft"));
    }
    assert!(refused.is_empty(), "\n{}\n", refused.join("\n"));
}

#[test]
fn raft_brings_exactly_what_is_allowed() {
    let metadata = metadata();
    let graph = Graph::of(&metadata);
    let raft = graph.named("raft").into_iter().next().expect("replica depends on raft");
    let below = graph.reach(&raft, |_, kind| kind != DependencyKind::Development);
    let names: BTreeSet<&str> = below.keys().map(|id| graph.name(id)).collect();
    let brings: Vec<&str> = SYSTEM.iter().copied().filter(|name| names.contains(name)).collect();
    assert_eq!(brings, RAFT_BRINGS, "what raft brings of SYSTEM, and RAFT_BRINGS");
}

/// The maximum number of methods of a gRPC service: one with more has more than one subject.
const METHODS_MAX: usize = 12;

#[test]
fn a_grpc_service_has_one_subject() {
    let mut protos = Vec::new();
    let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../boundary"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "proto") {
                protos.push(std::fs::read_to_string(path).expect("a definition"));
            }
        }
    }
    let services: Vec<_> = protos.iter().flat_map(|proto| methods(proto)).collect();
    assert!(services.iter().any(|(name, _)| *name == "Jobs"), "{services:?}");
    let refused = crowded(&services);
    assert!(refused.is_empty(), "more than {METHODS_MAX} methods: {refused:?}");
}

#[test]
fn the_methods_of_a_service_are_counted() {
    let service = |methods: usize| {
        let method = "  // rpc of a comment\n  rpc Do(Request) returns (stream Response);\n";
        format!("service Jobs {{\n{}}}\nmessage Request {{}}\n", method.repeat(methods))
    };
    let two =
        format!("{}service Names {{\n  rpc Get(A) returns (B);\n}}\n", service(METHODS_MAX + 1));
    assert_eq!(methods(&two), [("Jobs", 13), ("Names", 1)]);
    assert_eq!(crowded(&methods(&two)), [("Jobs", 13)]);
}

/// The services with too many methods.
fn crowded<'a>(services: &[(&'a str, usize)]) -> Vec<(&'a str, usize)> {
    services.iter().filter(|(_, methods)| *methods > METHODS_MAX).copied().collect()
}

/// The services of a protobuf definition, with their numbers of methods.
fn methods(proto: &str) -> Vec<(&str, usize)> {
    let mut services = Vec::new();
    for line in proto.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["service", name, ..] => services.push((name, 0)),
            ["rpc", ..] => {
                services.iter_mut().last().into_iter().for_each(|(_, count)| *count += 1);
            }
            _ => {}
        }
    }
    services
}

/// The dependencies of a package that the layers do not allow, each with the rule.
fn refused_edges(package: &Package, ours: &BTreeSet<&str>) -> Vec<String> {
    let name = package.name.as_str();
    let allowed = LAYERS.iter().find(|(layer, ..)| *layer == name);
    let allowed = allowed.map(|(.., allowed)| *allowed).unwrap_or_default();
    let edges = package.dependencies.iter().filter(|edge| ours.contains(edge.name.as_str()));
    let refused = edges.filter(|edge| !allowed.contains(&edge.name.as_str()));
    refused
        .map(|edge| {
            format!(
                "{name} → {} ({} dependency) is not an edge of the house: {name} may depend on \
                 {{{}}} of our crates and on no other. Edges point down only; see ARCHITECTURE.md.",
                edge.name,
                edge.kind,
                allowed.join(", "),
            )
        })
        .collect()
}

/// The crates of a list that a crate reaches, each with the path to it.
fn found(
    graph: &Graph<'_>,
    name: &str,
    reached: &Reached<'_>,
    list: &[&str],
    but: &str,
) -> Vec<String> {
    let ids = reached.keys().filter(|id| list.contains(&graph.name(id)));
    ids.map(|id| {
        let way = graph.way(reached, id).join(" → ");
        format!("{way}: {name} is pure and may not reach {}, {but}", graph.name(id))
    })
    .collect()
}

/// Every reachable crate, with the one from which it was reached.
type Reached<'a> = BTreeMap<&'a PackageId, Option<&'a PackageId>>;

/// The resolved dependencies of this platform.
struct Graph<'a> {
    metadata: &'a Metadata,
    edges: BTreeMap<&'a PackageId, Vec<(&'a PackageId, DependencyKind)>>,
}

impl<'a> Graph<'a> {
    fn of(metadata: &'a Metadata) -> Self {
        let resolve = metadata.resolve.as_ref().expect("cargo resolves dependencies");
        let mut edges: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for node in &resolve.nodes {
            let below = node.deps.iter().flat_map(|dependency| {
                dependency.dep_kinds.iter().map(|kind| (&dependency.pkg, kind.kind))
            });
            edges.insert(&node.id, below.collect());
        }
        Self { metadata, edges }
    }

    fn name(&self, id: &PackageId) -> &'a str {
        self.metadata[id].name.as_str()
    }

    fn ours(&self, name: &str) -> PackageId {
        let packages = self.metadata.workspace_packages();
        let package = packages.into_iter().find(|package| package.name.as_str() == name);
        package.expect("a crate in LAYERS is in the workspace").id.clone()
    }

    fn named(&self, name: &str) -> Vec<PackageId> {
        let packages = self.metadata.packages.iter();
        let named = packages.filter(|package| package.name.as_str() == name);
        named.map(|package| package.id.clone()).collect()
    }

    /// What a crate reaches over the edges that `follow` accepts. Dev dependencies count only for
    /// the crate itself: those of others are never built.
    fn reach(
        &self,
        start: &PackageId,
        follow: impl Fn(&PackageId, DependencyKind) -> bool,
    ) -> Reached<'a> {
        let (start, _) = self.edges.get_key_value(start).expect("a crate of the graph");
        let mut reached: Reached<'a> = BTreeMap::from([(*start, None)]);
        let mut waiting = vec![*start];
        while let Some(from) = waiting.pop() {
            for (to, kind) in &self.edges[from] {
                let theirs = *kind == DependencyKind::Development && from != *start;
                if !theirs && follow(from, *kind) && !reached.contains_key(to) {
                    reached.insert(to, Some(from));
                    waiting.push(to);
                }
            }
        }
        reached
    }

    /// The names on the path to a crate.
    fn way(&self, reached: &Reached<'_>, id: &PackageId) -> Vec<&'a str> {
        let mut way = vec![self.name(id)];
        let mut from = reached.get(id).copied().flatten();
        while let Some(id) = from {
            way.push(self.name(id));
            from = reached.get(id).copied().flatten();
        }
        way.reverse();
        way
    }
}

/// Cargo's metadata of the workspace, for the present platform: other platforms' dependencies need
/// not be downloaded.
fn metadata() -> Metadata {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let version = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let version = String::from_utf8(version.stdout).expect("rustc writes text");
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.expect("rustc names its host").to_owned();
    MetadataCommand::new()
        .cargo_path(cargo)
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .other_options(["--filter-platform".to_owned(), host])
        .exec()
        .expect("cargo metadata runs")
}

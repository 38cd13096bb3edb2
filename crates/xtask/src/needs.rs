//! What the tests need on this machine: programs and privileges. Missing programs are installed if
//! possible; otherwise the run ends with the command that helps. Nothing is skipped.

use std::env;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::run::{cargo, succeed, succeeds};

/// A program that a test runs.
struct Tool {
    /// Its name, or the path of its file if that is not in the search path.
    program: &'static str,
    /// Its Debian package.
    package: &'static str,
    /// The test that runs it, as a file below `crates/`.
    needed_by: &'static str,
}

/// Every program that a test runs and that a minimal Debian system may lack.
const TOOLS: &[Tool] = &[
    Tool {
        program: "setsid",
        package: "util-linux",
        needed_by: "boundary/linux/tests/system/survive.rs",
    },
    Tool {
        program: "busybox",
        package: "busybox-static",
        needed_by: "boundary/linux/tests/system/image.rs",
    },
    Tool {
        program: "qemu-system-x86_64",
        package: "qemu-system-x86",
        needed_by: "xtask/src/emulated.rs",
    },
    Tool {
        program: "setpriv",
        package: "util-linux",
        needed_by: "boundary/linux/tests/system/rootless.rs",
    },
    Tool {
        program: "unshare",
        package: "util-linux",
        needed_by: "boundary/linux/tests/system/rootless.rs",
    },
    Tool {
        program: "ip",
        package: "iproute2",
        needed_by: "bin/bourg/tests/system/faults/network.rs",
    },
    Tool {
        program: "nsenter",
        package: "util-linux",
        needed_by: "bin/bourg/tests/system/faults/network.rs",
    },
    Tool { program: "bash", package: "bash", needed_by: "bin/bourg/tests/system/faults/starts.rs" },
    Tool {
        program: "fsfreeze",
        package: "util-linux",
        needed_by: "bin/bourg/tests/system/faults/volume.rs",
    },
    Tool {
        program: "mkfs.ext4",
        package: "e2fsprogs",
        needed_by: "bin/bourg/tests/system/faults/volume.rs",
    },
    Tool {
        program: "mount",
        package: "mount",
        needed_by: "bin/bourg/tests/system/faults/volume.rs",
    },
    Tool {
        program: "/usr/lib/postgresql/15/bin/postgres",
        package: "postgresql-15",
        needed_by: "bin/bourg/tests/system/volumes.rs",
    },
    Tool { program: "jsonnet", package: "jsonnet", needed_by: "bin/bourg/tests/system/jsonnet.rs" },
    Tool {
        program: "dig",
        package: "bind9-dnsutils",
        needed_by: "shell/nameserver/tests/server/dig.rs",
    },
    Tool { program: "umoci", package: "umoci", needed_by: "boundary/package/tests/oracles.rs" },
    Tool { program: "skopeo", package: "skopeo", needed_by: "boundary/package/tests/oracles.rs" },
    Tool {
        program: "openssl",
        package: "openssl",
        needed_by: "bin/bourg/tests/system/secrets_in_use.rs",
    },
    Tool { program: "curl", package: "curl", needed_by: "bin/bourg/tests/system/pages.rs" },
    Tool {
        program: "chromium",
        package: "chromium",
        needed_by: "bin/bourg/tests/system/sigma/browser.rs",
    },
    Tool {
        program: "chromedriver",
        package: "chromium-driver",
        needed_by: "bin/bourg/tests/system/sigma/browser.rs",
    },
    Tool {
        program: "java",
        package: "openjdk-17-jre-headless",
        needed_by: "bin/bourg/tests/system/task_view.rs",
    },
    Tool { program: "node", package: "nodejs", needed_by: "bin/bourg/tests/system/task_view.rs" },
    Tool {
        program: "promtool",
        package: "prometheus",
        needed_by: "bin/bourg/tests/system/metrics.rs",
    },
    Tool {
        program: "prometheus",
        package: "prometheus",
        needed_by: "bin/bourg/tests/system/metrics.rs",
    },
    Tool {
        program: "prometheus-node-exporter",
        package: "prometheus-node-exporter",
        needed_by: "bin/bourg/tests/system/every_machine.rs",
    },
    Tool {
        program: "redis-server",
        package: "redis-server",
        needed_by: "shell/bench/src/borglet/work.rs",
    },
    Tool {
        program: "stress-ng",
        package: "stress-ng",
        needed_by: "bin/bourg/tests/system/usage.rs",
    },
    Tool {
        program: "systemd-analyze",
        package: "systemd",
        needed_by: "bin/bourg/tests/system/units.rs",
    },
    Tool {
        program: "/usr/bin/python3",
        package: "python3",
        needed_by: "bin/bourg/tests/system/reflection.rs",
    },
    Tool {
        program: "/usr/lib/python3/dist-packages/grpc/__init__.py",
        package: "python3-grpcio",
        needed_by: "bin/bourg/tests/system/reflection.rs",
    },
    Tool {
        program: "/usr/lib/python3/dist-packages/google/protobuf/__init__.py",
        package: "python3-protobuf",
        needed_by: "bin/bourg/tests/system/reflection.rs",
    },
    Tool {
        program: "/usr/sbin/nginx",
        package: "nginx",
        needed_by: "bin/bourg/tests/system/example_images.rs",
    },
    Tool {
        program: "/usr/lib/python3/dist-packages/flask/__init__.py",
        package: "python3-flask",
        needed_by: "bin/bourg/tests/system/example_images.rs",
    },
    Tool {
        program: "docker-registry",
        package: "docker-registry",
        needed_by: "boundary/registry/tests/images/registries.rs",
    },
    Tool {
        program: "htpasswd",
        package: "apache2-utils",
        needed_by: "boundary/registry/tests/images/registries.rs",
    },
];

/// Checks that everything the tests need is available.
///
/// # Errors
/// The missing programs, and the command that installs them.
pub(crate) fn for_tests() -> anyhow::Result<()> {
    programs()?;
    ensure!(
        is_root()?,
        "the system tests start real tasks with cgroups and mounts of their own, which only root \
         may: run `sudo env \"PATH=$PATH\" \"HOME=$HOME\" cargo xtask test`\n\
         (the tests that need no root: cargo test --workspace --exclude bourg --exclude linux \
         --exclude store)"
    );
    Ok(())
}

/// Checks that the programs for the tests are installed.
///
/// # Errors
/// The missing programs, and the command that installs them.
pub(crate) fn programs() -> anyhow::Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !is_there(tool.program)).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing, is_root()?) }
}

/// Checks that a C++ compiler is installed, which libFuzzer needs.
///
/// # Errors
/// The missing programs, and the command that installs them.
pub(crate) fn for_fuzzing() -> anyhow::Result<()> {
    let compiler = Tool { program: "c++", package: "g++", needed_by: "xtask/src/fuzz.rs" };
    if is_there(compiler.program) { Ok(()) } else { install(&[&compiler], is_root()?) }
}

/// Checks that rustfmt and clippy are installed.
///
/// # Errors
/// The missing component, and the command that installs it.
pub(crate) fn for_lints() -> anyhow::Result<()> {
    for component in ["clippy", "rustfmt"] {
        let command = if component == "rustfmt" { "fmt" } else { component };
        if succeeds(&mut cargo(&[command, "--version"])) {
            continue;
        }
        let add = ["component", "add", component];
        ensure!(
            is_there("rustup"),
            "{component} is missing: install Rust with rustup, then run `rustup {}`",
            add.join(" ")
        );
        succeed(Command::new("rustup").args(add))?;
    }
    Ok(())
}

/// Whether `cargo nextest` is installed. It runs each test in its own process and kills one that
/// hangs. Compiling it takes minutes, so it is used if installed, but not installed automatically.
pub(crate) fn has_nextest() -> bool {
    succeeds(&mut cargo(&["nextest", "--version"]))
}

fn install(missing: &[&Tool], root: bool) -> anyhow::Result<()> {
    let mut packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    let command = format!("apt-get install --no-install-recommends {}", packages.join(" "));
    for tool in missing {
        eprintln!("{} is missing, which {} runs", tool.program, tool.needed_by);
    }
    if !root || !is_there("apt-get") {
        bail!("programs that tests run are missing: as root, on Debian, run `{command}`");
    }
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        apt.stdin(std::process::Stdio::null());
        apt
    };
    succeed(&mut apt(&["update"]))?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(packages);
    succeed(&mut apt(&arguments))?;
    match missing.iter().find(|tool| !is_there(tool.program)) {
        None => Ok(()),
        Some(tool) => bail!("{} is installed and {} is still missing", tool.package, tool.program),
    }
}

/// Whether a program is installed.
fn is_there(program: &str) -> bool {
    find(program).is_some()
}

/// The path of a program: in the search path, or in root's directories.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut places = env::split_paths(&path).chain(system);
    // Joining an absolute path replaces the directory.
    places.find_map(|directory| Some(directory.join(program)).filter(|path| path.is_file()))
}

/// Whether this process has root's privileges.
fn is_root() -> anyhow::Result<bool> {
    let own = std::fs::metadata("/proc/self").context("/proc is needed, so this must be Linux")?;
    Ok(own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_run_by_the_test_that_needs_it() {
        for tool in TOOLS {
            let path = crate::run::root().join("crates").join(tool.needed_by);
            let source = std::fs::read_to_string(&path).expect(tool.needed_by);
            let program = format!("\"{}\"", tool.program);
            assert!(source.contains(&program), "{} does not run {program}", tool.needed_by);
        }
    }

    #[test]
    fn programs_are_looked_for_in_the_path() {
        assert!(is_there("sh"));
        assert!(!is_there("no-program-has-this-name"));
    }
}

//! Other runtimes, if they are on this machine: whole runs of a program that ends at once.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::json;

use super::{has, make_directory, median_ms};

/// Medians; `None` if a program is not here.
#[derive(Debug, Default, Serialize)]
pub(super) struct Runtimes {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runc_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) podman_ms: Option<f64>,
}

/// Runs `true` in the image of a layout.
pub(super) fn measure(layout: &Path, place: &Path, runs: u32) -> anyhow::Result<Runtimes> {
    let mut found = Runtimes::default();
    if !has("runc") {
        return Ok(found);
    }
    found.runc_ms = Some(runc(&place.join("bundle"), runs)?);
    if has("podman") {
        found.podman_ms = Some(podman(layout, &place.join("podman"), runs)?);
    }
    Ok(found)
}

/// A bundle with the files of the image.
fn runc(bundle: &Path, runs: u32) -> anyhow::Result<f64> {
    let root = bundle.join("rootfs");
    for name in ["bin", "etc", "tmp", "proc", "dev", "sys"] {
        make_directory(&root.join(name))?;
    }
    let busybox = super::image::busybox()?;
    fs::copy(busybox, root.join("bin/busybox"))
        .with_context(|| format!("cannot copy {busybox}"))?;
    std::os::unix::fs::symlink("busybox", root.join("bin/true"))?;
    quietly(Command::new("runc").arg("spec").current_dir(bundle))?;
    let path = bundle.join("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
    config["process"]["args"] = json!(["/bin/true"]);
    config["process"]["terminal"] = json!(false);
    fs::write(&path, serde_json::to_vec(&config)?)?;
    let id = format!("bourg-bench-{}", std::process::id());
    several(runs, |run| {
        let mut command = Command::new("runc");
        command.arg("run").arg("--bundle").arg(bundle).arg(format!("{id}-{run}"));
        command
    })
}

/// A storage of its own, which is removed with the place.
fn podman(layout: &Path, storage: &Path, runs: u32) -> anyhow::Result<f64> {
    make_directory(storage)?;
    let with_storage = || {
        let mut command = Command::new("podman");
        command.arg("--root").arg(storage.join("root"));
        command.arg("--runroot").arg(storage.join("run"));
        command.args(["--runtime", "runc"]);
        command
    };
    let source = format!("oci:{}", layout.display());
    quietly(with_storage().args(["pull", "--quiet", &source]))?;
    let mut images = with_storage();
    images.args(["images", "--quiet"]).stdin(Stdio::null());
    let images = images.output().context("cannot run podman")?;
    let image = String::from_utf8_lossy(&images.stdout).trim().to_owned();
    let median = several(runs, |_| {
        let mut command = with_storage();
        command.args(["run", "--rm", "--network", "none"]);
        // Those that podman sets by default may be more than this machine allows.
        command.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]);
        command.args([&image, "/bin/true"]);
        command
    });
    // It keeps mounts.
    quietly(with_storage().args(["system", "reset", "--force"]))?;
    median
}

/// The median of runs after one that does not count.
fn several(runs: u32, command: impl Fn(u32) -> Command) -> anyhow::Result<f64> {
    let mut times: Vec<Duration> = Vec::new();
    for run in 0..=runs {
        let begun = Instant::now();
        quietly(&mut command(run))?;
        if run > 0 {
            times.push(begun.elapsed());
        }
    }
    Ok(median_ms(times))
}

fn quietly(command: &mut Command) -> anyhow::Result<()> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("cannot run {shown}"))?;
    ensure!(done.status.success(), "{shown}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}

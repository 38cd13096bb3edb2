//! The process itself, as the kernel knows it.

use std::fmt;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::resource::{UsageWho, getrusage};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::gauge;

/// The process that it was made in. What the kernel does not tell is left out.
#[derive(Debug)]
pub struct Process {
    /// Since 1970, in seconds.
    started: f64,
}

impl Process {
    /// This process.
    pub fn this() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Looked up once: the wall clock may be set later.
        Self { started: now.as_secs_f64() - age_seconds().unwrap_or(0.0) }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        gauge(
            encoder,
            "bourg_process_start_time_seconds",
            "When the process started, since 1970.",
            self.started,
        )?;
        if let Some(bytes) = resident_bytes() {
            let help = "Memory of the process that is resident.";
            gauge(encoder, "bourg_process_resident_memory_bytes", help, bytes)?;
        }
        if let Some(seconds) = cpu_seconds() {
            let (name, help) = ("bourg_process_cpu_seconds", "CPU time of the process.");
            let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(seconds).encode(counter)?;
        }
        if let Some(open) = open_descriptors() {
            let help = "File descriptors that the process has open.";
            gauge(encoder, "bourg_process_open_fds", help, open)?;
        }
        Ok(())
    }
}

/// How long ago the kernel started it.
#[expect(clippy::cast_precision_loss, reason = "ticks that are shown as seconds")]
fn age_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The 22nd field, counted behind the program's name, which may have spaces in it.
    let started: u64 = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    Some((uptime - started as f64 / ticks as f64).max(0.0))
}

fn resident_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split_whitespace().nth(1)?.parse().ok()?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * u64::try_from(page).ok()?)
}

#[expect(clippy::cast_precision_loss, reason = "microseconds that are shown as seconds")]
fn cpu_seconds() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1_000_000.0;
    Some(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn open_descriptors() -> Option<u64> {
    // The one that lists them is none.
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(listed.saturating_sub(1) as u64)
}

//! Metrics of the process itself: what the kernel says of it, and when its certificate expires.

use std::fmt;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::resource::{UsageWho, getrusage};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use rpc::Rotating;

use super::gauge;

/// Metrics of the current process. Values that the kernel does not provide are omitted.
#[derive(Debug)]
pub struct Process {
    /// The start time, in seconds since 1970.
    started: f64,
    /// What it serves with.
    credentials: Rotating,
}

impl Process {
    /// The current process, which serves with these credentials.
    pub fn with(credentials: Rotating) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Computed once, since the wall clock may be set later.
        Self { started: now.as_secs_f64() - age_seconds().unwrap_or(0.0), credentials }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        gauge(
            encoder,
            "bourg_process_start_time_seconds",
            "Start time of the process, since 1970.",
            self.started,
        )?;
        let expires = self.credentials.credentials().expires();
        let expires = expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let help = "When the certificate of the process expires, since 1970.";
        gauge(encoder, "bourg_certificate_expiry_timestamp_seconds", help, expires)?;
        if let Some(bytes) = resident_bytes() {
            let help = "Resident memory of the process.";
            gauge(encoder, "bourg_process_resident_memory_bytes", help, bytes)?;
        }
        if let Some(seconds) = cpu_seconds() {
            let (name, help) = ("bourg_process_cpu_seconds", "CPU time of the process.");
            let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(seconds).encode(counter)?;
        }
        if let Some(open) = open_descriptors() {
            let help = "Open file descriptors of the process.";
            gauge(encoder, "bourg_process_open_fds", help, open)?;
        }
        Ok(())
    }
}

/// The seconds since the kernel started the process.
#[expect(clippy::cast_precision_loss, reason = "seconds for display")]
fn age_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The 22nd field, counted from behind the program's name, which may contain spaces.
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

#[expect(clippy::cast_precision_loss, reason = "seconds for display")]
fn cpu_seconds() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1_000_000.0;
    Some(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn open_descriptors() -> Option<u64> {
    // Exclude the descriptor that lists the directory.
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(listed.saturating_sub(1) as u64)
}

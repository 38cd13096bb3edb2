//! Limits over curves of usage, as tables: a job with a limit of 1,000 milli-cores and 1,024 MiB, with a
//! sample each minute. A table shows every change of its limit, with its reason.

use expect_test::{Expect, expect};
use model::{Appclass, Bytes, MilliCores, Span, Time};
use spec::{Autoscale, CpuRam};

use autoscale::{History, Job, Settings, decide};

fn at(minutes: u64) -> Time {
    Time::ZERO + Span::from_secs(1_000_000 * 300 + 60 * minutes)
}

fn amount(cpu: u64, mib: u64) -> CpuRam {
    CpuRam { cpu: MilliCores(cpu), ram: Bytes(mib << 20) }
}

/// Plays minutes of usage; a task that uses more memory than its limit is killed, and has used its limit.
fn play(appclass: Appclass, minutes: u64, usage: fn(u64) -> CpuRam, expected: &Expect) {
    let settings = Settings::default();
    let mut history = History::new(Span::from_secs(300));
    let autoscale = Autoscale::Full;
    let mut job = Job { autoscale, appclass, limit: amount(1_000, 1_024), changed: None };
    let mut table = String::new();
    for minute in 0..minutes {
        let (now, wanted) = (at(minute), usage(minute));
        let used =
            CpuRam { cpu: wanted.cpu.min(job.limit.cpu), ram: wanted.ram.min(job.limit.ram) };
        history.sample(now, now, used);
        if wanted.ram > job.limit.ram {
            history.ran_out_of_memory(now, job.limit.ram);
        }
        if let Some(change) = decide(now, &job, &history, &settings) {
            table.push_str(&format!("{:>4} min  {change}\n", minute));
            (job.limit, job.changed) = (change.to, Some(now));
        }
    }
    expected.assert_eq(&table);
}

#[test]
fn a_limit_that_is_too_large_falls_once_after_an_hour() {
    let steady = |_| amount(100, 100);
    play(Appclass::LatencySensitive, 1_500, steady, &expect![[r#""#]]);
}

#[test]
fn a_service_keeps_its_peaks_and_batch_forgets_them() {
    let peak = |minute| if minute < 5 { amount(800, 800) } else { amount(100, 100) };
    play(Appclass::LatencySensitive, 2_000, peak, &expect![[r#""#]]);
    play(Appclass::Batch, 2_000, peak, &expect![[r#""#]]);
}

#[test]
fn growing_memory_is_followed_before_it_reaches_the_limit() {
    let ramp = |minute| amount(100, 800 + 2 * minute);
    play(Appclass::LatencySensitive, 600, ramp, &expect![[r#""#]]);
}

#[test]
fn memory_doubles_at_an_end_out_of_memory() {
    let jump = |minute| amount(900, if minute < 10 { 1_000 } else { 7_000 });
    play(Appclass::Batch, 90, jump, &expect![[r#""#]]);
}

#[test]
fn cpu_at_its_limit_grows_step_by_step() {
    let greedy = |_| amount(3_000, 900);
    play(Appclass::Batch, 60, greedy, &expect![[r#""#]]);
}

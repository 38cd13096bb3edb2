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
            table.push_str(&format!("{minute} min  {change}\n"));
            (job.limit, job.changed) = (change.to, Some(now));
        }
    }
    expected.assert_eq(&table);
}

#[test]
fn a_limit_that_is_too_large_falls_once_after_an_hour() {
    let steady = |_| amount(100, 100);
    play(
        Appclass::LatencySensitive,
        1_500,
        steady,
        &expect![[r#"
          60 min  cpu 1 core → 0.12 cores: percentile of 13 windows: 0.1 cores used; ram 1 GiB → 125 MiB: percentile of 13 windows: 100 MiB used
    "#]],
    );
}

#[test]
fn a_service_keeps_its_peaks_and_batch_forgets_them() {
    let peak = |minute| if minute < 5 { amount(800, 800) } else { amount(100, 100) };
    play(
        Appclass::LatencySensitive,
        2_000,
        peak,
        &expect![[r#"
            188 min  cpu 1 core → 0.8 cores: peak-and-decay of 38 windows: 0.8 cores used 3 h 8 m ago
            438 min  cpu 0.8 cores → 0.64 cores: peak-and-decay of 88 windows: 0.8 cores used 7 h 18 m ago
            641 min  cpu 0.64 cores → 0.51 cores: peak-and-decay of 129 windows: 0.8 cores used 10 h 41 m ago
            908 min  cpu 0.51 cores → 0.4 cores: peak-and-decay of 182 windows: 0.8 cores used 15 h 8 m ago
            1156 min  cpu 0.4 cores → 0.32 cores: peak-and-decay of 232 windows: 0.8 cores used 19 h 16 m ago
            1376 min  cpu 0.32 cores → 0.25 cores: peak-and-decay of 276 windows: 0.8 cores used 22 h 56 m ago
            1440 min  cpu 0.25 cores → 0.12 cores: percentile of 288 windows: 0.1 cores used; ram 1 GiB → 125 MiB: percentile of 288 windows: 100 MiB used
        "#]],
    );
    play(
        Appclass::Batch,
        2_000,
        peak,
        &expect![[r#"
            95 min  cpu 1 core → 0.12 cores: percentile of 20 windows: 0.1 cores used
            261 min  ram 1 GiB → 819 MiB: peak-and-decay of 53 windows: 800 MiB used 4 h 21 m ago
            497 min  ram 819 MiB → 655 MiB: peak-and-decay of 100 windows: 800 MiB used 8 h 17 m ago
            686 min  ram 655 MiB → 524 MiB: peak-and-decay of 138 windows: 800 MiB used 11 h 26 m ago
            954 min  ram 524 MiB → 419 MiB: peak-and-decay of 191 windows: 800 MiB used 15 h 54 m ago
            1196 min  ram 419 MiB → 335 MiB: peak-and-decay of 240 windows: 800 MiB used 19 h 56 m ago
            1389 min  ram 335 MiB → 268 MiB: peak-and-decay of 278 windows: 800 MiB used 23 h 9 m ago
            1449 min  ram 268 MiB → 125 MiB: peak-and-decay of 288 windows: 100 MiB used 4 m ago
        "#]],
    );
}

#[test]
fn growing_memory_is_followed_before_it_reaches_the_limit() {
    let ramp = |minute| amount(100, 800 + 2 * minute);
    play(
        Appclass::LatencySensitive,
        600,
        ramp,
        &expect![[r#"
            51 min  ram 1 GiB → 1.1 GiB: percentile of 11 windows: 902 MiB used 1 m ago
            97 min  ram 1.1 GiB → 1.2 GiB: percentile of 20 windows: 994 MiB used 2 m ago
            147 min  ram 1.2 GiB → 1.3 GiB: percentile of 30 windows: 1 GiB used 2 m ago
            202 min  ram 1.3 GiB → 1.4 GiB: percentile of 41 windows: 1.1 GiB used 2 m ago
            262 min  cpu 1 core → 0.12 cores: percentile of 53 windows: 0.1 cores used
            263 min  ram 1.4 GiB → 1.6 GiB: percentile of 53 windows: 1.2 GiB used 3 m ago
            330 min  ram 1.6 GiB → 1.7 GiB: percentile of 67 windows: 1.4 GiB used
            403 min  ram 1.7 GiB → 1.9 GiB: percentile of 81 windows: 1.5 GiB used 3 m ago
            484 min  ram 1.9 GiB → 2.1 GiB: percentile of 97 windows: 1.7 GiB used 4 m ago
            573 min  ram 2.1 GiB → 2.3 GiB: percentile of 115 windows: 1.9 GiB used 3 m ago
        "#]],
    );
}

#[test]
fn memory_doubles_at_an_end_out_of_memory() {
    let jump = |minute| amount(900, if minute < 10 { 1_000 } else { 7_000 });
    play(
        Appclass::Batch,
        90,
        jump,
        &expect![[r#"
            0 min  ram 1 GiB → 1.2 GiB: peak-and-decay of 1 window: 1000 MiB used
            10 min  ram 1.2 GiB → 2.4 GiB: a task ran out of memory at its limit of 1.2 GiB 0 s ago
            11 min  ram 2.4 GiB → 4.8 GiB: a task ran out of memory at its limit of 2.4 GiB 0 s ago
            12 min  ram 4.8 GiB → 9.7 GiB: a task ran out of memory at its limit of 4.8 GiB 0 s ago
        "#]],
    );
}

#[test]
fn cpu_at_its_limit_grows_step_by_step() {
    let greedy = |_| amount(3_000, 900);
    play(
        Appclass::Batch,
        60,
        greedy,
        &expect![[r#"
           0 min  cpu 1 core → 1.15 cores: peak-and-decay of 1 window: 1 core used
           1 min  cpu 1.15 cores → 1.33 cores: peak-and-decay of 1 window: 1.15 cores used 1 m ago
           2 min  cpu 1.33 cores → 1.53 cores: peak-and-decay of 1 window: 1.33 cores used 2 m ago
           3 min  cpu 1.53 cores → 1.76 cores: peak-and-decay of 1 window: 1.53 cores used 3 m ago
           4 min  cpu 1.76 cores → 2.02 cores: peak-and-decay of 1 window: 1.76 cores used 4 m ago
           5 min  cpu 2.02 cores → 2.33 cores: peak-and-decay of 2 windows: 2.02 cores used
           6 min  cpu 2.33 cores → 2.68 cores: peak-and-decay of 2 windows: 2.33 cores used 1 m ago
           7 min  cpu 2.68 cores → 3.08 cores: peak-and-decay of 2 windows: 2.68 cores used 2 m ago
           8 min  cpu 3.08 cores → 3.45 cores: peak-and-decay of 2 windows: 3 cores used 3 m ago
    "#]],
    );
}

//! temp
#![expect(clippy::unwrap_used, missing_docs)]
use linux::cgroup::*;
use linux::record::*;
use linux::task::*;
use std::os::fd::AsFd;
use std::time::Instant;
fn wait(fd: &impl AsFd) {
    let mut f = [nix::poll::PollFd::new(fd.as_fd(), nix::poll::PollFlags::POLLIN)];
    nix::poll::poll(&mut f, nix::poll::PollTimeout::NONE).unwrap();
}
fn main() {
    let exe: std::path::PathBuf = std::env::args().nth(1).unwrap().into();
    let base = tempfile::tempdir().unwrap();
    let mut t = vec![];
    let mut l = vec![];
    let mut e = vec![];
    let mut kids = vec![];
    for i in 0..50 {
        let name = format!("t{i}");
        let launch = Launch {
            label: name.clone(),
            argv: vec!["sleep".into(), "1000".into()],
            env: vec![],
            uid: 61000,
            gid: 61000,
            hostname: "h".into(),
            cgroup: format!("{}/{name}", parent_name(base.path())),
            limits: Limits {
                cpu_milli: 100,
                cpu_hard_cap: false,
                memory_bytes: 64 << 20,
                pids_max: 50,
            },
            log: LogPolicy { file_bytes_max: 1 << 20, files_max: 2 },
            tmp_bytes_max: 1 << 20,
            notice_ms: 1000,
            jail: Jail::host(exe.clone()),
        };
        let d = TaskDirectory::create(base.path(), &name).unwrap();
        let a = Instant::now();
        let s = d.start(&exe, &launch).unwrap();
        l.push(a.elapsed().as_micros());
        wait(&s.ready);
        t.push(a.elapsed().as_micros());
        assert!(matches!(d.inspect().unwrap(), Inspection::Running(_)));
        kids.push((d, s));
    }
    let mut dirty = 0;
    for (_, s) in &kids {
        let r = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", s.shim_pid)).unwrap();
        for f in ["Private_Dirty:"] {
            dirty += r
                .lines()
                .find_map(|x| x.strip_prefix(f))
                .unwrap()
                .trim()
                .trim_end_matches(" kB")
                .parse::<u64>()
                .unwrap();
        }
    }
    println!("private dirty per shim KiB {}", dirty / 50);
    let r = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", kids[0].1.shim_pid)).unwrap();
    println!("{r}");
    let a = Instant::now();
    let mut u: Vec<_> =
        kids.iter().map(|(d, _)| d.cgroup().unwrap().unwrap().usage_reader().unwrap()).collect();
    println!("open {:?}", a.elapsed());
    let a = Instant::now();
    for u in &mut u {
        u.read().unwrap();
    }
    println!("read 50 usage {:?}; mem of one {:?}", a.elapsed(), u[0].read().unwrap());
    let a = Instant::now();
    for (d, _) in &kids {
        d.inspect().unwrap();
    }
    println!("inspect 50 {:?}", a.elapsed());
    for (d, s) in &kids {
        let a = Instant::now();
        d.kill().unwrap();
        wait(&s.shim);
        e.push(a.elapsed().as_micros());
    }
    for (n, v) in [("start()", &mut l), ("ready", &mut t), ("kill to shim end", &mut e)] {
        v.sort();
        println!("{n} us: min {} median {} p90 {} max {}", v[0], v[25], v[45], v[49]);
    }
}

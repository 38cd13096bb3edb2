#[path = "../tests/campaign/table.rs"]
mod table;
use model::Span;
use sim::{Family, Plan, Planted};
use std::sync::atomic::{AtomicU64, Ordering};
use table::Table;
fn main() {
    let mut args = std::env::args().skip(1);
    let (mut from, mut to, mut replicas, mut secs, mut threads) =
        (0u64, 10u64, 3usize, 1800u64, 1usize);
    let mut machines = None;
    let mut only = None;
    let mut planted = None;
    let mut quiet = false;
    let mut shrink = false;
    let mut families = Family::ALL.to_vec();
    while let Some(arg) = args.next() {
        let mut v = || args.next().unwrap();
        match arg.as_str() {
            "--seeds" => {
                let t = v();
                let (a, b) = t.split_once("..").unwrap();
                from = a.parse().unwrap();
                to = b.parse().unwrap();
            }
            "--seed" => {
                from = v().parse().unwrap();
                to = from + 1;
            }
            "--replicas" => replicas = v().parse().unwrap(),
            "--secs" => secs = v().parse().unwrap(),
            "--threads" => threads = v().parse().unwrap(),
            "--machines" => machines = Some(v().parse().unwrap()),
            "--only" => {
                let t = v();
                only = Some(if t == "none" {
                    vec![]
                } else {
                    t.split(',').map(|n| n.parse().unwrap()).collect()
                })
            }
            "--families" => {
                let t = v();
                families = Family::ALL
                    .into_iter()
                    .filter(|f| t.split(',').any(|n| n == f.name()))
                    .collect()
            }
            "--planted" => {
                let t = v();
                planted = Planted::ALL.into_iter().find(|p| format!("{p:?}") == t);
                assert!(planted.is_some());
            }
            "--quiet" => quiet = true,
            "--shrink" => shrink = true,
            other => panic!("{other}"),
        }
    }
    let next = AtomicU64::new(from);
    let failed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= to {
                        break;
                    }
                    let plan = Plan {
                        replicas,
                        machines,
                        only: only.clone(),
                        planted,
                        families: families.clone(),
                        ..Plan::of(seed, Span::from_secs(secs))
                    };
                    let begun = std::time::Instant::now();
                    let verdict = plan.run(Table::default());
                    if verdict.failure.is_some() {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                    if !quiet || verdict.failure.is_some() {
                        println!(
                            "seed {seed}: {:?} {:?} {} rested {:?} {:.1}s failure {:?}",
                            verdict.counts,
                            verdict.machines,
                            &verdict.digest.get(..8).unwrap_or(""),
                            verdict.rested_after,
                            begun.elapsed().as_secs_f64(),
                            verdict.failure
                        );
                    }
                    if from + 1 == to || (shrink && verdict.failure.is_some()) {
                        let (plan, verdict) = if shrink && verdict.failure.is_some() {
                            plan.shrink(Table::default, 200)
                        } else {
                            (plan, verdict)
                        };
                        let mut text = String::new();
                        for (number, (fault, played)) in plan.faults().iter().enumerate() {
                            if *played {
                                text += &format!("  {number}: {fault}\n");
                            }
                        }
                        println!("seed {seed}: {:?}\n{text}", verdict.failure);
                    }
                }
            });
        }
    });
    println!("{} failed of {}", failed.load(Ordering::Relaxed), to - from);
}

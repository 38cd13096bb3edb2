#[path = "../tests/campaign/table.rs"]
mod table;
use sim::Plan;
use table::Table;
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|v| v.parse().unwrap()).collect();
    let lasts = model::Span::from_secs(1_800);
    let begun = std::time::Instant::now();
    let (mut worst, mut slow) = (model::Span(0), std::time::Duration::ZERO);
    for seed in a[0]..a[1] {
        let t = std::time::Instant::now();
        let plan = Plan::of(seed, lasts);
        let verdict = plan.run(Table::default());
        if t.elapsed() > slow {
            slow = t.elapsed();
            println!("{seed} {slow:?} {:?} {}", verdict.counts, verdict.machines);
        }
        worst = worst.max(verdict.rested_after.unwrap_or_default());
        if verdict.failure.is_some() {
            println!("{verdict:?}");
            let (plan, verdict) = plan.shrink(Table::default, 100);
            println!("shrunk {verdict:?}");
            for (n, (fault, played)) in plan.faults().iter().enumerate() {
                if *played {
                    println!("  {n}: {fault}");
                }
            }
            if a.len() < 3 {
                return;
            }
        }
    }
    println!("{:?} worst rest {worst}", begun.elapsed());
}

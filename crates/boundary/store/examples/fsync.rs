//! `cargo run --release -p store --example fsync -- DIRECTORY [BYTES [RUNS]]`: the cost of an
//! append with its sync, compared with a plain write and fdatasync of as many bytes.

use store::measure::{measure_append, measure_fsync};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or("usage: fsync DIRECTORY [BYTES [RUNS]]")?;
    let bytes = args.next().map_or(Ok(4096), |text| text.parse())?;
    let runs = args.next().map_or(Ok(1000), |text| text.parse())?;
    let raw = measure_fsync(&directory, bytes, runs)?;
    let append = measure_append(&directory, bytes, runs)?;
    println!("raw fdatasync  {bytes} bytes: p50 {:?}, p99 {:?}", raw.p50, raw.p99);
    println!("append + sync  {bytes} bytes: p50 {:?}, p99 {:?}", append.p50, append.p99);
    println!("ratio of p50: {:.2}", append.p50.as_secs_f64() / raw.p50.as_secs_f64());
    Ok(())
}

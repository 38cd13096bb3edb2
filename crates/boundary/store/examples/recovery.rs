//! `cargo run --release -p store --example recovery -- DIRECTORY [RECORDS [BYTES]]`: the time to
//! open a log with this many entries and to visit all or some of them.

use std::time::Instant;

use store::history::History;
use store::log::{Log, Options, RecordKind, RecordRef};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let parent = args.next().ok_or("usage: recovery DIRECTORY [RECORDS [BYTES]]")?;
    let records: u64 = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let bytes = args.next().map_or(Ok(100), |text| text.parse())?;
    let directory = std::path::Path::new(&parent).join(format!("recovery-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let measured = measure(&directory, records, bytes);
    std::fs::remove_dir_all(&directory)?;
    measured
}

fn measure(
    directory: &std::path::Path,
    records: u64,
    bytes: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut log, _) = Log::open(directory, Options::default())?;
    let payload = vec![0xB0; bytes];
    let begin = Instant::now();
    let kind = RecordKind::Entry;
    let indexes: Vec<u64> = (1..=records).collect();
    for chunk in indexes.chunks(1000) {
        let batch: Vec<_> = chunk
            .iter()
            .map(|&index| RecordRef { kind, term: 1, index, level: 1, payload: &payload })
            .collect();
        log.append(&batch)?;
    }
    log.sync()?;
    println!("appended {records} records of {bytes} bytes in {:?}", begin.elapsed());
    drop(log);

    let covered = records.saturating_sub(100_000);
    let begin = Instant::now();
    drop(Log::open_from(directory, Options::default(), covered)?);
    println!("opened in {:?} with a checkpoint 100,000 records before the end", begin.elapsed());
    let begin = Instant::now();
    let history = History::open(directory, directory)?;
    let looked = begin.elapsed();
    let mut seen = 0_u64;
    history.for_each(records / 2..=records / 2 + 100_000, |_| {
        seen += 1;
        Ok::<_, store::Error>(())
    })?;
    let read = begin.elapsed() - looked;
    println!("looked at as the past in {looked:?}, with {seen} records in {read:?} more");
    let begin = Instant::now();
    let at = history.last_at(records / 2, |record| Ok::<_, store::Error>(Some(record.index)))?;
    println!("record {at} found by its time in {:?}", begin.elapsed());

    for _ in 0..3 {
        let begin = Instant::now();
        let (_, recovered) = Log::open(directory, Options::default())?;
        let opened = begin.elapsed();
        let mut seen = 0_u64;
        recovered.for_each(0, |record| {
            seen += record.payload.len() as u64;
            Ok::<_, store::Error>(())
        })?;
        let all = begin.elapsed();
        println!("opened in {opened:?}, with all {seen} bytes shown in {all:?}");
    }
    Ok(())
}

//! `cargo run --release -p store --example events -- DIRECTORY [EVENTS [BYTES [BATCH]]]`: how many
//! events with this much payload are appended, read and found per second.

use std::path::Path;
use std::time::{Duration, Instant};

use store::events::{Cursor, Event, Events, Limit, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let parent = args.next().ok_or("usage: events DIRECTORY [EVENTS [BYTES [BATCH]]]")?;
    let mut number = |or| args.next().map_or(Ok(or), |text| text.parse::<usize>());
    let (count, bytes, batch) = (number(5_000_000)?, number(32)?, number(100)?);
    let directory = Path::new(&parent).join(format!("events-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let measured = measure(&directory, count, bytes, batch);
    std::fs::remove_dir_all(&directory)?;
    measured
}

fn measure(
    directory: &Path,
    count: usize,
    bytes: usize,
    batch: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let payload = vec![0xB0; bytes];
    let (mut events, _) = Events::open(directory, Options::default())?;
    let mut waiting = Vec::with_capacity(batch);
    let begin = Instant::now();
    for index in 1..=count as u64 {
        waiting.push(Event { index, sub: 0, time_us: index, payload: &payload });
        if waiting.len() == batch || index == count as u64 {
            events.append(&waiting)?;
            waiting.clear();
        }
    }
    let appended = begin.elapsed();
    events.sync(count as u64)?;
    println!(
        "appended {} ({} a batch), with its sync {}",
        rate(count, appended),
        batch,
        rate(count, begin.elapsed())
    );
    drop(events);

    let begin = Instant::now();
    let (mut events, _) = Events::open(directory, Options::default())?;
    println!("opened in {:?}", begin.elapsed());
    events.resume(count as u64 + 1)?;

    for _ in 0..3 {
        let begin = Instant::now();
        let (mut from, mut seen, mut reader) = (Cursor::START, 0, events.reader());
        loop {
            let next = reader.read(from, Limit::events(1000), |event| {
                seen += usize::from(event.payload.len() == bytes);
                Ok::<_, store::Error>(())
            })?;
            if next == from {
                break;
            }
            from = next;
        }
        println!("read {}", rate(seen, begin.elapsed()));
    }

    let begin = Instant::now();
    let searches = 200;
    for search in 0..searches {
        let at = Cursor::at((count * search / searches) as u64);
        events.reader().read(at, Limit::events(1), |_| Ok::<_, store::Error>(()))?;
    }
    println!("a place found in {:?}", begin.elapsed() / u32::try_from(searches)?);
    let begin = Instant::now();
    for search in 0..searches {
        events.reader().first_at((count * search / searches) as u64)?;
    }
    println!("a time found in {:?}", begin.elapsed() / u32::try_from(searches)?);
    Ok(())
}

fn rate(count: usize, took: Duration) -> String {
    let micros = took.as_micros().max(1);
    format!("{count} events in {took:?}: {} a second", count as u128 * 1_000_000 / micros)
}

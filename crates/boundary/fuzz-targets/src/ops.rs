//! Log records, each behind its length, applied to a cell one after the other: the cell is sound
//! after each, what happened is kept as it was, and at the end it is the cell of its own image.

use api::event::decode;
use cell::{Cell, Event, Mutation, Op};
use formats::event::encode_all;
use formats::image::{read_image, state_hash, write_image};
use formats::log::decode_record;
use prost::bytes::Buf;

/// Larger jobs are passed over: they make a run slow, and no other.
const TASKS_MAX: u32 = 100;

/// More operations than this are not applied.
const OPS_MAX: usize = 200;

pub(crate) fn run(bytes: &[u8]) {
    let mut cell = Cell::empty();
    let mut event = Vec::new();
    let mut rest = bytes;
    for _ in 0..OPS_MAX {
        let Some(record) = next(&mut rest) else { break };
        let Ok((at, op)) = decode_record(record) else { continue };
        if tasks(&op) > TASKS_MAX {
            continue;
        }
        let applied = cell.apply(at, &op);
        assert_eq!(cell.check(), [], "after {op:?}");
        let mut events = applied.events.iter();
        encode_all(&cell, &applied, &mut event, |_, bytes| {
            let kept = decode(bytes).expect("what was written is read").event;
            // A capacity that the format cannot hold is the highest that it can.
            let same = |event: &Event| {
                (event.subject, event.kind.name()) == (kept.subject, kept.kind.name())
            };
            assert!(events.next().is_some_and(same), "{kept:?} of {:?}", applied.events);
        });
    }

    let mut written = Vec::new();
    write_image(&cell.image(), &mut |part| written.extend_from_slice(part));
    let again = read_image(&written).expect("what was written is read");
    let again = Cell::from_image(again).expect("what was a cell is one");
    assert_eq!(state_hash(&again), state_hash(&cell));
    assert_eq!(again.check(), [], "after a restore");
}

/// The next record; the last one may be shorter than its length says.
fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut after = *rest;
    let bytes = usize::from(after.try_get_u16_le().ok()?).min(after.len());
    let (record, after) = after.split_at(bytes);
    *rest = after;
    Some(record)
}

fn tasks(op: &Op) -> u32 {
    match op {
        Op::Request { mutation: Mutation::Submit(spec), .. } => spec.tasks,
        _ => 0,
    }
}

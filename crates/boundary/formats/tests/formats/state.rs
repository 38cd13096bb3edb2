//! Images and state hashes of cells with a history.

use cell::{Cell, Op};
use formats::image::{read_image, state_hash};
use formats::log::{decode_record, encode_record};
use model::{CellName, Time};
use proptest::prelude::*;

use crate::history::{history, parts, replay};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn an_image_is_read_back_as_the_same_cell(ops in history(60)) {
        let cell = replay(&ops);
        let image = cell.image();
        let bytes = parts(&image).concat();
        let read = Cell::from_image(read_image(&bytes).expect("an image")).expect("a cell");
        prop_assert_eq!(read.check(), vec![]);
        prop_assert_eq!(read.image(), image);
        prop_assert_eq!(state_hash(&read), state_hash(&cell));
    }

    #[test]
    fn a_replay_of_the_records_arrives_at_the_same_state(ops in history(60), cut in 0..60_usize) {
        let cell = replay(&ops);
        let records = ops.iter().map(|(at, op)| encode_record(*at, op));
        let read: Vec<_> = records.map(|bytes| decode_record(&bytes).expect("a record")).collect();
        prop_assert_eq!(state_hash(&replay(&read)), state_hash(&cell));

        // And from an image in the middle.
        let (before, after) = ops.split_at(cut.min(ops.len()));
        let bytes = parts(&replay(before).image()).concat();
        let mut resumed = Cell::from_image(read_image(&bytes).expect("an image")).expect("a cell");
        for (at, op) in after {
            resumed.apply(*at, op);
        }
        prop_assert_eq!(state_hash(&resumed), state_hash(&cell));
        prop_assert_eq!(resumed.check(), vec![]);
    }

    #[test]
    fn the_state_hash_differs_where_the_state_does(ops in history(24)) {
        let mut cell = Cell::empty();
        for (at, op) in &ops {
            let before = state_hash(&cell);
            let mut idle = cell.clone();
            idle.apply(*at, &Op::Nothing);
            cell.apply(*at, op);
            prop_assert_ne!(state_hash(&cell), before, "every operation counts");
            // Not only the index: the operation's effect is in the hash.
            prop_assert_eq!(cell.image() == idle.image(), state_hash(&cell) == state_hash(&idle));
        }
    }
}

#[test]
fn an_empty_cell_has_an_image() {
    let bytes = parts(&Cell::empty().image()).concat();
    assert_eq!(read_image(&bytes), Ok(Cell::empty().image()));
}

#[test]
fn a_hash_is_written_in_full_and_short() {
    let mut cell = Cell::empty();
    let name = CellName::new("dev").expect("a name");
    let administrator = "ana".parse().expect("a name");
    cell.apply(Time(1), &Op::Bootstrap { name, administrator });
    let hash = state_hash(&cell);
    assert_eq!(hash.to_string().len(), 64);
    assert_eq!(hash.short(), hash.to_string()[..16]);
    assert!(hash.to_string().chars().all(|c| c.is_ascii_hexdigit()));
}

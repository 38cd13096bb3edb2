//! Damaged and random data: rejected or read as something, never a panic.

use api::event::decode;
use cell::Cell;
use formats::image::{read_image, read_image_json, state_hash};
use formats::log::{decode_record, encode_record};
use formats::v1;
use poll::{Order, Report};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use prost::Message;
use spec::JobSpec;

use crate::arbitrary::event::record;
use crate::arbitrary::op::op;
use crate::arbitrary::{order, report};
use crate::history::{history, parts, replay};
use crate::image_json::json;

/// A small damage.
#[derive(Clone, Debug)]
enum Injury {
    Flip(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
}

fn injuries() -> impl Strategy<Value = Vec<Injury>> {
    let injury = prop_oneof![
        (any::<usize>(), 0..8_u8).prop_map(|(at, bit)| Injury::Flip(at, 1 << bit)),
        (any::<usize>(), vec(any::<u8>(), 1..12)).prop_map(|(at, more)| Injury::Insert(at, more)),
        (any::<usize>(), 1..12_usize).prop_map(|(at, count)| Injury::Remove(at, count)),
    ];
    vec(injury, 1..4)
}

fn injure(bytes: &mut Vec<u8>, injuries: &[Injury]) {
    for injury in injuries {
        let length = bytes.len();
        match injury {
            _ if length == 0 => {}
            Injury::Flip(at, bit) => bytes[at % length] ^= bit,
            Injury::Insert(at, more) => drop(bytes.splice(at % length..at % length, more.clone())),
            Injury::Remove(at, count) => {
                drop(bytes.drain(at % length..(at % length + count).min(length)));
            }
        }
    }
}

/// Decodes the bytes as everything that comes from outside.
fn read_as_everything(bytes: &[u8]) {
    if let Ok((at, op)) = decode_record(bytes) {
        assert_eq!(
            decode_record(&encode_record(at, &op)),
            Ok((at, op)),
            "what is read can be kept"
        );
    }
    if let Ok(image) = read_image(bytes)
        && let Ok(cell) = Cell::from_image(image)
    {
        let _ = cell.check();
        let again = read_image(&parts(&cell.image()).concat()).map(Cell::from_image);
        let again = again.expect("an image").expect("a cell");
        assert_eq!(state_hash(&again), state_hash(&cell), "what is read can be kept");
    }
    if let Ok(event) = decode(bytes) {
        let mut written = Vec::new();
        event.as_ref().encode(&mut written);
        assert_eq!(decode(&written), Ok(event), "what is read can be kept");
    }
    if let Ok(order) = v1::Order::decode(bytes) {
        let _ = Order::try_from(order).map_err(|error| error.to_string());
    }
    if let Ok(report) = v1::Report::decode(bytes) {
        let _ = Report::try_from(report).map_err(|error| error.to_string());
    }
    if let Ok(job) = v1::JobSpec::decode(bytes) {
        let _ = JobSpec::try_from(job).map(|job| job.problems()).map_err(|error| error.to_string());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        read_as_everything(&bytes);
    }

    #[test]
    fn injured_records_never_panic(op in op(), injuries in injuries()) {
        let mut record = encode_record(model::Time(1 << 50), &op);
        injure(&mut record, &injuries);
        read_as_everything(&record);
    }

    #[test]
    fn injured_events_never_panic(event in record(), injuries in injuries()) {
        let mut bytes = Vec::new();
        event.as_ref().encode(&mut bytes);
        injure(&mut bytes, &injuries);
        read_as_everything(&bytes);
    }

    #[test]
    fn injured_orders_and_reports_never_panic(
        order in order(), report in report(), injuries in injuries(),
    ) {
        for mut bytes in
            [v1::Order::from(&order).encode_to_vec(), v1::Report::from(&report).encode_to_vec()]
        {
            injure(&mut bytes, &injuries);
            read_as_everything(&bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn injured_images_never_panic(ops in history(30), many in vec(injuries(), 20)) {
        let bytes = parts(&replay(&ops).image()).concat();
        for injuries in many {
            let mut bytes = bytes.clone();
            injure(&mut bytes, &injuries);
            read_as_everything(&bytes);
        }
    }

    #[test]
    fn injured_json_of_images_never_panics(ops in history(30), many in vec(injuries(), 20)) {
        let text = json(&replay(&ops).image()).into_bytes();
        for injuries in many {
            let mut text = text.clone();
            injure(&mut text, &injuries);
            match read_image_json(text.as_slice()) {
                Ok(image) => {
                    let again = json(&image);
                    let again = read_image_json(again.as_bytes()).expect("an image");
                    prop_assert_eq!(again, image, "what is read can be kept");
                }
                Err(refused) => {
                    let said = refused.to_string();
                    prop_assert!(!said.contains(char::is_control), "{:?}", said);
                }
            }
        }
    }

    #[test]
    fn json_that_is_cut_off_is_refused_wherever_it_is_cut(
        ops in history(30), many in vec(any::<Index>(), 60),
    ) {
        let text = json(&replay(&ops).image());
        // The last line break is insignificant.
        for length in many.iter().map(|at| at.index(text.len() - 1)) {
            let cut = read_image_json(&text.as_bytes()[..length]);
            prop_assert!(cut.is_err(), "cut after {}", length);
        }
    }

    #[test]
    fn an_image_that_is_cut_off_is_refused_wherever_it_is_cut(ops in history(8)) {
        let bytes = parts(&replay(&ops).image()).concat();
        for length in 0..bytes.len() {
            prop_assert!(read_image(&bytes[..length]).is_err(), "cut after {}", length);
        }
    }
}

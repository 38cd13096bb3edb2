//! Bytes and JSON as written since the first level: a change here makes logs, checkpoints and
//! stored events on disks unreadable, unless it comes with a new level.

use std::fmt::Write;
use std::sync::Arc;

use api::event::decode;
use api::json::job_to_json;
use cell::{AddMachine, Cell, Countable, Image, Mutation, Op, Rejection, RequestId};
use expect_test::expect_file;
use formats::image::{read_image, read_image_json, state_hash, write_image_json};
use formats::log::{decode_record, encode_record};
use formats::v1;
use model::{CollectionId, MachineId, SessionId, Time};

use crate::examples::event::all_events;
use crate::examples::image::{
    full_image, image_of_an_enrolled_cell, image_of_an_owned_cell, image_of_rejections,
    resumed_image,
};
use crate::examples::{self, all_ops, full_job, name};
use crate::history::parts;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digit).collect()
}

#[test]
fn records_keep_their_bytes() {
    let at = Time(1_700_000_000_000_000);
    let mut lines = String::new();
    for op in all_ops() {
        let _ = writeln!(lines, "{}: {}", examples::kind(&op), hex(&encode_record(at, &op)));
    }
    let golden = expect_file!["golden/log_records.txt"];
    golden.assert_eq(&lines);
    // The file's content can be read, and not only what was just written.
    let kept = golden.data();
    let read = kept.lines().map(|line| {
        let (_, bytes) = line.split_once(": ").expect("a line");
        decode_record(&unhex(bytes)).expect("a record")
    });
    let written: Vec<_> = all_ops().into_iter().map(|op| (at, op)).collect();
    assert_eq!(read.collect::<Vec<_>>(), written);
}

#[test]
fn a_job_keeps_its_canonical_json() {
    let job = full_job();
    assert_eq!(job.problems(), []);
    expect_file!["golden/job.json"].assert_eq(&format!("{}\n", job_to_json(&job)));
}

#[test]
fn an_image_keeps_its_bytes_and_its_hash() {
    let lines = |(name, image)| {
        let cell = Cell::from_image(image).expect("a cell");
        assert_eq!(cell.check(), [], "{name}");
        let mut lines: Vec<_> = parts(&cell.image()).iter().map(|part| hex(part)).collect();
        lines.push(format!("state hash {}", state_hash(&cell)));
        (name, lines)
    };
    let golden = expect_file!["golden/images.txt"];
    golden.assert_eq(&folded(images().map(lines)));
    for ((name, image), lines) in images().into_iter().zip(unfolded(&golden.data())) {
        let bytes: Vec<u8> = lines[..lines.len() - 1].iter().flat_map(|line| unhex(line)).collect();
        let read = Cell::from_image(read_image(&bytes).expect("an image")).expect("a cell");
        assert_eq!(read.image(), Cell::from_image(image).expect("a cell").image(), "{name}");
    }
}

/// The lines of several images in one text. Of all but the first, lines that the first has are numbers of
/// these, so that a change of what all have is a change of one line.
fn folded<const N: usize>(images: [(&'static str, Vec<String>); N]) -> String {
    let first = images[0].1.clone();
    let mut text = String::new();
    for (place, (name, lines)) in images.into_iter().enumerate() {
        let _ = writeln!(text, "# {name}");
        for line in lines {
            let known = first.iter().position(|known| place > 0 && *known == line);
            let _ = match known {
                Some(number) => writeln!(text, "= {number}"),
                None => writeln!(text, "{line}"),
            };
        }
    }
    text
}

/// The lines of each image in such a text.
fn unfolded(text: &str) -> Vec<Vec<String>> {
    let mut images: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        if line.starts_with("# ") {
            images.push(Vec::new());
            continue;
        }
        let line = match line.strip_prefix("= ") {
            Some(number) => images[0][number.parse::<usize>().expect("a number")].clone(),
            None => line.to_owned(),
        };
        images.last_mut().expect("a name comes first").push(line);
    }
    images
}

/// Each golden image with its name.
fn images() -> [(&'static str, Image); 5] {
    [
        ("image", full_image()),
        ("image-owned", image_of_an_owned_cell()),
        ("image-resumed", resumed_image()),
        ("image-enrolled", image_of_an_enrolled_cell()),
        ("image-rejections", image_of_rejections()),
    ]
}

#[test]
fn an_image_keeps_its_json() {
    let lines = |(name, image)| {
        let mut json = Vec::new();
        write_image_json(&image, &mut json).expect("there is room");
        let json = String::from_utf8(json).expect("text");
        (name, json.lines().map(str::to_owned).collect())
    };
    let golden = expect_file!["golden/images_json.txt"];
    golden.assert_eq(&folded(images().map(lines)));
    for ((name, image), lines) in images().into_iter().zip(unfolded(&golden.data())) {
        let json = lines.join("\n") + "\n";
        assert_eq!(read_image_json(json.as_bytes()).expect("an image"), image, "{name}");
    }
}

#[test]
fn events_keep_their_bytes_and_their_json() {
    let (mut lines, mut json) = (String::new(), String::new());
    for record in all_events() {
        let mut bytes = Vec::new();
        record.as_ref().encode(&mut bytes);
        let _ = writeln!(lines, "{}: {}", examples::event::kind(&record.event), hex(&bytes));
        let message = v1::EventRecord::from(&record);
        let _ = writeln!(json, "{}", serde_json::to_string(&message).expect("JSON"));
    }
    let golden = expect_file!["golden/events.txt"];
    golden.assert_eq(&lines);
    expect_file!["golden/events.jsonl"].assert_eq(&json);
    let kept = golden.data();
    let read = kept.lines().map(|line| {
        let (_, bytes) = line.split_once(": ").expect("a line");
        decode(&unhex(bytes)).expect("an event")
    });
    assert_eq!(read.collect::<Vec<_>>(), all_events());
}

#[test]
fn a_cell_that_has_given_all_its_ids_says_so_after_every_restart() {
    let last = u64::MAX;
    let (last_collection, last_machine) = (CollectionId(last), MachineId(last));
    let mut cell =
        Cell::from_image(Image { last_collection, last_machine, ..full_image() }).expect("a cell");
    let mut submitted = full_job();
    submitted.name = name("other");
    (submitted.after, submitted.parent) = ([].into(), None);
    (submitted.task.secrets, submitted.task.secret_env) = ([].into(), [].into());
    let add = Mutation::AddMachine(AddMachine { name: name("m9"), address: "m9:1".to_owned() });
    let mut full = Vec::new();
    for (sequence, mutation) in (100..).zip([Mutation::Submit(Arc::new(submitted)), add]) {
        let id = RequestId { session: SessionId(1), sequence };
        let op = Op::Request { id, by: name("ana"), mutation };
        full.push(cell.apply(Time(200), &op).outcome);
        let read = read_image(&parts(&cell.image()).concat()).expect("an image");
        cell = Cell::from_image(read).expect("a cell");
        assert_eq!(cell.apply(Time(200), &op).outcome, full[full.len() - 1]);
    }
    let refused = |outcome: &cell::Outcome| match outcome {
        cell::Outcome::Request(Err(Rejection::Full { what, .. })) => Some(what.clone()),
        _ => None,
    };
    let what: Vec<_> = full.iter().filter_map(refused).collect();
    assert_eq!(what, [Countable::JobIds, Countable::MachineIds]);
}

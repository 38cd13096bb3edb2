//! An image of a cell, from a checkpoint or a leader: it is refused, or gives a cell whose image is
//! the same again. A cell that contradicts itself is found out by its check, and one that does not
//! stays sound when all its machines fall silent.

use crate::assert_harmless;
use cell::{Cell, Op};
use formats::image::{read_image, state_hash, write_image};

pub(crate) fn run(bytes: &[u8]) {
    let image = match read_image(bytes) {
        Ok(image) => image,
        Err(error) => return assert_harmless(&error.to_string()),
    };
    let mut cell = match Cell::from_image(image) {
        Ok(cell) => cell,
        Err(error) => return assert_harmless(&error.to_string()),
    };
    let violations = cell.check();
    for violation in &violations {
        assert_harmless(&violation.to_string());
    }
    if !violations.is_empty() {
        return;
    }

    let mut written = Vec::new();
    write_image(&cell.image(), &mut |part| written.extend_from_slice(part));
    let again = read_image(&written).expect("what was written is read");
    let again = Cell::from_image(again).expect("what was a cell is one");
    assert_eq!(state_hash(&again), state_hash(&cell));

    let machines: Vec<_> = cell.machines().map(|machine| machine.id).collect();
    for machine in machines {
        cell.apply(cell.time(), &Op::MachineSilent { machine });
    }
    assert_eq!(cell.check(), [], "after all machines fell silent");
}

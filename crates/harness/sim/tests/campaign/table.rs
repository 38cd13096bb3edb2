//! Operations stored in a table; a payload is an index into it. The events are their debug texts.

use std::cell::RefCell;

use cell::{Applied, Cell, Op};
use model::Time;
use replica::Codec;

/// A codec without a wire format.
#[derive(Debug, Default)]
pub(crate) struct Table(RefCell<Vec<(Time, Op)>>);

impl Codec for Table {
    fn encode(&self, at: Time, op: &Op) -> Vec<u8> {
        let mut table = self.0.borrow_mut();
        table.push((at, op.clone()));
        (table.len() as u64 - 1).to_le_bytes().to_vec()
    }

    fn decode(&self, payload: &[u8]) -> Result<(Time, Op), String> {
        let place: [u8; 8] = payload.try_into().map_err(|_| "not eight bytes".to_owned())?;
        let place = usize::try_from(u64::from_le_bytes(place)).unwrap_or(usize::MAX);
        self.0.borrow().get(place).cloned().ok_or_else(|| "not in the table".to_owned())
    }

    fn is_membership(&self, payload: &[u8]) -> bool {
        matches!(self.decode(payload), Ok((_, Op::ChangeMember { .. })))
    }

    fn events(&self, _: &Cell, applied: &Applied) -> Vec<u8> {
        match applied.events.is_empty() {
            true => Vec::new(),
            false => format!("{:?}", applied.events).into_bytes(),
        }
    }
}

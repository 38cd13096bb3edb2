//! The encoding of operations in the log, for the replica: protobuf.

use std::sync::Arc;

use cell::{Applied, Cell, Op};
use model::Time;

use crate::disk::events;
use crate::metrics::{EvictionMetrics, StartMetrics};

/// The encoding of operations in the log: protobuf.
pub struct Records;

impl replica::Codec for Records {
    fn encode(&self, at: Time, op: &Op) -> Vec<u8> {
        formats::log::encode_record(at, op)
    }

    fn decode(&self, payload: &[u8]) -> Result<(Time, Op), String> {
        formats::log::decode_record(payload).map_err(|error| error.to_string())
    }

    fn is_membership(&self, payload: &[u8]) -> bool {
        formats::log::is_membership(payload)
    }

    fn events(&self, cell: &Cell, applied: &Applied) -> Vec<u8> {
        events::encode(cell, applied)
    }
}

/// The same encoding for a running master, which counts evictions and starts among the events.
pub(crate) struct CountedRecords {
    /// The evictions.
    pub(crate) evictions: Arc<EvictionMetrics>,
    /// Where the time of the starts went.
    pub(crate) starts: StartMetrics,
}

impl replica::Codec for CountedRecords {
    fn encode(&self, at: Time, op: &Op) -> Vec<u8> {
        Records.encode(at, op)
    }

    fn decode(&self, payload: &[u8]) -> Result<(Time, Op), String> {
        Records.decode(payload)
    }

    fn is_membership(&self, payload: &[u8]) -> bool {
        Records.is_membership(payload)
    }

    fn events(&self, cell: &Cell, applied: &Applied) -> Vec<u8> {
        self.evictions.count(cell, applied);
        self.starts.count(cell, applied);
        Records.events(cell, applied)
    }
}

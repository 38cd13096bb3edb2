//! What makes a machine or a replica part of a cell: messages that need no conversion, and one that
//! must not be shown.

use std::fmt;

use crate::v1;

impl fmt::Debug for v1::JoinResponse {
    /// Without the authority's key: what is printed ends in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinResponse")
            .field("cell", &self.cell)
            .field("replica", &self.replica)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_shown() {
        let answer = v1::JoinResponse {
            cell: "cc".to_owned(),
            authority: "a certificate".to_owned(),
            authority_key: "a secret".to_owned(),
            replica: 2,
            replicas: vec![v1::ReplicaAddress { id: 2, address: "m2:7000".to_owned() }],
        };
        let shown = format!("{answer:?}");
        assert!(shown.contains("m2:7000") && !shown.contains("secret"), "{shown}");
    }
}

//! Enrolment of machines and replicas: messages that need no conversion, and two with secrets that
//! must not be printed.

use std::fmt;

use crate::v1;

impl fmt::Debug for v1::JoinResponse {
    /// Omits the authority's key: printed text ends up in log files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinResponse")
            .field("cell", &self.cell)
            .field("replica", &self.replica)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::JoinToken {
    /// Omits the key: printed text ends up in log files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken").field("masters", &self.masters).finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::SecretKey {
    /// Omits the key: printed text ends up in log files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey").field("created", &self.created).finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::OpenedSecret {
    /// Omits the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedSecret")
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::SetSecretRequest {
    /// Omits the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetSecretRequest").field("name", &self.name).finish_non_exhaustive()
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
        let token = v1::JoinToken {
            masters: vec!["m2:7000".to_owned()],
            key: b"a secret".to_vec(),
            ..v1::JoinToken::default()
        };
        for shown in [format!("{answer:?}"), format!("{token:?}")] {
            assert!(shown.contains("m2:7000"), "{shown}");
            assert!(!shown.contains("secret") && !shown.contains("97"), "{shown}");
        }
    }
}

//! mTLS, identities and the services between processes.
//!
//! Every link of a cell is TLS with a certificate at both ends, issued by the cell's own
//! authority, with the identity in the certificate. There is no plaintext port and no anonymous
//! mode, and nothing here could make one: [`transport::serve`] takes credentials, not a
//! configuration, and [`transport::connect`] takes whom to expect. Both take them as [`Rotating`],
//! so that they can be renewed without an end.
//!
//! What is deliberately not here: what an identity may do (quotas, capabilities and revocations
//! are state of the cell), and any decision of a service.
//!
//! - [`identity`]: who a process or a person is, and how a certificate says so
//! - [`authority`]: the cell's certificate authority, made at the first start
//! - [`credentials`]: a certificate with its key, in memory and in files
//! - [`metadata`]: what goes with a request or an answer beside its message
//! - [`request`]: asking for a certificate without giving the key away
//! - [`token`]: what somebody gets who is to become part of the cell
//! - [`service`]: the services between processes, generated from their protobuf definitions
//! - [`transport`]: serving and connecting, and who is at the other end

pub mod authority;
mod certificate;
pub mod credentials;
mod error;
mod files;
pub mod identity;
pub mod metadata;
pub mod request;
mod rotating;
pub mod service;
mod tls;
pub mod token;
pub mod transport;

pub use authority::{Authority, CLOCK_SKEW, Validity};
pub use credentials::Credentials;
pub use error::{Error, Result};
pub use identity::{Expect, Identity, Joining, Role};
pub use request::{NewKey, SigningRequest};
pub use rotating::Rotating;
pub use token::JoinToken;

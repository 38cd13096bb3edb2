//! mTLS, identities and the services between processes.
//!
//! Every connection in a cell uses TLS with certificates at both ends, issued by the cell's own
//! authority and containing the identity. Only the pages for browsers ([`transport::serve_web`]) are
//! served without a client certificate. There is no plaintext port and no anonymous mode, and the
//! API cannot create one: [`transport::serve`] takes credentials instead of a TLS configuration,
//! and [`transport::connect`] takes the expected server. Both take [`Rotating`] credentials, which
//! can be renewed at run time.
//!
//! Not here: authorization (quotas, capabilities and revocations are state of the cell), and the
//! decisions of services.
//!
//! - [`identity`]: identities of processes and people, as text and in certificates
//! - [`authority`]: the cell's certificate authority
//! - [`credentials`]: a certificate with its key, in memory and in files
//! - [`metadata`]: metadata of requests and responses
//! - [`request`]: certificate signing requests
//! - [`statement`]: messages signed with the key of a certificate of the cell
//! - [`token`]: join tokens for machines and replicas
//! - [`service`]: the services between processes, generated from their protobuf definitions
//! - [`transport`]: servers and clients, and the identity of the peer
//! - [`web`]: the certificate of a web server

pub mod authority;
mod certificate;
pub mod credentials;
mod error;
mod files;
pub mod identity;
pub mod metadata;
pub mod request;
pub mod rights;
mod rotating;
pub mod service;
pub mod statement;
mod tls;
pub mod token;
pub mod transport;
pub mod web;

pub use authority::{Authority, CLOCK_SKEW, Validity};
pub use credentials::Credentials;
pub use error::{Error, Result};
pub use identity::{Expect, Identity, Joining, Role};
pub use request::{NewKey, SigningRequest};
pub use rotating::Rotating;
pub use token::JoinToken;
pub use web::WebCredentials;

//! The requests for one image: its manifests and blobs, with the answer to the registry's challenge.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use tokio::sync::Mutex;
use url::Url;

use crate::authentication;
use crate::credentials::CredentialSource;
use crate::digest::BlobDigest;
use crate::error::RegistryError;
use crate::exchange::{Exchange, Reply, Transport};
use crate::manifest::{ACCEPT, Descriptor, MANIFEST_BYTES_MAX};
use crate::reference::ImageReference;
use crate::settings::RegistrySettings;

/// The header with the digest of a manifest.
const DIGEST_HEADER: &str = "docker-content-digest";

/// A manifest as a registry sends it: its digest is checked, its content is not.
#[derive(Clone, Debug)]
pub(crate) struct FetchedManifest {
    pub(crate) digest: BlobDigest,
    /// The type that the registry says it has.
    pub(crate) media_type: Option<String>,
    pub(crate) bytes: Vec<u8>,
}

/// The requests for one image.
#[derive(Debug)]
pub(crate) struct ImageSession {
    transport: Transport,
    image: ImageReference,
    base: Url,
    credentials: CredentialSource,
    standing: Mutex<Authorization>,
}

/// How requests prove who asks.
#[derive(Clone, Debug, Default)]
struct Authorization {
    header: Option<HeaderValue>,
    with_credentials: bool,
}

impl ImageSession {
    /// Finds out how the registry of an image is spoken to.
    pub(crate) async fn open(
        transport: Transport,
        settings: &RegistrySettings,
        image: &ImageReference,
    ) -> Result<Self, RegistryError> {
        let url = |scheme: &str| {
            let text = format!("{scheme}://{}/v2/{}/", image.host(), image.repository());
            let bad = |why: url::ParseError| RegistryError::Settings {
                what: format!("the registry {}", image.registry()),
                why: why.to_string(),
            };
            Url::parse(&text).map_err(bad)
        };
        let tls = url("https")?;
        let plain = settings.insecure && !transport.speaks_tls(&tls).await;
        let base = if plain { url("http")? } else { tls };
        let (image, credentials) = (image.clone(), settings.credentials.clone());
        Ok(Self { transport, image, base, credentials, standing: Mutex::default() })
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The digest of the image's manifest. The registry is asked for the digest alone, if it knows how.
    pub(crate) async fn resolve(&self) -> Result<BlobDigest, RegistryError> {
        let mut exchange = self.exchange(&format!("manifests/{}", self.image.version()))?;
        (exchange.method, exchange.accept) = (Method::HEAD, Some(ACCEPT));
        let reply = self.ask(exchange).await?;
        let digest = digest_of(reply.headers()).filter(|_| reply.status() == StatusCode::OK);
        match (digest, self.image.digest()) {
            (None, _) => self.root().await.map(|manifest| manifest.digest),
            (Some(found), Some(expected)) if found != expected => {
                Err(RegistryError::WrongDigest { url: reply.url(), expected, found })
            }
            (Some(digest), _) => Ok(digest),
        }
    }

    /// The manifest of the image's name.
    pub(crate) async fn root(&self) -> Result<FetchedManifest, RegistryError> {
        self.manifest(&self.image.version(), self.image.digest()).await
    }

    /// A manifest that another one names.
    pub(crate) async fn child(&self, named: &Descriptor) -> Result<FetchedManifest, RegistryError> {
        self.manifest(&named.digest.to_string(), Some(named.digest)).await
    }

    async fn manifest(
        &self,
        version: &str,
        expected: Option<BlobDigest>,
    ) -> Result<FetchedManifest, RegistryError> {
        let mut exchange = self.exchange(&format!("manifests/{version}"))?;
        exchange.accept = Some(ACCEPT);
        let mut attempt = 1;
        loop {
            let mut reply = self.ask(exchange.clone()).await?;
            if reply.status() != StatusCode::OK {
                return Err(self.refusal(reply).await);
            }
            let error = match reply.document("a manifest", MANIFEST_BYTES_MAX).await {
                Ok(bytes) => return checked(&reply, bytes, expected),
                Err(error) => error,
            };
            if !error.may_pass() || !self.transport.wait(attempt, None).await {
                return Err(error);
            }
            attempt += 1;
        }
    }

    /// A blob, from a byte on: the status is 200 if the registry sends it from its begin all the same, 206 if not, and
    /// 416 if it has no such byte.
    pub(crate) async fn blob(&self, digest: BlobDigest, from: u64) -> Result<Reply, RegistryError> {
        let mut exchange = self.exchange(&format!("blobs/{digest}"))?;
        exchange.from = from;
        let reply = self.ask(exchange).await?;
        match reply.status() {
            StatusCode::OK => Ok(reply),
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if from > 0 => {
                Ok(reply)
            }
            // The image itself is there.
            StatusCode::NOT_FOUND => Err(reply.into_error().await),
            _ => Err(self.refusal(reply).await),
        }
    }

    fn exchange(&self, path: &str) -> Result<Exchange, RegistryError> {
        let bad = |why: url::ParseError| RegistryError::Settings {
            what: format!("the name {}", self.image),
            why: why.to_string(),
        };
        // A digest has a colon, and a path that begins with a scheme would be a URL of its own.
        let url = self.base.join(&format!("./{path}")).map_err(bad)?;
        Ok(Exchange::get(url))
    }

    /// Sends a request, and answers the challenge of the registry if there is one.
    async fn ask(&self, mut exchange: Exchange) -> Result<Reply, RegistryError> {
        exchange.authorization = self.standing.lock().await.header.clone();
        let reply = self.transport.exchange(&exchange).await?;
        let challenged = reply.status() == StatusCode::UNAUTHORIZED
            && reply.answered().origin() == self.base.origin();
        if !challenged {
            return Ok(reply);
        }
        match self.prove(&reply, exchange.authorization.as_ref()).await? {
            None => Ok(reply),
            header => {
                exchange.authorization = header;
                self.transport.exchange(&exchange).await
            }
        }
    }

    /// A new header for a request that was refused with `used`; `None` if there is none.
    async fn prove(
        &self,
        reply: &Reply,
        used: Option<&HeaderValue>,
    ) -> Result<Option<HeaderValue>, RegistryError> {
        let mut standing = self.standing.lock().await;
        if standing.header.as_ref() != used {
            // Another request was refused before this one, and has a new header already.
            return Ok(standing.header.clone());
        }
        let credentials =
            self.credentials.find(&self.image, self.transport.patience().helper).await?;
        let header =
            authentication::answer(&self.transport, &self.image, reply, credentials.as_ref())
                .await?;
        *standing =
            Authorization { header: header.clone(), with_credentials: credentials.is_some() };
        Ok(header)
    }

    /// The error for an unexpected response.
    async fn refusal(&self, mut reply: Reply) -> RegistryError {
        let (image, registry) = (self.image.to_string(), self.image.registry().to_owned());
        let of_registry = reply.answered().origin() == self.base.origin();
        match reply.status() {
            StatusCode::NOT_FOUND => {
                RegistryError::NotFound { image, registry, said: reply.words().await }
            }
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) if of_registry => {
                let with_credentials = self.standing.lock().await.with_credentials;
                let (status, said) = (status.as_u16(), reply.words().await);
                RegistryError::Denied { image, registry, status, with_credentials, said }
            }
            _ => reply.into_error().await,
        }
    }
}

/// A manifest whose digest is the one that was asked for, or that the registry says.
fn checked(
    reply: &Reply,
    bytes: Vec<u8>,
    expected: Option<BlobDigest>,
) -> Result<FetchedManifest, RegistryError> {
    let digest = BlobDigest::of(&bytes);
    match expected.or(digest_of(reply.headers())) {
        Some(expected) if expected != digest => {
            Err(RegistryError::WrongDigest { url: reply.url(), expected, found: digest })
        }
        _ => {
            let media_type =
                reply.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let media_type = media_type.and_then(|value| value.split(';').next());
            let media_type = media_type.map(|value| value.trim().to_owned());
            Ok(FetchedManifest { digest, media_type, bytes })
        }
    }
}

fn digest_of(headers: &HeaderMap) -> Option<BlobDigest> {
    headers.get(DIGEST_HEADER)?.to_str().ok()?.parse().ok()
}

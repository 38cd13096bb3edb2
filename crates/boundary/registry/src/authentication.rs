//! Who asks: the answer to a registry's challenge.

use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use url::{Url, form_urlencoded};

use crate::challenge::{Challenge, TokenService};
use crate::credentials::{RegistryCredentials, basic};
use crate::error::RegistryError;
use crate::exchange::{Exchange, Reply, Transport};
use crate::reference::ImageReference;
use crate::words::shown;

/// How many bytes the answer of a token service has at most.
const TOKEN_BYTES_MAX: u64 = 1 << 20;
/// How this client calls itself to a token service.
const CLIENT_ID: &str = "bourg";

/// What a token service answers.
#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

/// The header with which a challenge is answered. `None` if the registry wants credentials, and there are none.
///
/// # Errors
/// The challenge is none that is known, or the token service fails or refuses.
pub(crate) async fn answer(
    transport: &Transport,
    image: &ImageReference,
    reply: &Reply,
    credentials: Option<&RegistryCredentials>,
) -> Result<Option<HeaderValue>, RegistryError> {
    let failed = |why: &str| RegistryError::Token {
        registry: image.registry().to_owned(),
        why: why.to_owned(),
    };
    match Challenge::of(reply.headers()) {
        None => Err(failed(
            "it asks for an authentication that is neither Basic nor Bearer, or for none; it is no registry, or not \
             configured",
        )),
        Some(Challenge::Basic) => match credentials {
            None => Ok(None),
            Some(RegistryCredentials::Password { user, password }) => {
                header(&basic(user, password))
                    .map(Some)
                    .ok_or_else(|| failed("the password has a line break"))
            }
            Some(RegistryCredentials::IdentityToken(_)) => Err(failed(
                "it asks for a password, and `docker login` has kept a token; log in again",
            )),
        },
        Some(Challenge::Bearer(service)) => {
            let url = realm(&service, reply.answered()).map_err(failed)?;
            let exchange = request(url, image, &service, credentials);
            let exchange = exchange.ok_or_else(|| failed("the password has a line break"))?;
            token(transport, image, &exchange).await.map(Some)
        }
    }
}

/// The URL of a token service, which credentials may be sent to.
fn realm(service: &TokenService, registry: &Url) -> Result<Url, &'static str> {
    let url = Url::parse(&service.realm).map_err(|_| "its token service has no URL")?;
    match (url.scheme(), registry.scheme()) {
        _ if !url.username().is_empty() || url.password().is_some() => {
            Err("the URL of its token service has a user or a password")
        }
        ("https", _) | ("http", "http") => Ok(url),
        ("http", _) => {
            Err("its token service is on http, where everybody could read the credentials")
        }
        _ => Err("the URL of its token service is none of HTTP"),
    }
}

/// The request for a token. `None` if the credentials cannot be sent.
fn request(
    mut url: Url,
    image: &ImageReference,
    service: &TokenService,
    credentials: Option<&RegistryCredentials>,
) -> Option<Exchange> {
    let all = format!("repository:{}:pull", image.repository());
    let scope = service.scope.as_deref().unwrap_or(&all);
    let of_service = service.service.as_deref();
    if let Some(RegistryCredentials::IdentityToken(identity)) = credentials {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", identity);
        form.append_pair("client_id", CLIENT_ID).append_pair("scope", scope);
        form.extend_pairs(of_service.map(|service| ("service", service)));
        let mut exchange = Exchange::get(url);
        (exchange.method, exchange.form) = (Method::POST, Some(form.finish()));
        return Some(exchange);
    }
    url.query_pairs_mut()
        .extend_pairs(of_service.map(|service| ("service", service)))
        .append_pair("scope", scope);
    let mut exchange = Exchange::get(url);
    if let Some(RegistryCredentials::Password { user, password }) = credentials {
        exchange.authorization = Some(header(&basic(user, password))?);
    }
    Some(exchange)
}

async fn token(
    transport: &Transport,
    image: &ImageReference,
    exchange: &Exchange,
) -> Result<HeaderValue, RegistryError> {
    let failed = |why: String| RegistryError::Token { registry: image.registry().to_owned(), why };
    let mut reply = transport.exchange(exchange).await?;
    let with_credentials = exchange.authorization.is_some() || exchange.form.is_some();
    match reply.status() {
        StatusCode::OK => {}
        status @ (StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            let (image, registry) = (image.to_string(), image.registry().to_owned());
            let (status, said) = (status.as_u16(), reply.words().await);
            return Err(RegistryError::Denied { image, registry, status, with_credentials, said });
        }
        _ => return Err(reply.into_error().await),
    }
    let document = reply.document("the answer of a token service", TOKEN_BYTES_MAX).await?;
    let answer: TokenAnswer = serde_json::from_slice(&document)
        .map_err(|_| failed(format!("{} did not answer with JSON", reply.url())))?;
    let token = answer.token.or(answer.access_token).filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| failed(format!("{} answered without a token", reply.url())))?;
    let bad =
        || failed(format!("'{}…' is no token", shown(&token.chars().take(8).collect::<String>())));
    header(&format!("Bearer {token}")).ok_or_else(bad)
}

/// A header that is never printed.
fn header(text: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(text).ok()?;
    header.set_sensitive(true);
    Some(header)
}

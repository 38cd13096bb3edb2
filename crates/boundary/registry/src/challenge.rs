//! The header `WWW-Authenticate`: how a registry wants to know who asks.

use hyper::HeaderMap;
use hyper::header::WWW_AUTHENTICATE;

/// How many bytes of a header `WWW-Authenticate` are looked at.
const HEADER_BYTES_MAX: usize = 8 << 10;

/// How a registry wants to know who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A user and a password with each request.
    Basic,
    /// A token of a service.
    Bearer(TokenService),
}

/// The service that gives tokens for a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenService {
    /// Its URL.
    pub(crate) realm: String,
    /// The name of the registry at this service.
    pub(crate) service: Option<String>,
    /// What the token is to allow.
    pub(crate) scope: Option<String>,
}

impl Challenge {
    /// The challenge of a response: a token, if there is a choice. `None` if there is none that is known.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        let all: Vec<Self> =
            texts.filter(|text| text.len() <= HEADER_BYTES_MAX).flat_map(parse).collect();
        let bearer = all.iter().find(|challenge| matches!(challenge, Self::Bearer(_)));
        bearer.or(all.first()).cloned()
    }
}

/// The challenges of one header: `Scheme name="value", name=value, Scheme …`.
fn parse(text: &str) -> Vec<Challenge> {
    let mut challenges = Vec::new();
    let mut rest = text.trim_start_matches([' ', ',', '\t']);
    while !rest.is_empty() {
        let (scheme, behind) = token(rest);
        if scheme.is_empty() {
            // No grammar that this is: what was understood so far counts.
            break;
        }
        let (parameters, behind) = parameters(behind);
        if scheme.eq_ignore_ascii_case("basic") {
            challenges.push(Challenge::Basic);
        } else if scheme.eq_ignore_ascii_case("bearer") {
            let value = |name: &str| {
                let mut named = parameters.iter();
                named
                    .find(|(key, _)| key.eq_ignore_ascii_case(name))
                    .map(|(_, value)| value.clone())
            };
            if let Some(realm) = value("realm") {
                let (service, scope) = (value("service"), value("scope"));
                challenges.push(Challenge::Bearer(TokenService { realm, service, scope }));
            }
        }
        rest = behind;
    }
    challenges
}

/// The parameters of a challenge, and what is behind them: another challenge, or nothing.
fn parameters(text: &str) -> (Vec<(String, String)>, &str) {
    let mut parameters = Vec::new();
    let mut rest = text.trim_start();
    loop {
        rest = rest.trim_start_matches([' ', ',', '\t']);
        let (name, behind) = token(rest);
        let Some(value) = behind.trim_start().strip_prefix('=').filter(|_| !name.is_empty()) else {
            return (parameters, rest);
        };
        let (value, behind) = match value.trim_start().strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let (value, behind) = token(value.trim_start());
                (value.to_owned(), behind)
            }
        };
        parameters.push((name.to_owned(), value));
        rest = behind;
    }
}

/// The characters of a token at the begin of a text, and what is behind them.
fn token(text: &str) -> (&str, &str) {
    let other = |c: char| !(c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:/?".contains(c));
    text.split_at(text.find(other).unwrap_or(text.len()))
}

/// A quoted string without its quotes, and what is behind it.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Option<Challenge> {
        let (service, scope) = (service.map(str::to_owned), scope.map(str::to_owned));
        Some(Challenge::Bearer(TokenService { realm: realm.to_owned(), service, scope }))
    }

    #[test]
    fn challenges_are_parsed() {
        let scope = Some("repository:a/b:pull,push");
        let table = [
            (vec!["Basic realm=\"x\""], Some(Challenge::Basic)),
            (vec!["basic"], Some(Challenge::Basic)),
            (
                vec![
                    "Bearer realm=\"https://a/token\",service=\"s\",scope=\"repository:a/b:pull,push\"",
                ],
                bearer("https://a/token", Some("s"), scope),
            ),
            (
                vec!["BEARER  realm = \"https://a/\\\"t\\\"\""],
                bearer("https://a/\"t\"", None, None),
            ),
            (
                vec!["bearer realm=https://a:1/t , service=s"],
                bearer("https://a:1/t", Some("s"), None),
            ),
            (
                vec!["Basic realm=\"x\", Bearer realm=\"https://a\""],
                bearer("https://a", None, None),
            ),
            (vec!["Basic realm=x", "Bearer Realm=\"y\""], bearer("y", None, None)),
            (vec!["Negotiate", "Basic realm=x"], Some(Challenge::Basic)),
            (vec!["Bearer service=\"s\""], None),
            (vec!["Bearer realm=\"never closed"], bearer("never closed", None, None)),
            (vec!["=,\"\"", "\u{1}"], None),
            (vec![""], None),
            (vec![], None),
        ];
        for (values, expected) in table {
            let mut headers = HeaderMap::new();
            for value in &values {
                if let Ok(value) = value.parse() {
                    headers.append(WWW_AUTHENTICATE, value);
                }
            }
            assert_eq!(Challenge::of(&headers), expected, "{values:?}");
        }
    }
}

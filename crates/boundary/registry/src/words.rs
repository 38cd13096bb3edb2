//! Texts from outside, as errors show them.

/// How many characters of a text of a server or a user an error shows at most.
const SHOWN_CHARACTERS_MAX: usize = 200;

/// What a server says of an error, in its own words: cut, and with control characters escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerWords(Option<String>);

impl ServerWords {
    /// The message in the body of an error, as registries send it.
    pub(crate) fn of_body(body: &[u8]) -> Self {
        let json: Option<serde_json::Value> = serde_json::from_slice(body).ok();
        let of_error = |key: &str| json.as_ref()?.pointer("/errors/0")?.get(key)?.as_str();
        let of_token = || json.as_ref()?.get("details")?.as_str();
        let words = of_error("message").or_else(|| of_error("code")).or_else(of_token);
        Self(words.filter(|words| !words.trim().is_empty()).map(shown))
    }
}

impl std::fmt::Display for ServerWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.as_ref().map_or(Ok(()), |words| write!(f, " (the server says: {words})"))
    }
}

/// A text from outside as errors show it: cut, and with control characters escaped.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown.escape_debug().to_string()
}

/// The message of an error with those of its causes that it does not contain.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let of_cause = cause.to_string();
        if !text.contains(&of_cause) {
            text = format!("{text}: {of_cause}");
        }
        source = cause.source();
    }
    text
}

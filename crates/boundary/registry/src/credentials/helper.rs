//! Programs that keep credentials: `docker-credential-NAME get` reads the name of a registry, and writes the user and
//! the password.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::credentials::RegistryCredentials;
use crate::words::shown;

/// How many bytes are read at most of each stream of a program that keeps credentials.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
/// The user that stands for an identity token.
const TOKEN_USER: &str = "<token>";
/// What such a program writes if it has no credentials for a registry.
const NOT_FOUND: &str = "credentials not found";

/// What such a program writes.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperOutput {
    username: String,
    secret: String,
}

/// Asks the program `docker-credential-NAME` for the credentials of a registry; `None` if it has none.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) async fn ask(
    name: &str,
    registry: &str,
    wait: Duration,
) -> Result<Option<RegistryCredentials>, String> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || !name.bytes().all(word) {
        return Err("its name may have letters, digits, '_', '-' and '.' only".to_owned());
    }
    let mut command = Command::new(format!("docker-credential-{name}"));
    command.arg("get").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| error.to_string())?;
    let asked = timeout(wait, talk(child, registry)).await;
    asked.map_err(|_| format!("it did not answer within {} s", wait.as_secs_f32()))?
}

async fn talk(mut child: Child, registry: &str) -> Result<Option<RegistryCredentials>, String> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that ends without reading says why by its status.
            let _closed = stdin.write_all(registry.as_bytes()).await;
        }
    };
    let ((), output, errors) = tokio::join!(write, read(stdout), read(stderr));
    let (output, errors) = (output?, errors?);
    let status = child.wait().await.map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !status.success() {
        let said = [text(&output), text(&errors)].join(" ");
        return match said.contains(NOT_FOUND) {
            true => Ok(None),
            false => Err(format!("it failed ({status}): {}", shown(said.trim()))),
        };
    }
    let output: HelperOutput = serde_json::from_slice(&output)
        .map_err(|_| "it wrote no JSON with Username and Secret".to_owned())?;
    Ok(match (output.username.as_str(), output.secret) {
        (_, secret) if secret.is_empty() => None,
        (TOKEN_USER, token) => Some(RegistryCredentials::IdentityToken(token)),
        (user, password) => Some(RegistryCredentials::Password { user: user.to_owned(), password }),
    })
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let mut stream = stream.take(OUTPUT_BYTES_MAX + 1);
        stream.read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
    }
    match bytes.len() as u64 > OUTPUT_BYTES_MAX {
        true => Err(format!("it wrote more than {OUTPUT_BYTES_MAX} bytes")),
        false => Ok(bytes),
    }
}

//! Images as tests make them, servers that do what a test says, and clients of both.

pub(crate) mod image;
pub(crate) mod server;
pub(crate) mod shelf;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use registry::{
    DownloadProgress, DownloadedImage, ImageReference, Patience, Platforms, RegistryClient,
    RegistryError, RegistrySettings,
};

/// How long a test waits for what is to come at once.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Settings for a server of a test: plain HTTP, and little patience between attempts.
pub(crate) fn impatient() -> RegistrySettings {
    let patience = Patience { backoff: Duration::from_millis(1), ..Patience::default() };
    RegistrySettings { insecure: true, patience, ..RegistrySettings::default() }
}

/// Downloads an image for every platform.
pub(crate) async fn download(
    settings: RegistrySettings,
    name: &str,
    into: &Path,
) -> Result<DownloadedImage, RegistryError> {
    download_for(settings, name, &Platforms::All, into).await
}

/// Downloads an image for some platforms, and checks what is told of the progress.
pub(crate) async fn download_for(
    settings: RegistrySettings,
    name: &str,
    platforms: &Platforms,
    into: &Path,
) -> Result<DownloadedImage, RegistryError> {
    let image: ImageReference = name.parse().expect(name);
    let told = Arc::new(Mutex::new(DownloadProgress::default()));
    let last = Arc::clone(&told);
    let report = Arc::new(move |progress: DownloadProgress| {
        let mut last = last.lock().unwrap();
        if progress.bytes_done >= last.bytes_done || progress.blobs_done > last.blobs_done {
            *last = progress;
        }
    });
    let client = RegistryClient::new(settings)?;
    let download = client.download(&image, platforms, into, report);
    let downloaded = tokio::time::timeout(SOON * 4, download).await.expect("a bounded time")?;
    let told = *told.lock().unwrap();
    assert_eq!((told.blobs, told.bytes), (told.blobs_done, told.bytes_done), "{told:?}");
    assert_eq!(told.bytes, downloaded.bytes);
    Ok(downloaded)
}

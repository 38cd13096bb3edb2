//! What a registry does that has one image, so that a test has to say only what goes wrong.

use registry::BlobDigest;

use super::image::TestImage;
use super::server::{Answer, TestRequest};

/// Answers a request for an image as a registry does, under every name and tag.
pub(crate) fn serve(image: &TestImage, request: &TestRequest) -> Answer {
    let path = request.target.split('?').next().unwrap();
    let (rest, last) = path.rsplit_once('/').unwrap();
    let digest: Option<BlobDigest> = last.parse().ok();
    if rest.ends_with("/manifests") {
        let below = digest.and_then(|digest| image.manifests.get(&digest));
        let (media_type, manifest) = match below {
            Some((media_type, manifest)) => (media_type, manifest),
            None if digest.is_none_or(|digest| digest == image.digest()) => {
                (&image.media_type, &image.manifest)
            }
            None => return missing(),
        };
        let digest = BlobDigest::of(manifest).to_string();
        return Answer::whole(200, manifest.clone())
            .with("Content-Type", media_type)
            .with("Docker-Content-Digest", digest);
    }
    match digest.and_then(|digest| image.blobs.get(&digest)) {
        None => missing(),
        Some(blob) => ranged(blob, request),
    }
}

/// The part of a blob that a request wants.
pub(crate) fn ranged(blob: &[u8], request: &TestRequest) -> Answer {
    match first(request) {
        0 => Answer::whole(200, blob),
        from => {
            let range = format!("bytes {from}-{}/{}", blob.len() - 1, blob.len());
            Answer::whole(206, &blob[from..]).with("Content-Range", range)
        }
    }
}

/// The first byte that a request wants.
pub(crate) fn first(request: &TestRequest) -> usize {
    let range = request.header("range");
    range.map_or(0, |range| range[6..].trim_end_matches('-').parse().unwrap())
}

pub(crate) fn missing() -> Answer {
    Answer::whole(404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#)
}

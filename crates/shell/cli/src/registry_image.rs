//! Images that a file names as they are called in a registry: `registry.example/team/app:1.27`.
//!
//! A tag can mean another image every day, and a cell runs what it was told. So a command that submits the file asks
//! the registry once which digest is meant. The digest is part of the version of the package that the image becomes.

use api::v1;
use client::Connection;
use command::{Failure, output};
use model::{PackageName, PackageReference, PackageVersion};
use package::archive::ImportOptions;
use registry::{BlobDigest, ImageReference, Platforms, RegistryClient};
use serde::{Deserialize, Serialize};

use crate::package::Readers;
use crate::package::registries::RegistryArgs;
use crate::package::upload::NewVersion;

/// How many digits of the registry's digest are in a version.
const DIGITS: usize = 16;
/// How much of a tag is in a version, in characters: the rest of a version is for the digits.
const TAG_CHARACTERS: usize = model::PACKAGE_VERSION_CHARACTERS_MAX - DIGITS - 1;
/// How long the name of a package is at most, in characters.
const NAME_CHARACTERS: usize = 63;

/// An image of a registry that becomes a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RegistryImage {
    /// As the file names it.
    pub(crate) reference: String,
    /// The reference in the jobs that stands for it, until its version is known.
    pub(crate) placeholder: String,
}

/// Which image is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedImage {
    /// With the digest, so that the tag may move meanwhile.
    image: ImageReference,
    name: PackageName,
    pub(crate) version: PackageVersion,
    /// The versions that the same tag had begin with this; `None` if no tag is named.
    of_tag: Option<String>,
}

impl RegistryImage {
    /// An image that a file names.
    ///
    /// # Errors
    /// If that is no image, or says neither a tag nor a digest: the reason.
    pub(crate) fn new(reference: &str, number: usize) -> Result<Self, String> {
        let image: ImageReference = reference.parse().map_err(|error| format!("{error}"))?;
        let last = reference.rsplit('/').next().unwrap_or_default();
        if !last.contains([':', '@']) {
            return Err(format!(
                "it has neither a tag nor a digest: write one, such as '{}:1.27'",
                reference.escape_debug()
            ));
        }
        let name = package_name(&image)?;
        Ok(Self {
            reference: reference.to_owned(),
            placeholder: format!("{name}@borg.image.{number}"),
        })
    }

    /// Asks the registry which image is meant.
    ///
    /// # Errors
    /// If the registry does not answer, or has no such image.
    pub(crate) async fn resolve(&self, args: &RegistryArgs) -> Result<ResolvedImage, Failure> {
        let image: ImageReference = self.reference.parse().map_err(Failure::usage)?;
        let digest = match image.digest() {
            Some(digest) => digest,
            None => {
                let client = RegistryClient::new(args.settings());
                let client = client.map_err(|error| self.failed(&image, &error))?;
                client.resolve(&image).await.map_err(|error| self.failed(&image, &error))?
            }
        };
        let name = package_name(&image)
            .and_then(|name| name.parse().map_err(|error: model::NameError| error.to_string()));
        let (version, of_tag) = version(&image, digest);
        let pinned = format!("{}/{}@{digest}", image.registry(), image.repository());
        Ok(ResolvedImage {
            image: pinned.parse().map_err(Failure::failed)?,
            name: name.map_err(Failure::usage)?,
            version: version.parse().map_err(Failure::failed)?,
            of_tag,
        })
    }

    fn failed(&self, image: &ImageReference, error: &registry::RegistryError) -> Failure {
        let shown = self.reference.escape_debug();
        Failure::failed(format!("error: image {shown}: {error}")).next(format!(
            "check that {} is reached from here; docker login gives credentials, --registry-ca FILE and \
             --insecure-registry say which certificates it may have",
            image.registry()
        ))
    }

    /// Imports the image unless the cell has it. Returns its version as a package.
    ///
    /// # Errors
    /// If the registry fails, or the package cannot be added.
    pub(crate) async fn publish(
        &self,
        connection: &mut Connection,
        args: &RegistryArgs,
    ) -> Result<PackageVersion, Failure> {
        let resolved = self.resolve(args).await?;
        let ResolvedImage { image, name, version, of_tag } = resolved;
        let user = connection.user().map(str::to_owned).ok_or_else(|| {
            Failure::usage("error: the certificate names no user, whose package the image would be")
        })?;
        let request = v1::PackagesRequest {
            user: user.clone(),
            name: name.to_string(),
            ..v1::PackagesRequest::default()
        };
        let known = connection
            .ask(request, async |mut client, request| client.packages.list(request).await)
            .await?;
        let id = format!("{user}/{name}@{version}");
        if known.packages.iter().any(|package| package.id == id) {
            return Ok(version);
        }
        let is_of_tag = |package: &&v1::Package| {
            let reference = package.id.parse::<PackageReference>();
            let version = reference.as_ref().map(|reference| reference.version.as_str());
            of_tag.as_ref().zip(version.ok()).is_some_and(|(tag, version)| is_of(tag, version))
        };
        let before: Vec<&str> =
            known.packages.iter().filter(is_of_tag).map(|package| package.id.as_str()).collect();
        let shown = self.reference.escape_debug();
        if !before.is_empty() {
            let before = before.join(", ");
            output::say(&format!("image    {shown} has moved: it was {before}, and is {id}\n"));
        }
        let new = NewVersion {
            owner: None,
            name,
            version: Some(version.clone()),
            readers: Readers::default(),
        };
        let (settings, options) = (args.settings(), ImportOptions::default());
        let added = crate::package::import_from_registry(
            connection,
            &new,
            (&image, &Platforms::All),
            settings,
            options,
        );
        let added = added.await?;
        output::say(&format!("image    {shown} is {added}\n"));
        Ok(version)
    }
}

/// The name of the package: the last part of the repository, with hyphens where names of packages have no other sign.
fn package_name(image: &ImageReference) -> Result<String, String> {
    let last = image.repository().rsplit('/').next().unwrap_or_default();
    let name: String = last.chars().map(|c| if matches!(c, '.' | '_') { '-' } else { c }).collect();
    let name: String = name.chars().take(NAME_CHARACTERS).collect();
    let name = name.trim_end_matches('-');
    let checked = name.parse::<PackageName>();
    checked
        .map(|name| name.to_string())
        .map_err(|error| format!("no package can be called so: {error}"))
}

/// The version of the package, and how those of the same tag begin.
fn version(image: &ImageReference, digest: BlobDigest) -> (String, Option<String>) {
    let digits = digest.digits();
    let digits = &digits[..DIGITS];
    match image.tag() {
        Some(tag) => {
            let tag: String = tag.chars().take(TAG_CHARACTERS).collect();
            // A version begins as a tag does, with a letter, a digit or `_`.
            (format!("{tag}-{digits}"), Some(format!("{tag}-")))
        }
        None => (format!("sha256-{digits}"), None),
    }
}

/// Whether a version is one of the tag whose versions begin so: what follows are the digits of a digest.
fn is_of(tag: &str, version: &str) -> bool {
    version.strip_prefix(tag).is_some_and(|digits| {
        digits.len() == DIGITS
            && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_become_packages_of_the_last_part_of_their_name() {
        let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
        for (reference, package) in [
            ("registry.example/team/app:1.27", "app@1.27-0123456789abcdef"),
            ("localhost:5000/my_app:v1", "my-app@v1-0123456789abcdef"),
            ("docker.io/library/nginx:1.27-alpine", "nginx@1.27-alpine-0123456789abcdef"),
            (&format!("registry.example/app@{digest}"), "app@sha256-0123456789abcdef"),
            (&format!("registry.example/app:2@{digest}"), "app@2-0123456789abcdef"),
        ] {
            let image: ImageReference = reference.parse().expect(reference);
            let name = package_name(&image).expect(reference);
            let (version, _) = version(&image, digest.parse().expect("a digest"));
            let found = format!("{name}@{version}");
            assert_eq!(found, package);
            assert!(found.parse::<PackageReference>().is_ok(), "{found}");
        }
        let long = format!("registry.example/{}:{}", "a".repeat(80), "1".repeat(128));
        let image: ImageReference = long.parse().expect("an image");
        let (version, _) = version(&image, digest.parse().expect("a digest"));
        let found = format!("{}@{version}", package_name(&image).expect("a name"));
        assert!(found.parse::<PackageReference>().is_ok(), "{found}");
    }

    #[test]
    fn a_version_belongs_to_one_tag() {
        for (version, is_one) in [
            ("1.27-0123456789abcdef", true),
            ("1.27-alpine-0123456789abcdef", false),
            ("1.27-0123456789abcdeg", false),
            ("1.27-0123", false),
            ("1.27", false),
        ] {
            assert_eq!(is_of("1.27-", version), is_one, "{version}");
        }
    }

    #[test]
    fn an_image_needs_a_tag_or_a_digest() {
        for (reference, why) in [
            ("registry.example/team/app", "it has neither a tag nor a digest"),
            ("localhost:5000/app", "it has neither a tag nor a digest"),
            ("registry.example/App:1", "is no repository"),
            ("registry.example/app:-1", "is no tag"),
        ] {
            let error = RegistryImage::new(reference, 0).expect_err(reference);
            assert!(error.contains(why), "{reference}: {error}");
        }
        let image = RegistryImage::new("registry.example/team/app:1", 3).expect("an image");
        assert_eq!(image.placeholder, "app@borg.image.3");
    }
}

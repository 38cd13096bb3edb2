//! Images that a job names as they are called in a registry: the loader makes packages of them.
//!
//! What is a reference to a package (`web@1.27`, `ana/web@1.27`) is never one to a registry. Anything else is one if
//! what is before its first slash is the host of a registry: it has a dot or a port, or is `localhost`.

use model::PackageReference;
use spec::Path;

use crate::error::ErrorKind;
use crate::fields::Diagnostics;
use crate::interpreter::Loader;
use crate::json::Json;

/// The field of a job with its image.
const IMAGE: &str = "image";

/// Replaces the images of registries in a result by the references that the loader gives for them.
pub(crate) fn resolve(result: &mut Json, loader: &mut dyn Loader, found: &mut Diagnostics) {
    match result {
        Json::List(jobs) => {
            for (position, job) in jobs.iter_mut().enumerate() {
                of_job(job, &Path::top().element(position), loader, found);
            }
        }
        job => of_job(job, &Path::top(), loader, found),
    }
}

fn of_job(job: &mut Json, path: &Path, loader: &mut dyn Loader, found: &mut Diagnostics) {
    let Json::Object(fields) = job else { return };
    let Some(image) = fields.get_mut(IMAGE) else { return };
    let Json::Text(text) = &*image else { return };
    if text.parse::<PackageReference>().is_ok() {
        return;
    }
    let made = match text.split_once('/') {
        Some((host, _)) if is_host(host) => loader.image(text),
        _ if text.contains(':') => Err(
            "it names no registry: write it in full, such as 'docker.io/library/nginx:1.27', or name a package, such \
             as 'web@1.27'"
                .to_owned(),
        ),
        _ if text.contains('@') || text.is_empty() => return,
        // The name of an image of a registry alone, as other systems take it.
        _ => Err(format!(
            "it names no version, and nothing is taken from a registry unasked: write the image in full, such as \
             'docker.io/library/{}:1.27', or make a package of it (package import) and name that, such as '{}@1.27'",
            text.rsplit('/').next().unwrap_or_default().escape_debug(),
            text.rsplit('/').next().unwrap_or_default().escape_debug(),
        )),
    };
    match made {
        Ok(reference) => *image = Json::Text(reference.to_string()),
        Err(why) => {
            found.add(path.field(IMAGE), ErrorKind::Image { image: text.clone(), why });
            // Any version, so that nothing more is said of it: the evaluation fails.
            *image = Json::Text("failed@1".to_owned());
        }
    }
}

/// Whether a text is the host of a registry. Names of users have neither dots nor colons.
fn is_host(text: &str) -> bool {
    text == "localhost" || text.contains(['.', ':'])
}

//! The rules of a manifest.

use super::{
    ARCHITECTURE_BYTES_MAX, ImageConfig, LAYERS_MAX, Layer, Manifest, ManifestError, VARIANTS_MAX,
    Variant,
};
use crate::chunk::cut;
use crate::tree::ENTRIES_MAX;

pub(super) fn check(manifest: &Manifest) -> Result<(), ManifestError> {
    let variants = &manifest.variants;
    let rule = |why| Err(ManifestError::Rule { architecture: None, why });
    if !(1..=VARIANTS_MAX).contains(&variants.len()) {
        return rule("it has no variants, or more than 64");
    }
    if !variants.is_sorted_by(|one, other| one.architecture < other.architecture) {
        return rule("its variants are not sorted by distinct architectures");
    }
    for variant in variants {
        of_variant(variant).map_err(|why| ManifestError::Rule {
            architecture: Some(variant.architecture.clone()),
            why,
        })?;
    }
    Ok(())
}

fn of_variant(variant: &Variant) -> Result<(), &'static str> {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if variant.architecture.len() > ARCHITECTURE_BYTES_MAX
        || !variant.architecture.bytes().all(letters)
    {
        return Err("an architecture is longer than 64 bytes, or has other characters than \
                    letters, digits, '-', '_', '.' and '/'");
    }
    // An image of no layers is valid, although nothing can run in it.
    if variant.layers.len() > LAYERS_MAX {
        return Err("it has more than 500 layers");
    }
    variant.layers.iter().try_for_each(layer)?;
    variant.config.as_ref().map_or(Ok(()), config)
}

fn layer(layer: &Layer) -> Result<(), &'static str> {
    let within = |length: usize| (1..=cut::BYTES_MAX).contains(&length);
    if !layer.chunks.iter().all(|chunk| within(chunk.length())) {
        return Err("a chunk of a tree has no bytes, or more than 256 KiB");
    }
    if layer.entries > ENTRIES_MAX {
        return Err("a layer has more than 2,000,000 entries");
    }
    if layer.chunks.is_empty() != (layer.entries == 0) {
        return Err("a layer has entries and no chunks, or chunks and no entries");
    }
    Ok(())
}

fn config(config: &ImageConfig) -> Result<(), &'static str> {
    let lists = [&config.entrypoint, &config.cmd, &config.env, &config.exposed_ports];
    let texts = [&config.working_dir, &config.user, &config.stop_signal];
    let labels = config.labels.iter().flat_map(|(name, value)| [name, value]);
    if lists.into_iter().flatten().chain(texts).chain(labels).any(|text| text.contains('\0')) {
        return Err("a text of the configuration has a zero byte");
    }
    if !config.exposed_ports.is_sorted_by(|one, other| one < other) {
        return Err("the exposed ports are not sorted and distinct");
    }
    Ok(())
}

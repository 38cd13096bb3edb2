//! How registries are reached from which images are imported.

use std::path::PathBuf;

use clap::Args;
use registry::RegistrySettings;

/// How registries are reached.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RegistryArgs {
    /// The registry may have a certificate that nobody has signed, or none: for one on this machine or in a network that
    /// you trust.
    #[arg(long)]
    insecure_registry: bool,
    /// A file with certificates (PEM) that are trusted for the registry besides those of the system.
    #[arg(long, value_name = "FILE")]
    registry_ca: Option<PathBuf>,
}

impl RegistryArgs {
    /// With the credentials and the proxy of the environment.
    pub(crate) fn settings(&self) -> RegistrySettings {
        RegistrySettings {
            insecure: self.insecure_registry,
            ca_file: self.registry_ca.clone(),
            ..RegistrySettings::from_environment()
        }
    }
}

//! What a task is allowed and called: its capabilities, and its host name.

use borglet::Desired;
use linux::Isolation;
use linux::bind::UNPRIVILEGED;
use model::{KernelFeature, PortName};

/// The numbers of the Linux capabilities that a task keeps: those that it asks for, and the one to bind a
/// port below 1024 that it was given.
pub(super) fn capabilities(desired: &Desired, isolation: Isolation) -> Vec<u8> {
    let mut features = desired.spec.kernel_features.clone();
    let is_low = |(_, port): &(PortName, u16)| *port < UNPRIVILEGED;
    // Without root nobody can give it one.
    if isolation == Isolation::Jail && desired.machine_ports().iter().any(is_low) {
        features.insert(KernelFeature::NetBindService);
    }
    features.iter().map(|feature| feature.number()).collect()
}

/// A host name for a task: `job-index`, truncated to the length of a label.
pub(super) fn hostname(job: &str, index: u32) -> String {
    let index = index.to_string();
    let room = 62 - index.len();
    format!("{}-{index}", &job[..job.len().min(room)])
}

#[cfg(test)]
mod tests {
    use super::hostname;

    #[test]
    fn host_names_fit_a_label() {
        assert_eq!(hostname("web", 7), "web-7");
        assert_eq!(hostname(&"x".repeat(63), 99_999).len(), 63);
    }
}

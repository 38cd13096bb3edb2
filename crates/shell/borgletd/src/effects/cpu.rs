//! Whole cores, and caps for greedy tasks.

use std::sync::{Arc, Mutex, PoisonError};

use borglet::CpuCap;
use model::InstanceId;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::Executor;
use crate::cpu_isolation::log_cap;

/// How often tasks were capped, and how many are now.
#[derive(Clone, Debug, Default)]
pub(crate) struct CapMetrics {
    pub(crate) caps: Counter,
    pub(crate) capped: Gauge,
}

/// The state of these effects.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuEffects {
    metrics: CapMetrics,
    /// The capped tasks, whose changes are made one after the other.
    turn: Arc<tokio::sync::Mutex<()>>,
    capped: Arc<Mutex<std::collections::BTreeSet<InstanceId>>>,
    /// The CPUs of those that share, as last told.
    shared: Arc<Mutex<Vec<u32>>>,
}

impl Executor {
    pub(crate) fn caps(&self) -> &CapMetrics {
        &self.cpus.metrics
    }

    /// Sets the CPUs of those that share: of several changes at once, the last one is made.
    pub(super) fn share_cpus(&self, cpus: Vec<u32>) {
        let (files, shared) = (self.files.clone(), Arc::clone(&self.cpus.shared));
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = cpus;
        tokio::task::spawn_blocking(move || {
            let cpus = shared.lock().unwrap_or_else(PoisonError::into_inner);
            match files.share_cpus(&cpus) {
                Ok(()) => tracing::debug!("latency-sensitive tasks share the CPUs {cpus:?}"),
                Err(error) => tracing::error!(
                    "cannot keep latency-sensitive tasks off the cores of others: {error:#}"
                ),
            }
        });
    }

    /// Changes the cap of a task.
    pub(super) fn cap_cpu(&self, instance: InstanceId, cap: CpuCap) {
        let CpuEffects { metrics, turn, capped, .. } = self.cpus.clone();
        if let Ok(mut capped) = capped.lock() {
            match cap.max() {
                Some(_) => drop(capped.insert(instance)),
                None => drop(capped.remove(&instance)),
            }
            metrics.capped.set(i64::try_from(capped.len()).unwrap_or(i64::MAX));
        }
        if cap.max().is_some() {
            metrics.caps.inc();
        }
        let files = self.files.clone();
        tokio::spawn(async move {
            let _turn = turn.lock().await;
            let done =
                tokio::task::spawn_blocking(move || files.cap_cpu(instance, cap.max())).await;
            match done.map_err(anyhow::Error::from).and_then(|done| done) {
                Ok(Some(label)) => log_cap(&label, &cap),
                Ok(None) => {}
                Err(error) => tracing::error!("{instance} cannot be {cap}: {error:#}"),
            }
        });
    }
}

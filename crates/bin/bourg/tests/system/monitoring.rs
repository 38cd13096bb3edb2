//! A real Prometheus with the configuration that the example has: only names and addresses differ.

use crate::cell::Cell;
use crate::enrolment::free_address;
use crate::pages::Of;
use crate::terminal::Background;
use crate::tools::needs;

/// A Prometheus that scrapes a cell as its user `prometheus`.
pub(crate) struct Monitoring<'a> {
    cell: &'a Cell,
    address: String,
    prometheus: Background,
}

impl<'a> Monitoring<'a> {
    pub(crate) fn start(cell: &'a Cell) -> Self {
        needs("prometheus", "prometheus");
        cell.ok("bourg user add prometheus");
        let config = include_str!("../../../../../examples/monitoring/prometheus.yml");
        let config = config
            .replace("scrape_interval: 15s", "scrape_interval: 1s")
            .replace("evaluation_interval: 15s", "evaluation_interval: 1s")
            .replace("refresh_interval: 15s", "refresh_interval: 1s")
            .replace("master.cc.borg", Of::Master.server_name())
            .replace("borglet.cc.borg", Of::Borglet.server_name())
            .replace("m1.example:7800", &Of::Master.address(cell));
        cell.write("prometheus/prometheus.yml", config);
        let alerts = include_str!("../../../../../examples/monitoring/alerts.yml");
        cell.write("prometheus/alerts.yml", alerts);
        let address = free_address();
        let listen = format!("--web.listen-address={address}");
        let flags =
            ["--config.file=prometheus/prometheus.yml", "--storage.tsdb.path=series", &listen];
        let prometheus = cell.start("prometheus", &flags);
        Self { cell, address, prometheus }
    }

    /// The result of a query now.
    pub(crate) fn asks(&self, query: &str) -> String {
        let line = format!("promtool query instant http://{} '{query}'", self.address);
        self.cell.types(&line).stdout
    }

    /// What Prometheus has said.
    pub(crate) fn said(&self) -> String {
        self.prometheus.stderr()
    }
}

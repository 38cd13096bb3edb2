//! The text format, version 0.0.4. The library writes OpenMetrics, which names a counter's family
//! without `_total`. Under the older format, which every tool understands, such a counter would
//! lack its description and type.

use prometheus_client::registry::Registry;

/// The content type in HTTP.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Encodes all metrics of a registry.
pub fn text(registry: &Registry) -> String {
    let mut open_metrics = String::new();
    // Writing to a string cannot fail.
    let _written = prometheus_client::encoding::text::encode_registry(&mut open_metrics, registry);
    let mut text = String::with_capacity(open_metrics.len() + 1_024);
    let mut lines = open_metrics.lines().peekable();
    while let Some(line) = lines.next() {
        let described = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '));
        let next = lines.peek().and_then(|next| next.strip_prefix("# TYPE "));
        match (described, next.and_then(|rest| rest.split_once(' '))) {
            (Some((name, help)), Some((_, "counter"))) => {
                lines.next();
                text += &format!("# HELP {name}_total {help}\n# TYPE {name}_total counter\n");
            }
            _ => {
                text += line;
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    #[test]
    fn a_counter_is_described_by_the_name_of_its_values() {
        let mut registry = Registry::default();
        let polls: Counter = Counter::default();
        polls.inc_by(3);
        registry.register("bourg_polls", "Polls", polls);
        registry.register("bourg_leads", "Whether it leads", <Gauge>::default());
        let expected = "\
            # HELP bourg_polls_total Polls.\n\
            # TYPE bourg_polls_total counter\n\
            bourg_polls_total 3\n\
            # HELP bourg_leads Whether it leads.\n\
            # TYPE bourg_leads gauge\n\
            bourg_leads 0\n";
        assert_eq!(text(&registry), expected);
    }
}

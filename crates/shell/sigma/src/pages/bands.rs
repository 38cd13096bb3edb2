//! Resources divided among bands: a bar each for limits, reservations and usage.

use api::{v1, word};
use chart::{Bar, Marker, Size};
use maud::{Markup, html};

use crate::fleet::{By, Of};
use crate::show;

/// The bands from the most important on, with the class of their colour.
pub(super) const BANDS: [(v1::Band, &str); 5] = [
    (v1::Band::Monitoring, "series-monitoring"),
    (v1::Band::Production, "series-production"),
    (v1::Band::Mid, "series-mid"),
    (v1::Band::BestEffortBatch, "series-batch"),
    (v1::Band::Free, "series-free"),
];

/// What is used and belongs to no task.
pub(super) const SYSTEM: (&str, &str) = ("not tasks", "series-other");

/// The name of a band.
pub(super) fn name(band: v1::Band) -> String {
    word::<v1::Band>(band.into()).into_owned()
}

/// The class of the colour of a band, by its name.
pub(super) fn class(band: &str) -> &'static str {
    let known = BANDS.into_iter().find(|(known, _)| word::<v1::Band>((*known).into()) == band);
    known.map_or("series-other", |(_, class)| class)
}

/// A part of a bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) name: String,
    /// Of its colour.
    pub(super) class: &'static str,
    pub(super) amount: i64,
}

/// The table of all resources that there are. Without amounts there is no row; an empty list of them
/// was not measured.
pub(super) fn table(
    capacity: impl Fn(Of) -> Option<i64>,
    amounts: impl Fn(Of, By) -> Option<Vec<Amount>>,
) -> Markup {
    html! {
        div class="scroll" { table class="resources" {
            thead { tr {
                th scope="col" { "Resource" }
                th scope="col" { "Of the capacity" }
                th scope="col" class="num" { "Sum" }
                th scope="col" class="num" { "Share" }
            } }
            @for of in Of::ALL {
                @if let Some(capacity) = capacity(of).filter(|capacity| *capacity > 0) {
                    @let all = By::ALL.map(|by| amounts(of, by));
                    // Limits may be more than there is: the bars of a resource have one scale. What is not
                    // tasks may be far more, where machines share a host, and is cut off.
                    @let tasks = |parts: &Vec<Amount>| sum(parts.iter().filter(|part| part.class != SYSTEM.1));
                    @let whole = all.iter().flatten().map(tasks).fold(capacity, i64::max);
                    tbody {
                        tr class="group" { th scope="rowgroup" colspan="4" {
                            (of.name()) " " span class="muted" { (of.show(Some(capacity))) }
                        } }
                        @for (by, parts) in By::ALL.iter().zip(&all) {
                            @if let Some(parts) = parts { (row(of, *by, parts, whole, capacity)) }
                        }
                    }
                }
            }
        } }
    }
}

/// What the colours mean.
pub(super) fn legend(with_system: bool) -> Markup {
    let bands: Vec<(&str, String)> =
        BANDS.into_iter().map(|(band, class)| (class, name(band))).collect();
    let mut all: Vec<(&str, &str)> =
        bands.iter().map(|(class, name)| (*class, name.as_str())).collect();
    if with_system {
        all.push((SYSTEM.1, SYSTEM.0));
    }
    chart::stack_legend(&all, &[("series-capacity", "capacity")])
}

fn sum<'a>(amounts: impl IntoIterator<Item = &'a Amount>) -> i64 {
    amounts.into_iter().fold(0, |sum, part| sum.saturating_add(part.amount))
}

fn row(of: Of, by: By, amounts: &[Amount], whole: i64, capacity: i64) -> Markup {
    let name = match by {
        By::Limit => "Limits",
        By::Reservation => "Reservations",
        By::Usage => "Usage",
    };
    if amounts.is_empty() && by == By::Usage {
        return html! { tr { th scope="row" { (name) } td colspan="3" class="muted" { "not measured" } } };
    }
    let label = |part: &Amount| format!("{} {}", part.name, of.show(Some(part.amount)));
    let labels: Vec<String> = amounts.iter().map(label).collect();
    let parts: Vec<chart::BarPart<'_>> = amounts
        .iter()
        .zip(&labels)
        .map(|(part, label)| chart::BarPart { class: part.class, value: part.amount as f64, label })
        .collect();
    let text = of.show(Some(capacity));
    let there = format!("capacity {text}");
    let marker = Marker { class: "series-capacity", value: capacity as f64, label: &there };
    let markers = if whole > capacity { vec![marker] } else { Vec::new() };
    let bar = Bar {
        name: &format!("{}, {name}", of.name()),
        capacity: whole as f64,
        of: &text,
        parts: &parts,
        markers: &markers,
        size: Size::Compact,
    };
    let all = sum(amounts);
    html! {
        tr {
            th scope="row" { (name) }
            td class="wide" { (chart::stack(&bar)) }
            td class="num" { (of.show(Some(all))) }
            td class="num" { (show::percent(show::share(Some(all), Some(capacity)))) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(amounts: &[i64]) -> Vec<Amount> {
        let part = |amount: &i64| Amount { name: "a".to_owned(), class: "b", amount: *amount };
        amounts.iter().map(part).collect()
    }

    #[test]
    fn bars_of_a_resource_have_one_scale_for_its_tasks() {
        let capacity = |resource| (resource == Of::Cpu).then_some(4_000);
        let amounts = |_, by| match by {
            By::Limit => Some(of(&[6_000, 2_000])),
            By::Reservation => Some(of(&[2_000])),
            By::Usage => None,
        };
        let shown = table(capacity, amounts).into_string();
        assert!(shown.contains("Limits") && !shown.contains("Usage"), "{shown}");
        // Two thirds and one third, 2 of 8 cores, and the capacity at the half of both.
        for (text, times) in [("width=\"75%\"", 1), ("width=\"25%\"", 2), ("x1=\"50%\"", 4)] {
            assert_eq!(shown.matches(text).count(), times, "{text}: {shown}");
        }
        assert!(shown.contains("200 %") && shown.contains("50 %"), "{shown}");
        let system = |_, _| Some(vec![Amount { class: SYSTEM.1, ..of(&[9_000]).remove(0) }]);
        let shown = table(capacity, system).into_string();
        assert!(shown.contains("width=\"100%\"") && shown.contains("225 %"), "{shown}");
        let none = table(|_| Some(1), |_, by| (by == By::Usage).then(Vec::new)).into_string();
        assert_eq!(none.matches("not measured").count(), 3, "{none}");
    }

    #[test]
    fn each_band_has_a_colour() {
        for (band, expected) in BANDS {
            assert_eq!(class(&name(band)), expected);
        }
        assert_eq!(class("what"), "series-other");
    }
}

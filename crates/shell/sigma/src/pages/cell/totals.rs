//! What may be used, is reserved and is used, by band, of all that the machines have.

use api::v1;
use maud::{Markup, html};

use super::Facts;
use crate::fleet::{By, Of};
use crate::pages::bands::{self, Amount, BANDS};
use crate::show;

pub(super) fn shown(facts: &Facts) -> Markup {
    let cell = facts.fleet.used().and_then(|used| used.cell.as_ref());
    html! {
        h2 { "Resources by band" }
        @match cell {
            Some(cell) => {
                (bands::table(
                    |of| cell.capacity.as_ref().map(|all| of.amount(all)),
                    |of, by| Some(amounts(cell, of, by)),
                ))
                (bands::legend(true))
                (numbers(cell))
                p class="muted" { "The same as text: " (show::command("bourg usage")) }
            }
            None if facts.is_past() => (past(facts)),
            None => p class="bad" { "Unknown: no replica has answered." },
        }
    }
}

/// What is kept of a past moment: the sums over all bands.
fn past(facts: &Facts) -> Markup {
    let status = &facts.status;
    let reclamation = status.reclamation.as_ref();
    let amounts = |of: Of, by: By| {
        let (sum, class) = match by {
            By::Limit => (reclamation?.limit?, "series-limit"),
            By::Reservation => (reclamation?.reservation?, "series-reservation"),
            By::Usage => return None,
        };
        Some(vec![Amount { name: "all bands".to_owned(), class, amount: of.amount(&sum) }])
    };
    html! {
        p class="notice" {
            "Of a past moment, what was used, and by which band, is not kept: these are the sums."
        }
        (bands::table(|of| status.capacity.as_ref().map(|all| of.amount(all)), amounts))
    }
}

/// The bands' amounts of a resource, and what is used by no task.
fn amounts(cell: &v1::CellUsage, of: Of, by: By) -> Vec<Amount> {
    let mut amounts = Vec::new();
    for (band, class) in BANDS {
        let total = cell.bands.iter().find(|known| known.band() == band);
        let total = total.and_then(|known| known.total.as_ref());
        if let Some(amount) = total.and_then(|total| of_total(total, of, by)) {
            amounts.push(Amount { name: bands::name(band), class, amount });
        }
    }
    if by == By::Usage {
        let system = cell.system.as_ref().and_then(|system| of.measured(system));
        let (name, class) = bands::SYSTEM;
        amounts.extend(system.map(|amount| Amount { name: name.to_owned(), class, amount }));
    }
    amounts
}

/// What tasks may use, have reserved or use.
fn of_total(total: &v1::UsageTotal, of: Of, by: By) -> Option<i64> {
    match by {
        By::Limit => total.limit.as_ref().map(|all| of.amount(all)),
        By::Reservation => total.reservation.as_ref().map(|all| of.amount(all)),
        By::Usage => total.used.as_ref().and_then(|all| of.measured(all)),
    }
}

/// A row for each band.
fn numbers(cell: &v1::CellUsage) -> Markup {
    let reclaimed = |total: &v1::UsageTotal, of| {
        let [limit, reservation, _] = By::ALL.map(|by| of_total(total, of, by));
        limit.zip(reservation).map(|(limit, reservation)| limit.saturating_sub(reservation))
    };
    let of = [Of::Cpu, Of::Ram];
    if cell.bands.is_empty() {
        return show::empty("No job is alive.", "bourg run examples/hello.bcl");
    }
    html! {
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Band" }
                th scope="col" class="num" { "Running" }
                @for of in of {
                    @for what in ["limit", "reserved", "reclaimed", "used"] {
                        th scope="col" class="num" { (of.name()) " " (what) }
                    }
                }
            } }
            tbody { @for (band, _) in BANDS {
                @let total = cell.bands.iter().find(|known| known.band() == band);
                @if let Some(total) = total.and_then(|known| known.total.as_ref()) {
                    tr {
                        th scope="row" class="nowrap" { (bands::name(band)) }
                        td class="num" { (total.running) }
                        @for of in of {
                            td class="num" { (of.show(of_total(total, of, By::Limit))) }
                            td class="num" { (of.show(of_total(total, of, By::Reservation))) }
                            td class="num" { (of.show(reclaimed(total, of))) }
                            td class="num" { (of.show(of_total(total, of, By::Usage))) }
                        }
                    }
                }
            } }
        } }
    }
}

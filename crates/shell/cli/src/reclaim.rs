//! `bourg cell reclaim`: the cell's setting of resource reclamation, and what is reclaimed.

use api::v1;
use clap::Args;
use client::Target;
use command::output::{self, Format};
use command::{Done, with_cell};
use model::Reclamation;
use present::amount;

#[derive(Debug, Args)]
pub(super) struct ReclaimArgs {
    /// The new setting: off, baseline, medium or aggressive.
    setting: Option<Reclamation>,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

pub(super) fn reclaim(cell: Target<'_>, args: &ReclaimArgs) -> Done {
    with_cell(cell, async |mut connection| {
        if let Some(setting) = args.setting {
            let id = Some(connection.request_id().await?);
            let request = v1::SetReclamationRequest { id, setting: setting.to_string() };
            connection
                .ask(request, async |mut client, request| {
                    client.cell.set_reclamation(request).await
                })
                .await?;
        }
        let status = connection.cell_status().await?;
        let shown = status.reclamation.unwrap_or_default();
        output::object(&args.output, &shown, &status.name, || table(&shown))
    })
}

fn table(shown: &v1::ReclamationStatus) -> String {
    let row = |name: &str, of: &Option<v1::Resources>| {
        let of = of.as_ref();
        let cpu = amount::cpu(of.map(|of| of.cpu_milli));
        vec![name.to_owned(), cpu, amount::bytes(of.map(|of| of.ram_bytes))]
    };
    let rows = vec![
        row("limits", &shown.limit),
        row("reservations", &shown.reservation),
        row("reclaimed", &shown.reclaimed),
    ];
    format!(
        "setting: {}\n{}",
        shown.setting,
        output::table(&["of running tasks", "cpu", "ram"], rows)
    )
}

/// For example `medium: 12.5 cores, 40 GiB reclaimed`.
pub(super) fn in_short(shown: Option<&v1::ReclamationStatus>) -> String {
    let Some(shown) = shown else { return "unknown".to_owned() };
    let reclaimed = shown.reclaimed.as_ref();
    let cpu = amount::cpu(reclaimed.map(|of| of.cpu_milli));
    let ram = amount::bytes(reclaimed.map(|of| of.ram_bytes));
    format!("{}: {cpu} cores, {ram} reclaimed", shown.setting)
}

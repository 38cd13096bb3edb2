//! `bourg shapes`: which tasks would start at once.

use api::v1;
use clap::Args;
use client::Target;
use command::output::{self, Format, Listing};
use command::{Done, with_cell};
use model::Resources;

#[derive(Debug, Args)]
pub(crate) struct ShapesArgs {
    /// Only this band: free, best-effort-batch, mid, production or monitoring.
    #[arg(long, value_name = "BAND", default_value = "")]
    band: String,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(long, short, default_value = "table")]
    output: Format,
}

/// Shows for each band how many tasks of a few sizes would start at once, and the largest.
pub(crate) fn shapes(cell: Target<'_>, args: &ShapesArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let request = v1::ShapesRequest { band: args.band.clone() };
        let answer = connection
            .ask(request, async |mut client, request| client.machines.shapes(request).await)
            .await?;
        let sizes: Vec<String> = answer.bands.first().map_or(Vec::new(), |band| {
            band.shapes.iter().map(|shape| in_words(shape.limit.as_ref()).to_uppercase()).collect()
        });
        let headings = ["BAND"].into_iter().chain(sizes.iter().map(String::as_str));
        let headings: Vec<&str> = headings.chain(["LARGEST TASK", "ON"]).collect();
        output::list(
            &args.output,
            &Listing {
                items: &answer.bands,
                name: |band| band.band.clone(),
                headings: &headings,
                wide: 0,
                row,
            },
        )
    })
}

fn row(band: &v1::BandShapes) -> Vec<String> {
    let mut cells = vec![band.band.clone()];
    cells.extend(band.shapes.iter().map(|shape| shape.tasks.to_string()));
    match &band.largest {
        Some(largest) => cells.push(in_words(Some(largest))),
        None => cells.push("none fits".to_owned()),
    }
    cells.push(band.largest_machine.clone());
    cells
}

/// `4 cores, 8 GiB`.
fn in_words(limit: Option<&v1::Resources>) -> String {
    let limit = limit.and_then(|limit| Resources::try_from(*limit).ok()).unwrap_or_default();
    limit.to_string()
}

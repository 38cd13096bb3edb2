//! Columns of text.

use std::fmt::Write as _;

/// Columns as wide as their widest cell, separated by two spaces, without trailing spaces.
#[must_use]
pub fn table(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    table_within(usize::MAX, headings, rows)
}

/// A column is not made narrower than this, or than its heading.
const NARROWEST: usize = 8;

/// The same, in lines of at most so many characters if that is possible: the widest cells are cut, and end with
/// an ellipsis.
#[must_use]
pub fn table_within(most: usize, headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let narrowest: Vec<_> =
        headings.iter().map(|heading| heading.chars().count().max(NARROWEST)).collect();
    let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(headings).chain(rows).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..columns).map(width).collect();
    let gaps = 2 * columns.saturating_sub(1);
    let can_shrink = |widths: &[usize]| {
        let narrowest = narrowest.iter().copied().chain(std::iter::repeat(NARROWEST));
        let all = widths.iter().copied().zip(narrowest).enumerate();
        let wide = all.filter(|(_, (width, narrowest))| width > narrowest);
        wide.max_by_key(|(_, (width, _))| *width).map(|(column, _)| column)
    };
    while widths.iter().sum::<usize>().saturating_add(gaps) > most {
        let Some(width) = can_shrink(&widths).and_then(|column| widths.get_mut(column)) else {
            break;
        };
        *width -= 1;
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            match cell.chars().count() > *width {
                true => {
                    line.extend(cell.chars().take(width.saturating_sub(1)).chain("…  ".chars()));
                }
                false => {
                    let _infallible = write!(line, "{cell:width$}  ");
                }
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_with_their_last_cell() {
        let row = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
        let text = table(&["JOB", "STATE"], vec![row(&["ana/web", "running"]), row(&["b/x", ""])]);
        assert_eq!(text, "JOB      STATE\nana/web  running\nb/x\n");
    }

    #[test]
    fn the_widest_cells_are_cut_where_a_line_has_no_room() {
        let row = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
        let rows = || {
            let why = "waits until ana/extract has finished";
            vec![row(&["ana/a-long-name-of-a-job", "queued", why]), row(&["b/x", "running", ""])]
        };
        let shown = |most| table_within(most, &["JOB", "STATE", "WHY"], rows());
        assert_eq!(shown(1_000), table(&["JOB", "STATE", "WHY"], rows()));
        assert_eq!(
            shown(50),
            "JOB                   STATE    WHY\n\
             ana/a-long-name-of-…  queued   waits until ana/ex…\n\
             b/x                   running\n"
        );
        assert!(shown(50).lines().all(|line| line.chars().count() <= 50));
        // Names stay readable.
        assert!(shown(1).contains("ana/a-l…  queued   waits u…"), "{}", shown(1));
    }
}

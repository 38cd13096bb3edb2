//! Figures as SVG: lines over two axes, self-contained, without scripts.

use std::fmt::Write as _;

use maud::Escaper;

use super::scale::whole_step;

/// A figure: plots below each other.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The heading.
    pub title: String,
    /// A sentence below it.
    pub subtitle: String,
    /// The plots.
    pub plots: Vec<Plot>,
}

/// A plot: lines over two axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Its lines.
    pub lines: Vec<Line>,
    /// Vertical bars, each with what is to the right of it.
    pub bars: Vec<(u64, String)>,
}

/// An axis. It begins at 0.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it is, with its unit.
    pub label: String,
    /// Its end, in the unit of the points; at least 1.
    pub end: u64,
    /// The marks: where, and their text.
    pub marks: Vec<(u64, String)>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its colour, as a number in [`COLOURS`].
    pub colour: usize,
    /// Whether it is dotted.
    pub dotted: bool,
    /// Its points, in the order of x.
    pub points: Vec<(u64, u64)>,
}

/// Colours that people who cannot tell all colours apart can tell apart (Okabe and Ito).
pub const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#000000"];

const WIDTH: u64 = 760;
const HEIGHT: u64 = 260;
const LEFT: u64 = 70;
const RIGHT: u64 = 190;
const TOP: u64 = 64;
/// From one plot to the next one: its title, its marks, and the label of its axis.
const BETWEEN: u64 = 84;

impl Axis {
    /// An axis with about so many marks, at round numbers; `show` writes them.
    #[must_use]
    pub fn new(label: &str, most: u64, marks: u64, show: impl Fn(u64) -> String) -> Self {
        let step = whole_step(most.max(1).div_ceil(marks.max(1)));
        let end = most.max(1).div_ceil(step) * step;
        let at = (0..=end / step).map(|nth| (nth * step, show(nth * step)));
        Self { label: label.to_owned(), end, marks: at.collect() }
    }
}

impl Figure {
    /// The SVG document.
    #[must_use]
    pub fn svg(&self) -> String {
        let plots = self.plots.len() as u64;
        let (width, height) = (LEFT + WIDTH + RIGHT, TOP + plots * (HEIGHT + BETWEEN));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\" font-family=\"sans-serif\" font-size=\"13\">\n<title>{}</title>\n<desc>{}</desc>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
            escaped(&self.title),
            escaped(&self.subtitle)
        );
        text(&mut svg, (LEFT, 24), "start", " font-size=\"17\" font-weight=\"bold\"", &self.title);
        text(&mut svg, (LEFT, 44), "start", " fill=\"#444444\"", &self.subtitle);
        for (plot, nth) in self.plots.iter().zip(0..) {
            plot.draw(&mut svg, TOP + 24 + nth * (HEIGHT + BETWEEN));
        }
        svg + "</svg>\n"
    }
}

impl Plot {
    /// Draws the plot with its top at `top`.
    fn draw(&self, svg: &mut String, top: u64) {
        let (right, bottom) = (LEFT + WIDTH, top + HEIGHT);
        let x = |at: u64| LEFT + at.min(self.x.end) * WIDTH / self.x.end.max(1);
        let y = |at: u64| bottom - at.min(self.y.end) * HEIGHT / self.y.end.max(1);
        text(svg, (LEFT, top - 8), "start", " font-weight=\"bold\"", &self.title);
        for (at, mark) in &self.y.marks {
            let at = y(*at);
            line(svg, (LEFT, at), (right, at), "#dddddd");
            text(svg, (LEFT - 6, at + 4), "end", "", mark);
        }
        for (at, mark) in &self.x.marks {
            let at = x(*at);
            line(svg, (at, bottom), (at, bottom + 5), "#000000");
            text(svg, (at, bottom + 18), "middle", "", mark);
        }
        text(svg, (LEFT + WIDTH / 2, bottom + 36), "middle", "", &self.x.label);
        let middle = top + HEIGHT / 2;
        let turned = format!(" transform=\"rotate(-90 16 {middle})\"");
        text(svg, (16, middle), "middle", &turned, &self.y.label);
        line(svg, (LEFT, top), (LEFT, bottom), "#000000");
        line(svg, (LEFT, bottom), (right, bottom), "#000000");
        for (at, label) in &self.bars {
            let at = x(*at);
            line(svg, (at, top), (at, bottom), "#888888");
            text(svg, (at + 4, top + 14), "start", " fill=\"#444444\"", label);
        }
        for (one, nth) in self.lines.iter().zip(0..) {
            let colour = COLOURS.get(one.colour % COLOURS.len()).copied().unwrap_or("#000000");
            let dots = if one.dotted { " stroke-dasharray=\"5 4\"" } else { "" };
            let points: Vec<String> =
                one.points.iter().map(|(at, value)| format!("{},{}", x(*at), y(*value))).collect();
            let _infallible = writeln!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dots} points=\"{}\"/>",
                points.join(" ")
            );
            let at = top + 14 + nth * 20;
            let _infallible = writeln!(
                svg,
                "<line x1=\"{}\" y1=\"{at}\" x2=\"{}\" y2=\"{at}\" stroke=\"{colour}\" stroke-width=\"2\"{dots}/>",
                right + 12,
                right + 40
            );
            text(svg, (right + 46, at + 4), "start", "", &one.name);
        }
    }
}

fn line(svg: &mut String, from: (u64, u64), to: (u64, u64), colour: &str) {
    let _infallible = writeln!(
        svg,
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, at: (u64, u64), anchor: &str, more: &str, text: &str) {
    let _infallible = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\"{more}>{}</text>",
        at.0,
        at.1,
        escaped(text)
    );
}

/// Text for XML. Control characters, which XML cannot hold, become spaces.
fn escaped(text: &str) -> String {
    let text = text.replace(char::is_control, " ");
    let mut escaped = String::with_capacity(text.len());
    let _infallible = Escaper::new(&mut escaped).write_str(&text);
    escaped
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn marks_are_at_round_numbers() {
        for (most, expected) in [
            (0, [0, 1].as_slice()),
            (7, &[0, 2, 4, 6, 8]),
            (100, &[0, 50, 100]),
            (1_000, &[0, 500, 1_000]),
            (u64::MAX / 32, &[]),
        ] {
            let axis = Axis::new("", most, 4, |at| at.to_string());
            let at: Vec<u64> = axis.marks.iter().map(|(at, _)| *at).collect();
            assert!(expected.is_empty() || at == expected, "{most}: {at:?}");
            assert!(axis.end >= most && at.len() <= 8, "{most}: {at:?}");
        }
    }

    #[test]
    fn a_plot_is_drawn_with_its_axes_bars_and_legend() {
        let plot = Plot {
            title: "limit & usage".to_owned(),
            x: Axis::new("hours", 2, 2, |at| at.to_string()),
            y: Axis::new("%", 100, 2, |at| at.to_string()),
            lines: vec![Line {
                name: "usage".to_owned(),
                colour: 0,
                dotted: true,
                points: vec![(0, 0), (1, 50), (2, 200)],
            }],
            bars: vec![(1, "<off>".to_owned())],
        };
        let figure = Figure {
            title: "one\u{7}line".to_owned(),
            subtitle: "drawn".to_owned(),
            plots: vec![plot],
        };
        expect![[r##"
            <svg xmlns="http://www.w3.org/2000/svg" width="1020" height="408" viewBox="0 0 1020 408" role="img" font-family="sans-serif" font-size="13">
            <title>one line</title>
            <desc>drawn</desc>
            <rect width="100%" height="100%" fill="#ffffff"/>
            <text x="70" y="24" text-anchor="start" font-size="17" font-weight="bold">one line</text>
            <text x="70" y="44" text-anchor="start" fill="#444444">drawn</text>
            <text x="70" y="80" text-anchor="start" font-weight="bold">limit &amp; usage</text>
            <line x1="70" y1="348" x2="830" y2="348" stroke="#dddddd"/>
            <text x="64" y="352" text-anchor="end">0</text>
            <line x1="70" y1="218" x2="830" y2="218" stroke="#dddddd"/>
            <text x="64" y="222" text-anchor="end">50</text>
            <line x1="70" y1="88" x2="830" y2="88" stroke="#dddddd"/>
            <text x="64" y="92" text-anchor="end">100</text>
            <line x1="70" y1="348" x2="70" y2="353" stroke="#000000"/>
            <text x="70" y="366" text-anchor="middle">0</text>
            <line x1="450" y1="348" x2="450" y2="353" stroke="#000000"/>
            <text x="450" y="366" text-anchor="middle">1</text>
            <line x1="830" y1="348" x2="830" y2="353" stroke="#000000"/>
            <text x="830" y="366" text-anchor="middle">2</text>
            <text x="450" y="384" text-anchor="middle">hours</text>
            <text x="16" y="218" text-anchor="middle" transform="rotate(-90 16 218)">%</text>
            <line x1="70" y1="88" x2="70" y2="348" stroke="#000000"/>
            <line x1="70" y1="348" x2="830" y2="348" stroke="#000000"/>
            <line x1="450" y1="88" x2="450" y2="348" stroke="#888888"/>
            <text x="454" y="102" text-anchor="start" fill="#444444">&lt;off&gt;</text>
            <polyline fill="none" stroke="#0072b2" stroke-width="2" stroke-dasharray="5 4" points="70,348 450,218 830,88"/>
            <line x1="842" y1="102" x2="870" y2="102" stroke="#0072b2" stroke-width="2" stroke-dasharray="5 4"/>
            <text x="876" y="106" text-anchor="start">usage</text>
            </svg>
        "##]].assert_eq(&figure.svg());
    }
}

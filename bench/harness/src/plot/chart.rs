//! Line charts and stacked bars as SVG: plain text, no library, readable in a light and in a dark
//! page.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;

/// Okabe and Ito's colours, which the colour-blind can tell apart.
const COLOURS: &[&str] =
    &["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a00", "#7b5fb5", "#b04a4a", "#4a7a7a"];

/// One line.
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, by x.
    pub points: Vec<(f64, f64)>,
}

/// A chart of lines.
pub struct Lines<'a> {
    /// Its title.
    pub title: &'a str,
    /// The label of the horizontal axis.
    pub x: &'a str,
    /// The label of the vertical axis.
    pub y: &'a str,
    /// The lines.
    pub series: Vec<Series>,
    /// The scales of its axes.
    pub scale: Scale,
}

/// Scales of a chart's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Both are linear.
    Linear,
    /// The horizontal one is logarithmic.
    Across,
    /// Both are logarithmic.
    Both,
}

/// One bar.
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Its parts, each with its size.
    pub parts: Vec<(String, f64)>,
}

/// A chart of horizontal bars, each made of parts.
pub struct Stacked<'a> {
    /// Its title.
    pub title: &'a str,
    /// The label of the horizontal axis.
    pub x: &'a str,
    /// The bars.
    pub bars: Vec<Bar>,
}

impl Lines<'_> {
    /// The chart, or nothing where there is nothing to show.
    pub fn draw(&self) -> Option<String> {
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let logarithmic = self.scale != Scale::Linear;
        let transform = |x: f64| if logarithmic { x.max(1e-3).log2() } else { x };
        let low = points().map(|(x, _)| transform(x)).fold(f64::INFINITY, f64::min);
        let low = if logarithmic { low } else { low.min(0.0) };
        let high = points().map(|(x, _)| transform(x)).fold(f64::NEG_INFINITY, f64::max);
        let most = points().map(|(_, y)| y).fold(0.0, f64::max);
        let least = points().map(|(_, y)| y).fold(f64::INFINITY, f64::min);
        let axis = if self.scale == Scale::Both { Axis::logarithmic(least, most) } else { Axis::linear(most) };
        if !(high > low && most > 0.0) {
            return None;
        }
        let place = |(x, y): (f64, f64)| {
            let across = (transform(x) - low) / (high - low);
            (LEFT + across * (WIDTH - LEFT - RIGHT), axis.place(y))
        };
        let mut svg = Svg::new(self.title, HEIGHT);
        svg.vertical_axis(&axis, self.y);
        svg.text(LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - 12.0, "middle", self.x);
        let mut marks: Vec<f64> = if logarithmic {
            (low.ceil() as i64..=high.floor() as i64).map(|power| 2f64.powi(power as i32)).collect()
        } else {
            let step = nice_top((high - low) / 6.0);
            (0..).map(|index| low + step * f64::from(index)).take_while(|mark| *mark <= high).collect()
        };
        let stride = marks.len().div_ceil(9);
        marks = marks.into_iter().step_by(stride.max(1)).collect();
        for mark in marks {
            let (x, _) = place((mark, 0.0));
            svg.line((x, HEIGHT - BOTTOM), (x, HEIGHT - BOTTOM + 4.0), "axis");
            svg.text(x, HEIGHT - BOTTOM + 18.0, "middle", &short(mark));
        }
        for (index, series) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            svg.path(series.points.iter().map(|point| place(*point)), colour, series.points.len() <= 16);
            svg.legend(index, colour, &series.name);
        }
        Some(svg.finish())
    }
}

impl Stacked<'_> {
    /// The chart, or nothing where there is nothing to show.
    pub fn draw(&self) -> Option<String> {
        let most = self.bars.iter().map(Bar::sum).fold(0.0, f64::max);
        if most <= 0.0 {
            return None;
        }
        // Letters of this size are about 6.6 wide.
        let longest = self.bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
        let (step, left) = (28.0, (longest as f64 * 6.6 + 24.0).max(150.0));
        let height = TOP + step * self.bars.len() as f64 + BOTTOM;
        let top = nice_top(most);
        let scale = (WIDTH - left - RIGHT) / top;
        let mut svg = Svg::new(self.title, height);
        let mut names: Vec<&str> = Vec::new();
        for bar in &self.bars {
            bar.parts.iter().for_each(|(name, _)| {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            });
        }
        for mark in 0..=4 {
            let x = left + top * f64::from(mark) / 4.0 * scale;
            svg.line((x, TOP), (x, height - BOTTOM), "grid");
            svg.text(x, height - BOTTOM + 18.0, "middle", &short(top * f64::from(mark) / 4.0));
        }
        svg.text(left + (WIDTH - left - RIGHT) / 2.0, height - 12.0, "middle", self.x);
        for (row, bar) in self.bars.iter().enumerate() {
            let y = TOP + step * row as f64;
            svg.text(left - 8.0, y + 17.0, "end", &bar.name);
            let mut x = left;
            for (name, value) in &bar.parts {
                let index = names.iter().position(|known| known == name).unwrap_or(0);
                svg.rectangle(x, y + 4.0, value * scale, step - 8.0, COLOURS[index % COLOURS.len()], name, *value);
                x += value * scale;
            }
            svg.text(x + 6.0, y + 17.0, "start", &short(bar.sum()));
        }
        for (index, name) in names.iter().enumerate().take(12) {
            svg.legend(index, COLOURS[index % COLOURS.len()], name);
        }
        Some(svg.finish())
    }
}

impl Bar {
    fn sum(&self) -> f64 {
        self.parts.iter().map(|(_, value)| value).sum()
    }
}

/// A vertical axis.
struct Axis {
    /// The values at its ends; of a logarithmic one, powers of ten.
    ends: (f64, f64),
    is_logarithmic: bool,
}

impl Axis {
    fn linear(most: f64) -> Axis {
        Axis { ends: (0.0, nice_top(most)), is_logarithmic: false }
    }

    fn logarithmic(least: f64, most: f64) -> Axis {
        let low = least.max(1e-3).log10().floor();
        let high = most.max(1e-3).log10().ceil().max(low + 1.0);
        Axis { ends: (10f64.powf(low), 10f64.powf(high)), is_logarithmic: true }
    }

    /// The values at its marks, from the lowest on.
    fn marks(&self) -> Vec<f64> {
        let (low, high) = self.ends;
        if self.is_logarithmic {
            let decades = (high / low).log10().round() as i32;
            return (0..=decades).map(|decade| low * 10f64.powi(decade)).collect();
        }
        (0..=5).map(|step| high * f64::from(step) / 5.0).collect()
    }

    /// The height at which a value is drawn.
    fn place(&self, value: f64) -> f64 {
        let (low, high) = self.ends;
        let up = match self.is_logarithmic {
            true => (value.max(low) / low).log10() / (high / low).log10(),
            false => value / high,
        };
        HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)
    }
}

/// The next of 1, 2, 2.5, 5, 10 times a power of ten.
fn nice_top(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.iter().map(|step| step * power).find(|top| *top >= value * 0.999).unwrap_or(value)
}

fn short(value: f64) -> String {
    let rounded = |value: f64| {
        let text = format!("{value:.1}");
        text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
    };
    match value.abs() {
        magnitude if magnitude >= 1e6 => rounded(value / 1e6) + "M",
        magnitude if magnitude >= 1e4 => rounded(value / 1e3) + "k",
        magnitude if magnitude >= 10.0 => format!("{value:.0}"),
        _ => rounded(value),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

struct Svg(String);

impl Svg {
    fn new(title: &str, height: f64) -> Svg {
        let mut svg = Svg(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>{}</title>\n<style>text{{fill:#222}}\
             .title{{font-size:15px;font-weight:600}}.axis{{stroke:#444}}.grid{{stroke:#ddd}}.back{{fill:#fff}}\
             @media(prefers-color-scheme:dark){{text{{fill:#ddd}}.axis{{stroke:#aaa}}.grid{{stroke:#444}}\
             .back{{fill:#16181c}}}}</style>\n<rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
            escape(title)
        ));
        let _ = writeln!(svg.0, "<text class=\"title\" x=\"16\" y=\"26\">{}</text>", escape(title));
        svg
    }

    fn vertical_axis(&mut self, axis: &Axis, title: &str) {
        for (index, mark) in axis.marks().into_iter().enumerate() {
            let y = axis.place(mark);
            self.line((LEFT, y), (WIDTH - RIGHT, y), if index == 0 { "axis" } else { "grid" });
            self.text(LEFT - 8.0, y + 4.0, "end", &short(mark));
        }
        let middle = TOP + (HEIGHT - TOP - BOTTOM) / 2.0;
        let _ = writeln!(
            self.0,
            "<text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escape(title)
        );
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = writeln!(
            self.0,
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let _ = writeln!(self.0, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(text));
    }

    fn path(&mut self, points: impl Iterator<Item = (f64, f64)>, colour: &str, dots: bool) {
        let points: Vec<_> = points.collect();
        let line: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let line = line.join(" ");
        let _ = writeln!(self.0, "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{line}\"/>");
        for (x, y) in points.iter().filter(|_| dots) {
            let _ = writeln!(self.0, "<circle fill=\"{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a rectangle has a place, a size, a colour and a tooltip")]
    fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str, name: &str, value: f64) {
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\">\
             <title>{}: {}</title></rect>",
            escape(name),
            short(value)
        );
    }

    fn legend(&mut self, index: usize, colour: &str, name: &str) {
        let (x, y) = (WIDTH - RIGHT + 14.0, TOP + 8.0 + 20.0 * index as f64);
        let _ =
            writeln!(self.0, "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>", y - 10.0);
        self.text(x + 18.0, y, "start", name);
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_of_lines_holds_every_line() {
        let series = |name: &str| Series { name: name.to_owned(), points: vec![(1.0, 10.0), (256.0, 14_212.0)] };
        let lines =
            Lines { title: "a < b", x: "x", y: "y", series: vec![series("one"), series("two")], scale: Scale::Across };
        let svg = lines.draw().unwrap();
        assert!(svg.contains("a &lt; b") && svg.matches("<polyline").count() == 2 && svg.ends_with("</svg>\n"));
        let nothing = Lines { series: Vec::new(), ..lines };
        assert!(nothing.draw().is_none());
    }

    #[test]
    fn bars_are_as_long_as_their_parts() {
        let parts = vec![("kernel".to_owned(), 300.0), ("driver".to_owned(), 700.0)];
        let chart = Stacked { title: "t", x: "x", bars: vec![Bar { name: "row".to_owned(), parts }] };
        let svg = chart.draw().unwrap();
        assert!(svg.contains("kernel: 300") && svg.contains(">1000<"));
    }

    #[test]
    fn a_logarithmic_axis_has_a_mark_for_each_power_of_ten() {
        let axis = Axis::logarithmic(3_600.0, 2_100_000.0);
        assert_eq!(
            axis.marks().iter().map(|mark| short(*mark)).collect::<Vec<_>>(),
            ["1000", "10k", "100k", "1M", "10M"]
        );
        let step = axis.place(1e4) - axis.place(1e5);
        assert!(step > 1.0 && (axis.place(1e6) - axis.place(1e7) - step).abs() < 1e-6, "all decades are as high");
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!((nice_top(14_212.0), nice_top(99.0), nice_top(1.0)), (15_000.0, 100.0, 1.0));
        assert_eq!((short(14_212.0), short(2.5), short(3e6)), ("14.2k".into(), "2.5".into(), "3M".into()));
    }
}

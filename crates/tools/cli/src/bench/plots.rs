// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots of measurements as SVG, both axes logarithmic. The viewer renders the text, so no fonts are needed here.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::record::Measurement;

const SIZE: (u32, u32) = (860, 520);
/// Factor that extends the vertical axis, so that the legend is above the lines.
const LEGEND_ROOM: f64 = 2.5;
const FONT: &str = "sans-serif";
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 90, 160),
    RGBColor(200, 80, 0),
    RGBColor(0, 130, 80),
    RGBColor(160, 40, 130),
    RGBColor(110, 110, 110),
    RGBColor(190, 150, 0),
    RGBColor(80, 60, 30),
];

/// One plot, with a line for each case.
pub struct Plot {
    pub file: &'static str,
    pub title: &'static str,
    pub x_label: &'static str,
    pub y_label: &'static str,
    pub cases: &'static [&'static str],
    /// The point of a measurement; `None`: not in this plot.
    pub point: fn(&Measurement) -> Option<(f64, f64)>,
    pub x_text: fn(f64) -> String,
    pub y_text: fn(f64) -> String,
    /// The axes have a grid line at each power of these.
    pub x_base: f64,
    pub y_base: f64,
}

struct Line {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

impl Plot {
    /// Draws the plot. Returns false if no case has at least two points.
    pub fn draw(&self, all: &[Measurement], directory: &Path) -> Result<bool> {
        let lines: Vec<Line> = self.cases.iter().filter_map(|name| self.line(name, all)).collect();
        if lines.is_empty() {
            return Ok(false);
        }
        let text = self.svg(&lines)?;
        std::fs::write(directory.join(self.file), text)?;
        Ok(true)
    }

    fn line(&self, name: &'static str, all: &[Measurement]) -> Option<Line> {
        let mut points: Vec<_> = all.iter().filter(|m| m.case == name).filter_map(self.point).collect();
        points.retain(|(x, y)| *x > 0.0 && *y > 0.0);
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (points.len() >= 2).then_some(Line { name, points })
    }

    fn svg(&self, lines: &[Line]) -> Result<String> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            area.fill(&WHITE).map_err(failed)?;
            let mut y_extent = extent(lines, |p| p.1);
            y_extent.end *= LEGEND_ROOM;
            let mut chart = ChartBuilder::on(&area)
                .margin(16)
                .caption(self.title, (FONT, 20))
                .x_label_area_size(46)
                .y_label_area_size(76)
                .build_cartesian_2d(
                    extent(lines, |p| p.0).log_scale().base(self.x_base),
                    y_extent.log_scale().base(self.y_base),
                )
                .map_err(failed)?;
            chart
                .configure_mesh()
                .x_desc(self.x_label)
                .y_desc(self.y_label)
                .label_style((FONT, 13))
                .x_label_formatter(&|x| (self.x_text)(*x))
                .y_label_formatter(&|y| (self.y_text)(*y))
                .light_line_style(WHITE)
                .draw()
                .map_err(failed)?;
            for (line, color) in lines.iter().zip(COLORS.iter().cycle()) {
                let style = color.stroke_width(2);
                let drawn = chart.draw_series(LineSeries::new(line.points.iter().copied(), style).point_size(3));
                let key = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style);
                drawn.map_err(failed)?.label(line.name).legend(key);
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .background_style(WHITE.mix(0.85))
                .border_style(BLACK.mix(0.3))
                .label_font((FONT, 13))
                .draw()
                .map_err(failed)?;
            area.present().map_err(failed)?;
        }
        Ok(text)
    }
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

fn extent(lines: &[Line], coordinate: fn(&(f64, f64)) -> f64) -> Range<f64> {
    let values = || lines.iter().flat_map(|line| line.points.iter().map(coordinate));
    let least = values().fold(f64::INFINITY, f64::min);
    let greatest = values().fold(0.0, f64::max);
    least * 0.8..greatest * 1.6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(case: &str, size: u64, median_ns: f64) -> Measurement {
        Measurement { case: case.into(), size_bytes: Some(size), median_ns: Some(median_ns), ..Measurement::default() }
    }

    const PLOT: Plot = Plot {
        file: "plot.svg",
        title: "Title",
        x_label: "bytes",
        y_label: "time",
        cases: &["one", "absent", "two"],
        point: |m| Some((m.size_bytes? as f64, m.median_ns?)),
        x_text: |x| format!("{x}"),
        y_text: |y| format!("{y} ns"),
        x_base: 4.0,
        y_base: 10.0,
    };

    #[test]
    fn lines_with_two_points_are_drawn() {
        let directory = tempfile::tempdir().unwrap();
        let all = [measured("one", 8, 100.0), measured("one", 64, 200.0), measured("two", 8, 1.0)];
        assert!(PLOT.draw(&all, directory.path()).unwrap());
        let text = std::fs::read_to_string(directory.path().join("plot.svg")).unwrap();
        assert!(text.contains("<svg") && text.contains("</svg>") && text.contains("Title") && text.contains("one"));
        assert!(!text.contains("two") && !text.contains("absent"));
        assert!(!PLOT.draw(&all[2..], directory.path()).unwrap());
    }
}

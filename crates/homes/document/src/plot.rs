// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots as SVG: lines, bars over a range, ranked bars with names, a matrix.
//!
//! The viewer renders the text, so no fonts are needed here. Lines are drawn in `currentColor`: within a page a picture
//! takes the page's colour; a separate picture has two lines of style for light and dark.
//!
//! The key stands beside the picture: the names of several lines (dashed from the seventh on), or a matrix's colours.
//!
//! Invariants
//! 1. Points that cannot be drawn (not finite; not above 0 on a logarithmic axis) are left out.
//! 2. A plot without points is empty ([`Plot::is_empty`]), and drawn as its axes.

use std::borrow::Cow;
use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::element::DashedPathElement;
use plotters::prelude::*;

const SIZE: (u32, u32) = (920, 460);
const MARGIN: u32 = 14;
const KEY_GAP: i32 = 22;
const FONT: &str = "sans-serif";
/// Okabe and Ito's colours without yellow: also distinct for colour-blind readers, and readable on white and on black.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
const GRID: RGBColor = RGBColor(128, 128, 128);
/// Most rows of a matrix; larger ones are summed into blocks.
pub const MATRIX_MAX: usize = 64;

/// A picture.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Name of its file, without an extension.
    pub name: String,
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub shape: Shape,
}

/// Quantity and scale of an axis, and the format of its numbers.
#[derive(Clone, Debug)]
pub struct Axis {
    pub label: Cow<'static, str>,
    pub scale: Scale,
    pub words: fn(f64) -> String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear, from 0.
    Linear,
    /// Linear, for counts: marks only at whole numbers.
    Whole,
    /// Logarithmic, with marks at powers of the base.
    Logarithmic { base: u32 },
}

#[derive(Clone, Debug)]
pub enum Shape {
    Lines(Vec<Line>),
    /// Each bar: from, to, height.
    Bars(Vec<(f64, f64, f64)>),
    /// Bars with names, from the top down; x is the axis of the values.
    Ranked(Vec<(String, f64)>),
    Matrix(Matrix),
}

/// A value for each pair of source and target.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Rows from the top down.
    pub rows: Vec<Vec<f64>>,
    /// Sources of a row, and targets of a column.
    pub block: usize,
    /// Formats the value of a cell.
    pub words: fn(f64) -> String,
}

#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

impl Axis {
    pub const fn linear(label: &'static str, words: fn(f64) -> String) -> Axis {
        Axis { label: Cow::Borrowed(label), scale: Scale::Linear, words }
    }

    pub const fn whole(label: &'static str, words: fn(f64) -> String) -> Axis {
        Axis { label: Cow::Borrowed(label), scale: Scale::Whole, words }
    }

    pub const fn logarithmic(label: &'static str, base: u32, words: fn(f64) -> String) -> Axis {
        Axis { label: Cow::Borrowed(label), scale: Scale::Logarithmic { base }, words }
    }

    /// Returns the axis with another name.
    pub fn called(self, label: impl Into<Cow<'static, str>>) -> Axis {
        Axis { label: label.into(), ..self }
    }

    /// Returns the position of a value on the axis. `None`: it cannot be drawn.
    fn place(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Linear | Scale::Whole => value,
            Scale::Logarithmic { base } => value.ln() / f64::from(base).ln(),
        };
        place.is_finite().then_some(place)
    }

    fn words_at(&self, place: f64) -> String {
        round(match self.scale {
            Scale::Linear | Scale::Whole => (self.words)(place),
            Scale::Logarithmic { base } => (self.words)(f64::from(base).powf(place)),
        })
    }

    /// Returns a range that contains all positions, and its marks. `from_zero`: begin at the axis's least value.
    fn extent(&self, places: impl Iterator<Item = f64>, from_zero: bool) -> Extent {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for place in places {
            (least, most) = (least.min(place), most.max(place));
        }
        if least > most {
            (least, most) = (0.0, 1.0);
        }
        match self.scale {
            Scale::Linear | Scale::Whole => {
                if from_zero {
                    least = least.min(0.0);
                }
                if most <= least {
                    most = least + 1.0;
                }
                let step = round_step((most - least) / 6.0);
                let step = if self.scale == Scale::Whole { step.max(1.0) } else { step };
                let (first, last) = ((least / step).floor(), (most / step).ceil());
                let marks = (0..=(last - first) as i64).map(|n| (first + n as f64) * step).collect();
                Extent { places: first * step..last * step, marks }
            }
            Scale::Logarithmic { base } => {
                let (first, last) = (least.floor(), most.ceil().max(least.floor() + 1.0));
                let every = ((last - first) / 10.0).ceil().max(1.0);
                let powers = (0..=((last - first) / every) as i64).map(|n| first + n as f64 * every);
                let marks: Vec<f64> = if base == 10 && last - first <= 3.0 {
                    let between = powers.flat_map(|power| [1f64, 2.0, 5.0].map(|n| power + n.log10()));
                    between.filter(|mark| *mark <= last).collect()
                } else {
                    powers.collect()
                };
                Extent { places: first..last, marks }
            }
        }
    }
}

/// Returns the text of a mark, which is a round number: "20 us" for "20.0 us", and "0" without a unit.
fn round(words: String) -> String {
    let (number, unit) = words.split_once(' ').unwrap_or((&words, ""));
    if number.parse() == Ok(0.0) {
        return "0".to_owned();
    }
    let short = match number.contains('.') && !number.contains('e') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    if unit.is_empty() { short.to_owned() } else { format!("{short} {unit}") }
}

/// Returns the least of 1, 2 or 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= least * 0.999).unwrap_or(10.0 * power)
}

#[derive(Clone, Debug)]
struct Extent {
    places: Range<f64>,
    marks: Vec<f64>,
}

impl Ranged for Extent {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, pixels: (i32, i32)) -> i32 {
        let share = (place - self.places.start) / (self.places.end - self.places.start);
        pixels.0 + (share * f64::from(pixels.1 - pixels.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.places.clone()
    }
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Extent, Extent>>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Plot {
    pub fn is_empty(&self) -> bool {
        match &self.shape {
            Shape::Lines(lines) => lines.iter().all(|line| line.points.is_empty()),
            Shape::Bars(bars) => bars.is_empty(),
            Shape::Ranked(bars) => bars.is_empty(),
            Shape::Matrix(matrix) => matrix.rows.is_empty(),
        }
    }

    /// Returns the picture as a separate file.
    pub fn svg(&self) -> String {
        const STYLE: &str = "<style>svg{color-scheme:light dark;color:#222;background:#fff}\
                             @media(prefers-color-scheme:dark){svg{color:#ddd;background:#181818}}</style>";
        let drawn = self.inline_svg();
        match drawn.find('>') {
            Some(end) => {
                format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n{STYLE}{}", &drawn[..=end], &drawn[end + 1..])
            }
            None => drawn,
        }
    }

    /// Returns the picture for a page.
    pub fn inline_svg(&self) -> String {
        let mut text = String::new();
        // Drawing into a string fails only if a coordinate system is invalid, which `extent` excludes.
        if let Err(error) = self.draw(&mut text) {
            log::warn!("the plot {} cannot be drawn: {error}", self.name);
            text = format!("<svg width=\"{}\" height=\"40\" xmlns=\"http://www.w3.org/2000/svg\">\n</svg>\n", SIZE.0);
        }
        let title = escaped(&self.title);
        let head = format!("<svg role=\"img\" aria-label=\"{title}\"");
        text.replacen("<svg", &head, 1).replace("\"#000000\"", "\"currentColor\"")
    }

    fn draw(&self, text: &mut String) -> Drawn {
        let long = self.names().map(|name| name.chars().count()).max().unwrap_or(0) as u32;
        let left = if long > 0 { 30 + 7 * long.min(50) } else { 80 };
        let (below, caption) = (44, 32);
        let (height, right) = match &self.shape {
            Shape::Ranked(bars) => (130 + 20 * bars.len().max(2) as u32, 40),
            // Cells are squares; with many cells they are small.
            Shape::Matrix(matrix) => {
                let side = (matrix.rows.len() as u32 * 32).clamp(200, 620);
                (side + 2 * MARGIN + below + caption, SIZE.0 - left - side - MARGIN)
            }
            Shape::Lines(lines) if lines.len() > 1 => {
                let longest = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0) as u32;
                (SIZE.1.max(90 + 18 * lines.len() as u32), (KEY_GAP as u32 + 34 + 7 * longest).min(330))
            }
            _ => (SIZE.1, 40),
        };
        let area = SVGBackend::with_string(text, (SIZE.0, height)).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(MARGIN)
            .margin_top(MARGIN + caption)
            .margin_right(right)
            .x_label_area_size(below)
            .y_label_area_size(left)
            .build_cartesian_2d(self.x_extent(), self.y_extent())?;
        self.draw_axes(&mut chart)?;
        match &self.shape {
            Shape::Lines(lines) => self.draw_lines(&mut chart, lines)?,
            Shape::Bars(bars) => self.draw_bars(&mut chart, bars)?,
            Shape::Ranked(bars) => self.draw_ranked(&mut chart, bars)?,
            Shape::Matrix(matrix) => draw_matrix(&mut chart, matrix)?,
        }
        // A title may be wider than its picture.
        let title = Text::new(printable(&self.title), ((MARGIN + left) as i32, MARGIN as i32), (FONT, 20).into_font());
        area.draw(&title)?;
        let corner = ((SIZE.0 - right) as i32 + KEY_GAP, (MARGIN + caption) as i32);
        match &self.shape {
            Shape::Lines(lines) if lines.len() > 1 => draw_names(&area, corner, lines)?,
            Shape::Matrix(matrix) => draw_shades(&area, corner, matrix)?,
            _ => {}
        }
        area.present()?;
        drop(chart);
        Ok(())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let bars = if let Shape::Ranked(bars) = &self.shape { bars.as_slice() } else { &[] };
        bars.iter().map(|(name, _)| name.as_str())
    }

    fn x_extent(&self) -> Extent {
        let place = |value: &f64| self.x.place(*value);
        match &self.shape {
            Shape::Lines(lines) => {
                let points = lines.iter().flat_map(|line| &line.points);
                self.x.extent(points.filter_map(|(x, _)| place(x)), false)
            }
            Shape::Bars(bars) => {
                self.x.extent(bars.iter().flat_map(|(from, to, _)| [*from, *to]).filter_map(|x| place(&x)), false)
            }
            Shape::Ranked(bars) => self.x.extent(bars.iter().filter_map(|(_, value)| place(value)), true),
            Shape::Matrix(matrix) => matrix.extent(),
        }
    }

    fn y_extent(&self) -> Extent {
        let place = |value: &f64| self.y.place(*value);
        match &self.shape {
            Shape::Lines(lines) => {
                let points = lines.iter().flat_map(|line| &line.points);
                self.y.extent(points.filter_map(|(_, y)| place(y)), true)
            }
            Shape::Bars(bars) => self.y.extent(bars.iter().filter_map(|(_, _, height)| place(height)), true),
            Shape::Ranked(bars) => {
                let rows = bars.len().max(1);
                Extent { places: 0.0..rows as f64, marks: (0..bars.len()).map(|row| row as f64 + 0.5).collect() }
            }
            Shape::Matrix(matrix) => {
                let extent = matrix.extent();
                Extent { places: extent.places.end..extent.places.start, marks: extent.marks }
            }
        }
    }

    fn draw_axes(&self, chart: &mut Chart<'_, '_>) -> Drawn {
        let ranked: Vec<&str> = self.names().collect();
        let matrix = if let Shape::Matrix(matrix) = &self.shape { Some(matrix) } else { None };
        let y_words = |place: &f64| match (ranked.len(), matrix) {
            (_, Some(matrix)) => matrix.first_of(*place).to_string(),
            (0, _) => self.y.words_at(*place),
            (rows, _) => {
                ranked.get(rows.saturating_sub(1 + *place as usize)).map_or(String::new(), |name| shortened(name))
            }
        };
        let x_words =
            |place: &f64| matrix.map_or_else(|| self.x.words_at(*place), |matrix| matrix.first_of(*place).to_string());
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(printable(&self.x.label))
            .y_desc(if ranked.is_empty() { printable(&self.y.label) } else { String::new() })
            .label_style((FONT, 14, &BLACK))
            .axis_desc_style((FONT, 15, &BLACK))
            .axis_style(BLACK.mix(0.7))
            .bold_line_style(GRID.mix(0.3))
            .light_line_style(TRANSPARENT)
            .x_label_formatter(&x_words)
            .y_label_formatter(&y_words)
            .max_light_lines(0);
        if !ranked.is_empty() {
            mesh.disable_y_mesh();
        }
        if matrix.is_some() {
            mesh.disable_mesh();
        }
        mesh.draw()?;
        Ok(())
    }

    fn draw_lines(&self, chart: &mut Chart<'_, '_>, lines: &[Line]) -> Drawn {
        for (number, line) in lines.iter().enumerate() {
            let (style, dashed) = line_style(number);
            let places = line.points.iter().filter_map(|(x, y)| Some((self.x.place(*x)?, self.y.place(*y)?)));
            let points: Vec<_> = places.collect();
            if points.len() <= 64 {
                chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, style)))?;
            }
            match dashed {
                true => chart.draw_series(DashedLineSeries::new(points, DASH.0, DASH.1, style))?,
                false => chart.draw_series(LineSeries::new(points, style))?,
            };
        }
        Ok(())
    }

    fn draw_bars(&self, chart: &mut Chart<'_, '_>, bars: &[(f64, f64, f64)]) -> Drawn {
        let floor = self.y_extent().places.start;
        let bar = |(from, to, height): &(f64, f64, f64)| {
            let corners = [(self.x.place(*from)?, floor), (self.x.place(*to)?, self.y.place(*height)?)];
            let mut bar = Rectangle::new(corners, COLORS[0].mix(0.85).filled());
            bar.set_margin(0, 0, 0, 1);
            Some(bar)
        };
        chart.draw_series(bars.iter().filter_map(bar))?;
        Ok(())
    }

    fn draw_ranked(&self, chart: &mut Chart<'_, '_>, bars: &[(String, f64)]) -> Drawn {
        let rows = bars.len();
        let floor = self.x_extent().places.start;
        let bar = |(row, (_, value)): (usize, &(String, f64))| {
            let top = (rows - row) as f64;
            Some(Rectangle::new(
                [(floor, top - 0.85), (self.x.place(*value)?, top - 0.15)],
                COLORS[0].mix(0.85).filled(),
            ))
        };
        chart.draw_series(bars.iter().enumerate().filter_map(bar))?;
        Ok(())
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

const DASH: (i32, i32) = (7, 4);

/// Returns the style of a line, by its number, and whether it is dashed: there may be more lines than colours.
fn line_style(number: usize) -> (ShapeStyle, bool) {
    (COLORS[number % COLORS.len()].stroke_width(2), number / COLORS.len() % 2 == 1)
}

fn draw_names(area: &Area<'_>, (x, y): (i32, i32), lines: &[Line]) -> Drawn {
    for (number, line) in lines.iter().enumerate() {
        let (style, dashed) = line_style(number);
        let y = y + 9 + 18 * number as i32;
        let ends = [(x, y), (x + 20, y)];
        match dashed {
            true => area.draw(&DashedPathElement::new(ends, DASH.0, DASH.1, style))?,
            false => area.draw(&PathElement::new(ends, style))?,
        }
        area.draw(&Text::new(shortened(&line.name), (x + 26, y - 6), (FONT, 14).into_font()))?;
    }
    Ok(())
}

/// Draws the key of a matrix: its colours and their values.
fn draw_shades(area: &Area<'_>, (x, y): (i32, i32), matrix: &Matrix) -> Drawn {
    let most = matrix.most();
    for (number, share) in [1.0, 0.75, 0.5, 0.25, 0.0].into_iter().enumerate() {
        let y = y + 20 * number as i32;
        area.draw(&Rectangle::new([(x, y), (x + 16, y + 16)], shade(share)))?;
        let words = if share > 0.0 { round((matrix.words)(most * share)) } else { "little".to_owned() };
        area.draw(&Text::new(words, (x + 24, y + 2), (FONT, 14).into_font()))?;
    }
    Ok(())
}

/// Returns the colour for a share of the greatest value.
fn shade(share: f64) -> ShapeStyle {
    COLORS[1].mix(0.1 + 0.9 * share).filled()
}

impl Matrix {
    fn most(&self) -> f64 {
        self.rows.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// Returns the range of rows or columns; marks are at the middles of rows.
    fn extent(&self) -> Extent {
        let rows = self.rows.len();
        let step = (round_step(rows as f64 / 12.0).round() as usize).max(1);
        Extent { places: 0.0..rows.max(1) as f64, marks: (0..rows).step_by(step).map(|row| row as f64 + 0.5).collect() }
    }

    /// Returns the first source of the row, or target of the column, at a position.
    fn first_of(&self, place: f64) -> usize {
        place as usize * self.block
    }
}

fn draw_matrix(chart: &mut Chart<'_, '_>, matrix: &Matrix) -> Drawn {
    let most = matrix.most();
    let rows = matrix.rows.iter().enumerate();
    let cells = rows.flat_map(|(y, row)| row.iter().enumerate().map(move |(x, value)| (x, y, *value)));
    let cells = cells.filter(|(.., value)| *value > 0.0).map(|(x, y, value)| {
        let (x, y) = (x as f64, y as f64);
        Rectangle::new([(x, y), (x + 1.0, y + 1.0)], shade(value / most))
    });
    chart.draw_series(cells)?;
    Ok(())
}

/// Sums a matrix into blocks, with at most [`MATRIX_MAX`] rows; returns it with the number of old rows in each new one.
pub fn shrunk(cells: impl Iterator<Item = (usize, usize, f64)>, size: usize) -> (Vec<Vec<f64>>, usize) {
    let block = size.div_ceil(MATRIX_MAX).max(1);
    let rows = size.div_ceil(block);
    let mut matrix = vec![vec![0.0; rows]; rows];
    for (row, column, value) in cells {
        if row < size && column < size {
            matrix[row / block][column / block] += value;
        }
    }
    (matrix, block)
}

/// Whether the values above zero are so far apart that a linear axis would show only the largest.
pub fn wide(values: impl Iterator<Item = f64> + Clone) -> bool {
    let least = values.clone().filter(|value| *value != 0.0).fold(f64::INFINITY, f64::min);
    least > 0.0 && values.fold(0.0, f64::max) >= 32.0 * least
}

/// Makes a file name: letters and digits, and dashes for all other characters.
pub fn file_name(text: &str) -> String {
    let dashed: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    dashed.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

fn shortened(name: &str) -> String {
    const LONGEST: usize = 50;
    let name = printable(name);
    if name.chars().count() <= LONGEST {
        return name;
    }
    let mut short: String = name.chars().take(LONGEST - 1).collect();
    short.push('…');
    short
}

/// Replaces control characters, which XML cannot contain.
fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// Escapes text for XML and its attributes; control characters, which XML cannot contain, become `?`.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            control if control.is_control() && control != '\n' && control != '\t' => out.push('?'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
#[path = "plot_tests.rs"]
mod tests;

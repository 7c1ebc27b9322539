// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pictures are well-formed whatever their values; marks are round; names stand beside the lines.

use super::*;
use crate::words;

fn is_xml(text: &str) {
    if let Err(error) = roxmltree::Document::parse(text) {
        panic!("{error}: {text}");
    }
}

#[test]
fn plots_of_odd_values_are_drawn() {
    let line = |points: &[(f64, f64)]| Shape::Lines(vec![Line { name: "a".into(), points: points.to_vec() }; 2]);
    let shapes = [
        line(&[]),
        line(&[(1.0, 5.0)]),
        line(&[(0.0, 0.0), (f64::NAN, 1.0), (1.0, f64::INFINITY), (-1.0, -3.0)]),
        line(&[(1e-300, 1e300), (1e300, 1e-300)]),
        Shape::Bars(vec![(1.0, 1.0, 0.0)]),
        Shape::Bars(vec![(1.0, 2.0, 3.0), (2.0, 4.0, 1e12)]),
        Shape::Ranked(vec![("a name that is far too long to be shown beside a bar without being cut".into(), 0.0)]),
        Shape::Matrix(Matrix { rows: vec![vec![0.0; 3]; 3], block: 1, words: words::bytes }),
    ];
    for shape in shapes {
        for axis in [Axis::linear("x", words::plain), Axis::logarithmic("x", 2, words::plain)] {
            let title = "\"<odd>\" & \u{1}".into();
            let plot = Plot { name: "odd".into(), title, x: axis.clone(), y: axis, shape: shape.clone() };
            let svg = plot.svg();
            is_xml(&svg);
            assert!(svg.contains("<text"), "nothing was drawn for {shape:?}");
            is_xml(&plot.inline_svg());
        }
    }
}

/// The words of a picture, and the position of each.
fn words_of(plot: &Plot) -> Vec<(String, f64, f64)> {
    let svg = plot.inline_svg();
    let parsed = roxmltree::Document::parse(&svg).unwrap();
    let number = |node: &roxmltree::Node<'_, '_>, name| node.attribute(name).unwrap().parse::<f64>().unwrap();
    let texts = parsed.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| (node.text().unwrap().trim().to_owned(), number(&node, "x"), number(&node, "y"))).collect()
}

#[test]
fn marks_are_round_and_of_counted_things_whole() {
    let plot = |x: Axis, last: f64| Plot {
        name: "marks".into(),
        title: "marks".into(),
        x,
        y: Axis::linear("time", words::time_ns),
        shape: Shape::Lines(vec![Line { name: "a".into(), points: vec![(0.0, 0.0), (last, 1e5)] }]),
    };
    let words = |plot: &Plot| words_of(plot).into_iter().map(|word| word.0).collect::<Vec<_>>();
    let nodes = words(&plot(Axis::whole("node", words::plain), 1.0));
    assert!(nodes.contains(&"0".to_owned()) && nodes.contains(&"1".to_owned()), "{nodes:?}");
    assert!(!nodes.iter().any(|word| word.contains('.')), "{nodes:?}");
    assert!(nodes.contains(&"20 us".to_owned()) && nodes.contains(&"node".to_owned()), "{nodes:?}");
    let shares = words(&plot(Axis::linear("share", words::percent), 0.05));
    assert!(shares.contains(&"1 %".to_owned()) && shares.contains(&"share".to_owned()), "{shares:?}");
    let parts = words(&plot(Axis::linear("part", words::plain), 1.0));
    assert!(parts.contains(&"0.2".to_owned()), "{parts:?}");
}

#[test]
fn many_lines_have_names_beside_the_picture_and_looks_of_their_own() {
    let line = |number: usize| Line { name: format!("line {number}"), points: vec![(0.0, number as f64), (1.0, 1.0)] };
    let plot = Plot {
        name: "many".into(),
        title: "a title that is longer than what it stands above".into(),
        x: Axis::linear("x", words::plain),
        y: Axis::linear("y", words::plain),
        shape: Shape::Lines((0..12).map(line).collect()),
    };
    let words = words_of(&plot);
    let marks = words.iter().filter(|(word, ..)| word.parse::<f64>().is_ok());
    let right = marks.map(|(_, x, _)| *x).fold(0.0, f64::max);
    let names: Vec<_> = words.iter().filter(|(word, ..)| word.starts_with("line ")).collect();
    assert_eq!(names.len(), 12);
    for pair in names.windows(2) {
        assert!(pair[0].1 > right && pair[1].2 >= pair[0].2 + 14.0, "{pair:?} right of {right}");
    }
    // There are six colours: the other six lines use them again, dashed; each dash is an SVG line.
    let svg = plot.inline_svg();
    let of_color = |color: &str| svg.matches(&format!("stroke=\"{color}\"")).count();
    assert!(of_color("#0072B2") > 20 && of_color("#56B4E9") > 20, "{svg}");
}

#[test]
fn a_matrix_names_the_nodes_and_the_worth_of_its_colours() {
    let matrix = |size: usize, block| Plot {
        name: "matrix".into(),
        title: "Payload from node (down) to node (across)".into(),
        x: Axis::linear("to node", words::plain),
        y: Axis::linear("from node", words::plain),
        shape: Shape::Matrix(Matrix { rows: vec![vec![4096.0; size]; size], block, words: words::bytes }),
    };
    let words = |plot: &Plot| words_of(plot).into_iter().map(|word| word.0).collect::<Vec<_>>();
    let two = words(&matrix(2, 1));
    // Each of the two nodes is marked once on each axis, and nothing between them.
    assert_eq!(two.iter().filter(|word| *word == "1").count(), 2, "{two:?}");
    assert!(two.contains(&"4 KiB".to_owned()) && two.contains(&"little".to_owned()), "{two:?}");
    assert!(!two.iter().any(|word| word.contains('.')), "{two:?}");
    let blocks = words(&matrix(64, 16));
    assert!(blocks.contains(&"160".to_owned()) && !blocks.contains(&"10".to_owned()), "{blocks:?}");
    for (_, x, y) in words_of(&matrix(2, 1)) {
        assert!(x >= 0.0 && y >= 0.0, "({x}, {y}) is outside");
    }
}

#[test]
fn a_matrix_of_many_nodes_is_summed_up() {
    let cells: Vec<_> = (0..5000).map(|number| (number * 37 % 1000, number * 91 % 1000, 1.0)).collect();
    let (rows, block) = shrunk(cells.iter().copied(), 1000);
    assert!(rows.len() <= MATRIX_MAX && block == 16);
    assert_eq!(rows.iter().flatten().sum::<f64>(), 5000.0);
    let (rows, block) = shrunk([(1, 2, 3.0)].into_iter(), 3);
    assert_eq!((rows[1][2], rows.len(), block), (3.0, 3, 1));
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A document as one HTML page, without other files or external resources. Only a drawing that is given has a script.
//!
//! Colours follow the reader's setting, light or dark. Long sections and outputs of commands can be folded
//! (`<details>`). A plot and the table of its numbers link to each other.
//!
//! On a narrow screen the page has no scroll bar of its own: tables, plots and outputs scroll in their boxes, plots at a
//! width at which their words can be read, and links are as high as a finger.
//!
//! Places: section n is `#sN`, table n of the document `#tN`, and a plot `#plot-NAME`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::plot::escaped;
use crate::{Block, Document, Output, Plot, Section, Table};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2126;--dim:#5d6670;--paper:#fff;--line:#d8dce0;--stripe:#f5f7f8;--link:#0a5fa8}
@media(prefers-color-scheme:dark){:root{--ink:#dfe3e8;--dim:#98a2ad;--paper:#16191d;--line:#343a41;--stripe:#1d2126;--link:#7ab8f0}}
*{box-sizing:border-box}html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:66rem;margin:2rem auto;padding:0 1rem;overflow-wrap:break-word}
h1{font-size:1.6rem;margin-bottom:.2rem;overflow-wrap:anywhere}h2,summary{font-size:1.15rem;font-weight:600;margin:1.8rem 0 .5rem}
summary{cursor:pointer;overflow-wrap:anywhere}.about,.note{color:var(--dim)}nav{margin:.6rem 0}nav a{display:inline-block;margin-right:1em;padding:.15rem 0}
a{color:var(--link)}:target{scroll-margin-top:.5rem;outline:2px solid var(--link);outline-offset:4px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.4rem 0 1rem}
td,th{padding:.15rem .7rem .15rem .4rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line);overflow-wrap:normal}
th{color:var(--dim);font-weight:600}tbody tr:nth-child(even){background:var(--stripe)}.r{text-align:right}td.r,td.n{white-space:nowrap}td.n{color:var(--dim)}td.v{overflow-wrap:anywhere;min-width:11rem}
svg{max-width:100%;height:auto;color:var(--ink)}figure{margin:.5rem 0 1.2rem}figure .scroll svg{display:block;width:100%;max-width:58rem;min-width:50rem}
figcaption,.pictures{color:var(--dim);font-size:.93rem}.pictures{margin:.2rem 0}.pictures a{margin-right:1em}
code,pre{font:.9em/1.45 ui-monospace,monospace}code{overflow-wrap:anywhere}
pre{overflow-x:auto;background:var(--stripe);border:1px solid var(--line);padding:.6rem .8rem;margin:.3rem 0 .8rem}
details.output{margin:.3rem 0}details.output summary{font-size:1rem;margin:.3rem 0}
@media(max-width:40rem),(pointer:coarse){body{margin:1rem auto}nav a,figcaption a,.pictures a{display:inline-block;padding:.6rem .4rem .6rem 0}summary{padding:.6rem 0}}
@media(max-width:40rem){td.n{white-space:normal}}";

/// A part of the page that comes from elsewhere, such as a drawing of the topology: its style, its markup, and its
/// script, which stands at the end.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    pub style: String,
    pub body: String,
    pub script: String,
    /// Number of the section that it stands before.
    pub section: usize,
}

/// The links between plots and tables of a document.
struct Links<'a> {
    /// Number of the table with a plot's numbers, and the title of its section, by the plot's name.
    tables: BTreeMap<&'a str, (usize, &'a str)>,
    /// Titles of plots, by their names.
    titles: BTreeMap<&'a str, &'a str>,
}

impl<'a> Links<'a> {
    fn of(document: &'a Document) -> Links<'a> {
        let mut tables = BTreeMap::new();
        for (number, (section, table)) in all_tables(document).enumerate() {
            tables.extend(table.plots.iter().map(|plot| (plot.as_str(), (number, section.title.as_str()))));
        }
        let titles = document.plots().map(|plot| (plot.name.as_str(), plot.title.as_str())).collect();
        Links { tables, titles }
    }
}

fn all_tables(document: &Document) -> impl Iterator<Item = (&Section, &Table)> {
    let blocks = document.sections.iter().flat_map(|section| section.blocks.iter().map(move |block| (section, block)));
    blocks.filter_map(|(section, block)| match block {
        Block::Table(table) => Some((section, table)),
        _ => None,
    })
}

/// Returns the page of a document.
pub fn page(document: &Document, drawn: Option<&Drawn>) -> String {
    let title = escaped(&document.title);
    let mut out = String::new();
    let style = drawn.map_or("", |drawn| &drawn.style);
    let head = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
                <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
    // Writing to a string does not fail.
    let _ =
        write!(out, "{head}<title>{title}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n");
    if !document.about.is_empty() {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", with_code(&document.about));
    }
    out.push_str("<nav>");
    for (number, section) in document.sections.iter().enumerate().filter(|(_, section)| !section.title.is_empty()) {
        let _ = write!(out, "<a href=\"#s{number}\">{}</a> ", escaped(&section.title));
    }
    out.push_str("</nav>\n");
    let (links, mut tables) = (Links::of(document), 0);
    for (number, section) in document.sections.iter().enumerate() {
        if let Some(drawn) = drawn.filter(|drawn| drawn.section == number) {
            let _ = writeln!(out, "{}", drawn.body);
        }
        add_section(&mut out, number, section, &links, &mut tables);
    }
    if let Some(drawn) = drawn {
        let _ = writeln!(out, "<script>{}</script>", drawn.script);
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// `tables`: the number of the next table.
fn add_section(out: &mut String, number: usize, section: &Section, links: &Links<'_>, tables: &mut usize) {
    let title = escaped(&section.title);
    let _ = match section.folded {
        true => writeln!(out, "<details id=\"s{number}\"><summary>{title}</summary>"),
        false if title.is_empty() => writeln!(out, "<section>"),
        false => writeln!(out, "<section id=\"s{number}\"><h2>{title}</h2>"),
    };
    if section.wall {
        out.push_str("<p class=\"note\">Measured on the computer that ran the simulation; another run differs.</p>\n");
    }
    for block in &section.blocks {
        let _ = match block {
            Block::Text(text) => writeln!(out, "<p>{}</p>", with_code(text)),
            Block::List(items) => {
                let items: String = items.iter().map(|item| format!("<li>{}</li>\n", with_code(item))).collect();
                writeln!(out, "<ul>\n{items}</ul>")
            }
            Block::Table(table) => {
                add_table(out, table, *tables, links);
                *tables += 1;
                Ok(())
            }
            Block::Plot(plot) => add_plot(out, plot, links),
            Block::Output(output) => add_output(out, output),
        };
    }
    out.push_str(if section.folded { "</details>\n" } else { "</section>\n" });
}

fn add_plot(out: &mut String, plot: &Plot, links: &Links<'_>) -> std::fmt::Result {
    let name = escaped(&plot.name);
    write!(out, "<figure id=\"plot-{name}\"><div class=\"scroll\" tabindex=\"0\">{}</div>", plot.inline_svg())?;
    if let Some((table, title)) = links.tables.get(plot.name.as_str()) {
        let of = if title.is_empty() { "the table".to_owned() } else { format!("the table of {}", escaped(title)) };
        write!(out, "<figcaption>Its numbers: <a href=\"#t{table}\">{of}</a></figcaption>")?;
    }
    writeln!(out, "</figure>")
}

fn add_output(out: &mut String, output: &Output) -> std::fmt::Result {
    let (title, command) = (escaped(&output.title), escaped(&output.command));
    writeln!(
        out,
        "<details class=\"output\"><summary>{title}</summary>\n<pre tabindex=\"0\">$ {command}\n{}</pre></details>",
        escaped(output.text.trim_end())
    )
}

fn add_table(out: &mut String, table: &Table, number: usize, links: &Links<'_>) {
    let drawn = table.plots.iter().filter_map(|name| Some((escaped(name), escaped(links.titles.get(name.as_str())?))));
    let drawn: Vec<String> = drawn.map(|(name, title)| format!("<a href=\"#plot-{name}\">{title}</a>")).collect();
    if !drawn.is_empty() {
        let _ = writeln!(out, "<p class=\"pictures\">Drawn in: {}</p>", drawn.join(" "));
    }
    let _ = writeln!(out, "<div class=\"scroll\" tabindex=\"0\"><table id=\"t{number}\">");
    let class = |at: usize| match table.columns.get(at) {
        Some(column) if column.right => " class=\"r\"",
        // The name of a value.
        None if at == 0 => " class=\"n\"",
        None => " class=\"v\"",
        _ => "",
    };
    if !table.columns.is_empty() {
        out.push_str("<thead><tr>");
        for (at, column) in table.columns.iter().enumerate() {
            let _ = write!(out, "<th{}>{}</th>", class(at), escaped(&column.head));
        }
        out.push_str("</tr></thead>\n");
    }
    out.push_str("<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(at), escaped(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Escapes a text; what stands between backticks becomes code.
fn with_code(text: &str) -> String {
    if text.matches('`').count() % 2 == 1 {
        return escaped(text);
    }
    let part = |(number, part): (usize, &str)| match number % 2 {
        1 => format!("<code>{}</code>", escaped(part)),
        _ => escaped(part),
    };
    text.split('`').enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Line, Shape};
    use crate::words;

    fn plot(name: &str) -> Plot {
        Plot {
            name: name.into(),
            title: format!("<{name}>"),
            x: Axis::linear("x", words::plain),
            y: Axis::linear("y", words::plain),
            shape: Shape::Lines(vec![Line { name: "a".into(), points: vec![(1.0, 2.0)] }]),
        }
    }

    fn document() -> Document {
        let mut one = Table::of_values();
        one.value("host", "a < b");
        let mut two = Table::with_heads(&["case", ">median"]);
        two.row(["put", "1 us"]);
        let drawn = plot("drawn");
        let output =
            Output { title: "A `run`".into(), command: "run <x>".into(), text: "<script>\u{1b}[1mbold\n\n".into() };
        let sections = vec![
            Section::new("").table(one).text("Runs `a <b>` now; it's \"so\"."),
            Section::new("Plots & more").plot(drawn.clone()).plot(plot("alone")),
            Section::new("Numbers").table(two.drawn_by([&drawn])).list(vec!["`x`".into(), "odd ` tick".into()]),
            Section::new("Outputs").folded().output(output),
        ];
        Document { title: "T".into(), about: "By `t`.".into(), sections }
    }

    #[test]
    fn a_plot_and_its_table_link_to_each_other() {
        let page = page(&document(), None);
        let parsed = roxmltree::Document::parse_with_options(
            &page,
            roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
        );
        let parsed = parsed.unwrap_or_else(|error| panic!("{error}: {page}"));
        let place = |id: &str| parsed.descendants().find(|node| node.attribute("id") == Some(id));
        let links = |node: roxmltree::Node<'_, '_>| -> Vec<String> {
            node.descendants().filter_map(|node| node.attribute("href")).map(str::to_owned).collect()
        };
        let figure = place("plot-drawn").expect("the plot's place");
        assert_eq!(links(figure), ["#t1"]);
        assert!(links(place("plot-alone").expect("the other plot")).is_empty());
        let table = place("t1").expect("the table's place");
        assert!(table.has_tag_name("table") && table.descendants().any(|node| node.text() == Some("put")));
        let back = table.ancestors().find(|node| node.has_tag_name("section")).expect("a section");
        assert_eq!(links(back), ["#plot-drawn"]);
        assert!(
            page.contains("the table of Numbers") && page.contains("Drawn in: <a href=\"#plot-drawn\">&lt;drawn&gt;")
        );
        // Every link of the page leads somewhere, and no place is there twice.
        for link in links(parsed.root_element()) {
            let id = link.strip_prefix('#').expect("a place of the page");
            assert_eq!(parsed.descendants().filter(|node| node.attribute("id") == Some(id)).count(), 1, "{link}");
        }
    }

    #[test]
    fn a_drawing_stands_before_its_section() {
        let [body, style, script] = ["<b>drawing</b>", "b{color:red}", "1"].map(str::to_owned);
        let page = page(&document(), Some(&Drawn { style, body, script, section: 2 }));
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(at("b{color:red}") < at("<h1>") && at("id=\"s1\"") < at("<b>drawing</b>"));
        assert!(at("<b>drawing</b>") < at("id=\"s2\"") && at("id=\"s3\"") < at("<script>1</script>"));
    }

    #[test]
    fn texts_have_code_and_outputs_are_folded() {
        let page = page(&document(), None);
        assert!(page.contains("<p>Runs <code>a &lt;b&gt;</code> now; it&#39;s &quot;so&quot;.</p>"), "{page}");
        assert!(page.contains("<li><code>x</code></li>") && page.contains("<li>odd ` tick</li>"));
        assert!(page.contains("<pre tabindex=\"0\">$ run &lt;x&gt;\n&lt;script&gt;?[1mbold</pre></details>"), "{page}");
        assert_eq!(page.matches("<h2>").count(), 2, "a section without a title has no head");
        assert!(page.contains("<nav><a href=\"#s1\">Plots &amp; more</a>"), "and no link");
    }
}

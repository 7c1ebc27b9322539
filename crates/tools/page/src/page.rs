// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page: one HTML file with its style and scripts, and the policy that allows just these.
//!
//! The files of `web/` are put together here. The topology view is the same for all: `live.js` gives it a fabric's
//! events, `simulated.js` the heat of a simulation's links. `jobs.js` draws the traffic between the ranks of jobs.
use std::sync::LazyLock;

use axum::http::HeaderValue;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

const FRAME: &str = include_str!("../web/frame.html");
const STYLE: &str = include_str!("../web/style.css");
const LIVE_BODY: &str = include_str!("../web/live.html");
const SIMULATED_BODY: &str = include_str!("../web/simulated.html");
const JOBS_BODY: &str = include_str!("../web/jobs.html");
const SHARED: [&str; 5] = [
    include_str!("../web/words.js"),
    include_str!("../web/grid.js"),
    include_str!("../web/layout.js"),
    include_str!("../web/topology.js"),
    include_str!("../web/charts.js"),
];
const LIVE: [&str; 4] = [
    include_str!("../web/live_tables.js"),
    include_str!("../web/live_nics.js"),
    include_str!("../web/live_log.js"),
    include_str!("../web/live.js"),
];
const SIMULATED: &str = include_str!("../web/simulated.js");
const JOBS: [&str; 2] = [include_str!("../web/matrix.js"), include_str!("../web/jobs.js")];

/// A page, and the policy for its answer.
pub struct Page {
    pub html: String,
    pub policy: HeaderValue,
}

/// The page of a live fabric.
pub static LIVE_PAGE: LazyLock<Page> = LazyLock::new(|| assembled("Selvedge fabric", LIVE_BODY, &script(&LIVE)));

/// The page of a simulation that runs.
pub static WATCH_PAGE: LazyLock<Page> =
    LazyLock::new(|| assembled("Selvedge simulation", SIMULATED_BODY, &script(&[SIMULATED])));

/// The page of this user's jobs.
pub static JOBS_PAGE: LazyLock<Page> = LazyLock::new(|| assembled("Selvedge jobs", JOBS_BODY, &script(&JOBS)));

fn script(own: &[&str]) -> String {
    let all: Vec<&str> = SHARED.iter().chain(own).copied().collect();
    format!("\"use strict\";\n(() => {{\n{}}})();\n", all.join("\n"))
}

fn assembled(title: &str, body: &str, script: &str) -> Page {
    let hash = |text: &str| BASE64_STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; connect-src 'self'; base-uri \
         'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        hash(script),
        hash(STYLE)
    );
    let html = FRAME
        .replace("@TITLE@", title)
        .replace("@STYLE@", STYLE)
        .replace("@BODY@", body)
        .replace("@DATA@", "")
        .replace("@SCRIPT@", script);
    Page { html, policy: HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'")) }
}

/// Parts of a simulation's report: style, the topology's part of the body with its data, and the script.
pub struct Parts {
    pub style: &'static str,
    pub body: String,
    pub script: String,
}

/// The topology of a simulation, for its report. `data` is what `simulated.js` takes: see its head.
pub fn simulation_report(data: &Value) -> Parts {
    // Within a script element `<` could end it.
    let text = data.to_string().replace('<', "\\u003c");
    let body = format!("{SIMULATED_BODY}\n<script type=\"application/json\" id=\"data\">{text}</script>\n");
    Parts { style: STYLE, body, script: script(&[SIMULATED]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_nothing_and_has_no_handlers() {
        for page in [&*LIVE_PAGE, &*WATCH_PAGE, &*JOBS_PAGE] {
            let html = &page.html;
            for wrong in [
                "http://",
                "https://",
                "src=",
                "@import",
                "url(",
                "onclick",
                "onload",
                "innerHTML",
                "@TITLE@",
                "@SCRIPT@",
            ] {
                assert!(!html.contains(wrong), "{wrong}");
            }
            assert!(!html.contains("style=\"") && !html.contains("eval("));
            assert!(html.len() < 200_000, "{}", html.len());
            let policy = page.policy.to_str().unwrap();
            assert!(policy.contains("script-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
        }
    }

    #[test]
    fn data_cannot_end_its_element() {
        let parts = simulation_report(&serde_json::json!({ "name": "</script><script>alert(1)</script>" }));
        assert_eq!(parts.body.matches("</script>").count(), 1);
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Histograms of picoseconds, as words and as JSON.

use hdrhistogram::Histogram;
use selvedge_document::words;
use serde_json::{Value, json};

use crate::time::Time;

/// Returns least, median, 99th percentile and greatest of a histogram of picoseconds.
pub(super) fn latency_words(latency: &Histogram<u64>) -> String {
    let [median, late] = [0.5, 0.99].map(|quantile| latency.value_at_quantile(quantile));
    [latency.min(), median, late, latency.max()].map(|ps| words::time_ns(Time(ps).as_ns_f64())).join(" / ")
}

/// Returns a histogram of picoseconds as JSON.
pub fn latency_json(latency: &Histogram<u64>) -> Value {
    if latency.is_empty() {
        return Value::Null;
    }
    let at = |quantile| latency.value_at_quantile(quantile);
    json!({
        "count": latency.len(),
        "min_ps": latency.min(),
        "mean_ps": latency.mean(),
        "p50_ps": at(0.5),
        "p90_ps": at(0.9),
        "p99_ps": at(0.99),
        "p999_ps": at(0.999),
        "max_ps": latency.max(),
    })
}

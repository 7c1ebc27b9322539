// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Serves the page of a made-up torus, for a look at it and for its test in a browser (`tests/page/page.sh`).
//!
//! usage: made_up FOLDER COLUMNS ROWS PORT
//!        made_up jobs                         the page of jobs, with a job of three ranks
//!
//! The users are `ann` (operator) and `vic` (viewer), their password is `let me look`. It ends with its standard input.
use std::io::Read;

use selvedge_page::{Role, Server, Settings, Shown, Watch, set_user};
use serde_json::{Value, json};

#[path = "../tests/common/fabric.rs"]
mod fabric;

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given == ["jobs"] {
        return jobs();
    }
    let [folder, columns, rows, port] = &given[..] else { panic!("usage: made_up FOLDER COLUMNS ROWS PORT") };
    let folder = std::path::Path::new(folder);
    let torus = fabric::Fabric::torus(columns.parse().unwrap(), rows.parse().unwrap());
    let (socket, _shared) = fabric::serve(&folder.join("socket"), torus);
    let users = folder.join("users");
    for (name, role) in [("ann", Role::Operator), ("vic", Role::Viewer)] {
        set_user(&users, name, role, "let me look").unwrap();
    }
    let address = ([127, 0, 0, 1], port.parse().unwrap()).into();
    let settings = Settings { address, users, certificate: None, is_plain: true, socket, host: "host0".into() };
    let server = Server::bind(settings).unwrap();
    println!("http://{}/", server.address());
    server.start().unwrap();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Rank 0 sends 1 MB/s to rank 1, which sends 1 kB/s back. Rank 2 is silent.
fn jobs() {
    let watch = Watch::start(([127, 0, 0, 1], 0).into(), Shown::Jobs).unwrap();
    println!("{}", watch.url());
    let rank = |number: u32, out: f64, into: f64| {
        json!({
            "rank": number, "os_pid": 100 + number, "state": "ready", "operations": 7, "operations_per_second": out / 100.0,
            "bytes_out": out * 10.0, "bytes_out_per_second": out, "bytes_in": into * 10.0, "bytes_in_per_second": into,
            "requests_per_second": into / 100.0, "unexpected": 0, "dropped": 0, "sleepers": 0,
        })
    };
    let picture = |at_s: u32| -> Value {
        json!({ "at_s": 1_700_000_000 + at_s, "interval_s": 1.0, "jobs": [{
            "name": "made-up", "program": "./made_up", "size": 3, "block": 1, "unnamed_operations": 0, "refused": [],
            "cells": [[0, 1, 7, 10_000_000, 10_000.0, 1e6], [1, 0, 7, 10_000, 10.0, 1e3]],
            "ranks": [rank(0, 1e6, 1e3), rank(1, 1e3, 1e6), rank(2, 0.0, 0.0)],
        }] })
    };
    let last = picture(2);
    let now = [picture(0), picture(1)];
    watch.send("jobs", &last, &[("jobs", &now[0]), ("jobs", &now[1]), ("jobs", &last)]);
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    watch.end("end", &last, &[("end", &last)]);
}

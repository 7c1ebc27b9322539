// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Serves the page of a made-up torus, for a look at it and for its test in a browser (`tests/page/page.sh`).
//!
//! usage: made_up FOLDER COLUMNS ROWS PORT
//!
//! The users are `ann` (operator) and `vic` (viewer), their password is `let me look`. It ends with its standard input.
use std::io::Read;

use selvedge_page::{Role, Server, Settings, set_user};

#[path = "../tests/common/fabric.rs"]
mod fabric;

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
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

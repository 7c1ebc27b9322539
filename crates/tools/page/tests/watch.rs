// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a simulation that runs: its secret, and its events.
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use selvedge_page::{PageError, Shown, Watch};
use serde_json::json;

fn get(url: &str, path: &str) -> BufReader<TcpStream> {
    let address = url.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    BufReader::new(stream)
}

fn line(reader: &mut impl BufRead, start: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the stream has ended before {start}");
        if let Some(rest) = line.strip_prefix(start) {
            return rest.trim().to_owned();
        }
    }
}

#[test]
fn those_who_have_the_address_see_the_simulation() {
    assert!(matches!(Watch::start("0.0.0.0:0".parse().unwrap(), Shown::Simulation), Err(PageError::WatchAddress(_))));
    let watch = Watch::start("127.0.0.1:0".parse().unwrap(), Shown::Simulation).unwrap();
    let (url, structure) = (watch.url(), json!({ "vertices": [], "links": [] }));
    watch.send("structure", &structure, &[("structure", &structure)]);
    assert!(line(&mut get(&url, "/"), "HTTP/1.1 ").starts_with("200"));
    for path in ["/api/events", "/api/events?key=x"] {
        assert!(line(&mut get(&url, path), "HTTP/1.1 ").starts_with("401"), "{path}");
    }
    let key = url.split_once('?').unwrap().1;
    let mut events = get(&url, &format!("/api/events?{key}"));
    assert_eq!(
        (line(&mut events, "event: "), line(&mut events, "data: ")),
        ("structure".into(), structure.to_string())
    );
    assert!(watch.is_watched());
    let frames = json!({ "progress": "1 us", "frames": { "ends_ns": [], "heat": "" } });
    watch.send("frames", &frames, &[("structure", &structure), ("frames", &frames)]);
    assert_eq!((line(&mut events, "event: "), line(&mut events, "data: ")), ("frames".into(), frames.to_string()));
    watch.end("end", &frames, &[]);
    assert_eq!(line(&mut events, "event: "), "end");
}

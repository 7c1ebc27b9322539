// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server against a made-up daemon: log-in and its limits, acts and who may not, other sites, events, metrics.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use selvedge_page::{PageError, Role, Server, Settings, set_user};
use serde_json::{Value, json};

#[path = "common/fabric.rs"]
mod fabric;

const PASSWORD: &str = "let me look";

struct Page {
    address: SocketAddr,
    fabric: fabric::Shared,
    folder: tempfile::TempDir,
}

struct Said {
    status: u16,
    head: String,
    body: String,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

fn settings(folder: &std::path::Path, socket: std::path::PathBuf) -> Settings {
    Settings {
        address: ([127, 0, 0, 1], 0).into(),
        users: folder.join("users"),
        certificate: None,
        is_plain: true,
        socket,
        host: "host0".into(),
    }
}

impl Page {
    fn of(columns: usize, rows: usize) -> Page {
        let folder = tempfile::tempdir().unwrap();
        let torus = fabric::Fabric::torus(columns, rows);
        let (socket, fabric) = fabric::serve(&folder.path().join("socket"), torus);
        let settings = settings(folder.path(), socket);
        set_user(&settings.users, "ann", Role::Operator, PASSWORD).unwrap();
        set_user(&settings.users, "vic", Role::Viewer, PASSWORD).unwrap();
        let server = Server::bind(settings).unwrap();
        let address = server.address();
        server.start().unwrap();
        Page { address, fabric, folder }
    }

    fn send(&self, head: &str, body: &str) -> Said {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        write!(stream, "{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let body = match head.contains("transfer-encoding: chunked") {
            true => unchunked(body),
            false => body.to_owned(),
        };
        Said { status, head: head.to_owned(), body }
    }

    fn get(&self, path: &str, more: &str) -> Said {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: {}{more}", self.address), "")
    }

    fn post(&self, path: &str, more: &str, body: &Value) -> Said {
        let head = format!("POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json{more}", self.address);
        self.send(&head, &body.to_string())
    }

    fn login(&self, name: &str, password: &str) -> Said {
        self.post("/api/login", "", &json!({ "name": name, "password": password }))
    }

    /// The headers of a session: its cookie, and its token.
    fn session(&self, name: &str) -> (String, String) {
        let said = self.login(name, PASSWORD);
        assert_eq!(said.status, 200, "{}", said.body);
        let cookie = said.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let token = said.json()["token"].as_str().unwrap().to_owned();
        (format!("\r\ncookie: {cookie}"), format!("\r\nx-selvedge-token: {token}"))
    }

    fn acts(&self) -> Vec<String> {
        self.fabric.0.lock().unwrap().acts.clone()
    }
}

fn unchunked(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        text = &rest[size + 2..];
    }
    whole
}

#[test]
fn nobody_sees_anything_without_a_session() {
    let page = Page::of(3, 3);
    let first = page.get("/", "");
    assert_eq!(first.status, 200);
    assert!(first.header("content-security-policy").unwrap().starts_with("default-src 'none'; script-src 'sha256-"));
    assert!(!first.body.contains("host0"));
    let all = [
        "session",
        "topology",
        "status",
        "ports",
        "log",
        "routes?from=a&to=b",
        "load",
        "nics",
        "nics/links?nic=1",
        "events",
    ];
    for path in all {
        let said = page.get(&format!("/api/{path}"), "\r\ncookie: selvedge=x; __Host-selvedge=y");
        assert_eq!((said.status, said.header("x-content-type-options")), (401, Some("nosniff")), "{path}");
    }
    assert_eq!(page.get("/metrics", "").status, 401);
    assert_eq!(page.get("/other", "").status, 404);
    for path in ["link", "restart"] {
        let act = json!({ "host": "", "port": 0, "act": "down" });
        assert_eq!(page.post(&format!("/api/{path}"), "", &act).status, 401, "{path}");
    }
    assert!(page.fabric.0.lock().unwrap().asked.is_empty());
}

#[test]
fn users_look_at_all_and_log_out() {
    let page = Page::of(3, 3);
    let (cookie, _) = page.session("vic");
    let get = |path: &str| {
        let said = page.get(path, &cookie);
        assert_eq!(said.status, 200, "{path}: {}", said.body);
        said.json()
    };
    assert_eq!(get("/api/session")["role"], "viewer");
    let topology = get("/api/topology");
    assert_eq!((topology["hosts"].as_array().unwrap().len(), topology["links"].as_array().unwrap().len()), (9, 18));
    assert_eq!(get("/api/routes?from=host0&to=host4")["links"].as_array().unwrap().len(), 2);
    let nics = &get("/api/nics")["nics"];
    assert_eq!((nics.as_array().unwrap().len(), &nics[0]["links"]["totals"][0]["frames_out"]), (9 * 8, &json!(7)));
    let of_nic = get(&format!("/api/nics/links?host={}&nic=3", nics[9]["at"].as_str().unwrap()));
    assert_eq!((&of_nic["at"], &of_nic["links"]["links"][0]["why"]), (&nics[9]["at"], &json!("<b>cut</b>")));
    assert_eq!(page.get("/api/nics/links?nic=99", &cookie).status, 404);
    assert_eq!(get("/api/load?top=5").as_array().unwrap().len(), 5);
    assert_eq!(get("/api/load?host=host1").as_array().unwrap().len(), 4);
    assert_eq!(get("/api/ports?host=5e10003")["name"], "host0");
    assert_eq!(get("/api/log").as_array().unwrap().len(), 2);
    let refused = page.get("/api/ports?host=nobody", &cookie);
    assert_eq!((refused.status, refused.json()["error"].as_str()), (400, Some("nobody is not in the fabric")));
    assert_eq!(page.post("/api/logout", &cookie, &json!({})).status, 200);
    assert_eq!(page.get("/api/session", &cookie).status, 401);
}

#[test]
fn cookies_are_closed_to_scripts_and_other_sites() {
    let page = Page::of(3, 1);
    let said = page.login("ann", PASSWORD);
    let cookie = said.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.contains("Path=/"), "{cookie}");
}

#[test]
fn only_operators_act_and_the_log_names_them() {
    let page = Page::of(3, 3);
    let drain = json!({ "host": "", "port": 1, "act": "drain" });
    let (cookie, token) = page.session("vic");
    let said = page.post("/api/link", &format!("{cookie}{token}"), &drain);
    assert_eq!((said.status, said.body.contains("vic is a viewer")), (403, true), "{}", said.body);
    let (cookie, token) = page.session("ann");
    assert_eq!(page.post("/api/link", &cookie, &drain).status, 403, "without the token");
    assert_eq!(page.post("/api/link", &format!("{cookie}\r\nx-selvedge-token: x"), &drain).status, 403);
    assert!(page.acts().is_empty());
    let own = format!("{cookie}{token}");
    let said = page.post("/api/link", &own, &drain);
    assert_eq!((said.status, said.json()["done"].as_str()), (200, Some("port 1: drain by an operator")));
    assert_eq!(page.post("/api/restart", &own, &json!({ "host": "5e10004" })).status, 200);
    let acts = page.acts();
    assert!(acts.len() == 2 && acts.iter().all(|act| act.starts_with("ann asks")), "{acts:?}");
    for wrong in [json!({}), json!({ "port": 99999, "act": "up" }), json!({ "port": 1, "act": "burn" }), json!([])] {
        assert!((400..500).contains(&page.post("/api/link", &own, &wrong).status), "{wrong}");
    }
    assert_eq!(page.acts().len(), 2);
}

#[test]
fn acts_of_other_sites_pages_are_refused() {
    let page = Page::of(3, 1);
    let (cookie, token) = page.session("ann");
    let act = json!({ "host": "", "port": 0, "act": "down" });
    for more in ["\r\norigin: https://evil.example", "\r\norigin: null", "\r\nsec-fetch-site: cross-site"] {
        assert_eq!(page.post("/api/link", &format!("{cookie}{token}{more}"), &act).status, 403, "{more}");
        let login = json!({ "name": "ann", "password": PASSWORD });
        assert_eq!(page.post("/api/login", more, &login).status, 403, "{more}");
    }
    let form = format!("POST /api/link HTTP/1.1\r\nhost: {}{cookie}{token}", page.address);
    let kind = "\r\ncontent-type: application/x-www-form-urlencoded";
    assert_eq!(page.send(&format!("{form}{kind}"), "port=0&act=down").status, 403);
    assert!(page.acts().is_empty());
    let own = format!("{cookie}{token}\r\norigin: http://{}", page.address);
    assert_eq!(page.post("/api/link", &own, &act).status, 200);
}

#[test]
fn wrong_passwords_are_bounded() {
    let page = Page::of(3, 1);
    let answers: Vec<u16> = (0..8).map(|_| page.login("ann", "a wrong one").status).collect();
    assert_eq!(answers, [401, 401, 401, 401, 401, 429, 429, 429]);
    assert_eq!(page.login("ann", PASSWORD).status, 429, "the right one has to wait, too");
    let other = Page::of(3, 1);
    assert_eq!(other.login("nobody", PASSWORD).status, 401);
    assert_eq!(other.login("ann", &"x".repeat(1000)).status, 401);
    assert_eq!(other.login("ann", &"x".repeat(5000)).status, 413);
    assert_eq!(other.login("ann", PASSWORD).status, 200);
}

#[test]
fn a_program_with_an_old_password_locks_nobody_out() {
    let page = Page::of(2, 2);
    let ask = |password: &str| {
        let encoded = BASE64_STANDARD.encode(format!("ann:{password}"));
        page.get("/metrics", &format!("\r\nauthorization: Basic {encoded}")).status
    };
    // The same is refused again without a hash, which would take attempts.
    for _ in 0..20 {
        assert_eq!(ask("an old password"), 401);
    }
    // Programs that guess have no attempts left, but browsers have.
    let refused = (0..10).filter(|guess| ask(&format!("guess {guess}")) == 429).count();
    assert!(refused > 0, "programs are bounded");
    assert_eq!(page.login("ann", PASSWORD).status, 200);
    // A change of the users file makes what was wrong right.
    set_user(&page.folder.path().join("users"), "ann", Role::Operator, "an old password").unwrap();
    assert_ne!(ask("an old password"), 401);
}

#[test]
fn a_change_of_the_users_file_is_taken_at_once() {
    let page = Page::of(3, 1);
    let (cookie, _) = page.session("vic");
    assert_eq!(page.get("/api/session", &cookie).status, 200);
    set_user(&page.folder.path().join("users"), "vic", Role::Viewer, "another password").unwrap();
    assert_eq!(page.get("/api/session", &cookie).status, 401);
    assert_eq!(page.login("vic", "another password").status, 200);
}

/// Reads events until one is of this kind and fits.
fn event(reader: &mut impl BufRead, kind: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let mut line = String::new();
    let mut last = String::new();
    loop {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the stream has ended");
        if let Some(name) = line.strip_prefix("event: ") {
            last = name.trim().to_owned();
        }
        if let Some(data) = line.strip_prefix("data: ").filter(|_| last == kind) {
            let value = serde_json::from_str(data).unwrap();
            if fits(&value) {
                return value;
            }
        }
    }
}

#[test]
fn events_tell_of_topology_loads_and_log() {
    let page = Page::of(3, 3);
    let (cookie, token) = page.session("ann");
    let mut stream = TcpStream::connect(page.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET /api/events HTTP/1.1\r\nhost: a{cookie}\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let topology = event(&mut reader, "topology", |_| true);
    assert_eq!((topology["links"].as_array().unwrap().len(), topology["gone"].as_array().unwrap().len()), (18, 0));
    let load = event(&mut reader, "load", |_| true);
    assert_eq!(load["links"][0][0][1], 97.0);
    event(&mut reader, "log", |lines| lines.as_array().unwrap().iter().any(|line| line["host"] == "host0"));
    event(&mut reader, "log", |lines| lines.as_array().unwrap().iter().any(|line| line["host"] == "host7"));
    let down = json!({ "host": "", "port": 0, "act": "down" });
    assert_eq!(page.post("/api/link", &format!("{cookie}{token}"), &down).status, 200);
    let topology = event(&mut reader, "topology", |topology| !topology["gone"].as_array().unwrap().is_empty());
    assert_eq!((topology["links"].as_array().unwrap().len(), topology["gone"].as_array().unwrap().len()), (17, 1));
    // A session that ends takes its stream along.
    assert_eq!(page.post("/api/logout", &cookie, &json!({})).status, 200);
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    // Then nobody follows, and the daemon is asked nothing.
    let asked = || page.fabric.0.lock().unwrap().asked["topology"];
    let began = Instant::now();
    loop {
        let before = asked();
        std::thread::sleep(Duration::from_millis(2500));
        if asked() == before {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the daemon is asked for nobody");
    }
}

#[test]
fn metrics_are_prometheus_text() {
    let page = Page::of(3, 3);
    // ann:let me look
    let said = page.get("/metrics", "\r\nauthorization: Basic YW5uOmxldCBtZSBsb29r");
    assert_eq!((said.status, said.header("content-type")), (200, Some("text/plain; version=0.0.4; charset=utf-8")));
    assert_eq!(page.get("/metrics", "\r\nauthorization: Basic YW5uOndyb25n").status, 401);
    assert_eq!(page.get("/metrics", "\r\nauthorization: Basic YW5uOmxldCBtZSBsb29r").status, 200);
    let values = said.body.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in values {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("selvedge_") && value.parse::<f64>().is_ok(), "{line}");
        count += 1;
    }
    assert!(count > 9 * 2 + 36 * 5, "{count}");
    let of_process = r#"{job="job-17",rank="2",process="4002",user="1000",way="network""#;
    for (name, more, value) in [
        ("sent_bytes_total", "", "5000"),
        ("round_trip_seconds", "", "0.000012"),
        ("link_states", ",state=\"open\"", "1"),
    ] {
        let line = format!("selvedge_process_{name}{of_process}{more}}} {value}\n");
        assert!(said.body.contains(&line), "{line}{}", said.body);
    }
    assert!(said.body.contains("selvedge_process_links_unseen 1\n"));
    assert!(said.body.contains("selvedge_link_load_ratio{host=\"host0\",id=\"5e10000\",port=\"0\","), "{}", said.body);
    let checked =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut promtool) = checked else {
        println!("left out: promtool is not installed");
        return;
    };
    promtool.stdin.take().unwrap().write_all(said.body.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn hostile_requests_are_refused_and_others_served() {
    let page = Page::of(3, 1);
    // Slow ones hold places, of which an address has a number.
    let held: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(page.address).unwrap()).collect();
    let closed = held.iter().filter(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut reader: &TcpStream = stream;
        matches!(reader.read(&mut [0]), Ok(0)) || stream.peer_addr().is_err()
    });
    assert!(closed.count() > 0);
    drop(held);
    let began = Instant::now();
    while TcpStream::connect(page.address).is_err() || try_get(&page).is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "no place comes back");
    }
    for wrong in
        ["GET / HTTP/9\r\n\r\n", "\0\0\0\r\n\r\n", "GET /api/topology HTTP/1.1\r\nhost: a\r\ncookie: \u{1}\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(page.address).unwrap();
        stream.write_all(wrong.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(!said.starts_with(b"HTTP/1.1 200"), "{wrong:?}");
    }
    let long = format!("\r\ncookie: {}", "x".repeat(40_000));
    let said = page.send(&format!("GET /api/topology HTTP/1.1\r\nhost: a{long}"), "");
    assert!(said.status == 431 || said.status == 0, "{}", said.status);
    assert_eq!(page.get("/", "").status, 200);
}

fn try_get(page: &Page) -> Option<()> {
    let mut stream = TcpStream::connect(page.address).ok()?;
    write!(stream, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    said.starts_with("HTTP/1.1 200").then_some(())
}

#[test]
fn wrong_settings_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let base = settings(folder.path(), folder.path().join("socket"));
    let error = |settings| Server::bind(settings).err().expect("refused").to_string();
    assert!(error(base.clone()).contains("selvedge daemon passwd"));
    set_user(&base.users, "ann", Role::Operator, PASSWORD).unwrap();
    let outside = Settings { address: "0.0.0.0:0".parse().unwrap(), ..base.clone() };
    assert!(matches!(Server::bind(outside), Err(PageError::PlainAddress(_))));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    assert!(error(Settings { address, ..base.clone() }).contains("another address"));
    // HTTPS by default; a browser that speaks without it is told.
    let server = Server::bind(Settings { is_plain: false, ..base }).unwrap();
    let address = server.address();
    server.start().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    assert!(said.contains("needs HTTPS"), "{said}");
}

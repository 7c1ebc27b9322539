// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client of the daemon: `selvedge fabric`.
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::protocol::{Answer, Request};

/// Time after which a daemon counts as stuck.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reasons for which there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{}: {error}; start `selvedge daemon`, or name its --socket", .path.display())]
    Connect { path: PathBuf, error: io::Error },
    #[error("the daemon gave no answer: {0}")]
    Answer(io::Error),
    #[error("the daemon's answer is not of this release: {0}")]
    Malformed(serde_json::Error),
    #[error("{0}")]
    Refused(String),
}

/// Asks the daemon behind a socket.
pub fn ask(socket: &Path, request: &Request) -> Result<Answer, ClientError> {
    ask_for(socket, request, Duration::ZERO)
}

/// Asks for something that takes this time.
pub fn ask_for(socket: &Path, request: &Request, time: Duration) -> Result<Answer, ClientError> {
    let stream = connect(socket, request)?;
    stream.set_read_timeout(Some(PATIENCE + time)).map_err(ClientError::Answer)?;
    next(&mut BufReader::new(stream))
}

/// Asks for a log that is followed, and gives each answer until the daemon ends or `each` returns false.
pub fn follow(socket: &Path, request: &Request, mut each: impl FnMut(Answer) -> bool) -> Result<(), ClientError> {
    let mut reader = BufReader::new(connect(socket, request)?);
    while each(next(&mut reader)?) {}
    Ok(())
}

fn connect(path: &Path, request: &Request) -> Result<UnixStream, ClientError> {
    let connect = |error| ClientError::Connect { path: path.to_owned(), error };
    let mut stream = UnixStream::connect(path).map_err(connect)?;
    let mut line = serde_json::to_vec(request).map_err(ClientError::Malformed)?;
    line.push(b'\n');
    stream.write_all(&line).map_err(connect)?;
    Ok(stream)
}

fn next(reader: &mut impl BufRead) -> Result<Answer, ClientError> {
    let mut line = String::new();
    let read = reader.read_line(&mut line).map_err(ClientError::Answer)?;
    if read == 0 {
        return Err(ClientError::Answer(io::ErrorKind::UnexpectedEof.into()));
    }
    match serde_json::from_str(&line).map_err(ClientError::Malformed)? {
        Answer::Refused(reason) => Err(ClientError::Refused(reason)),
        answer => Ok(answer),
    }
}

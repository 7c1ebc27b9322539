// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page's side of the daemon's UNIX socket.
//!
//! Invariant: at most [`AT_ONCE`] requests are under way, an answer has at most [`ANSWER_BYTES_MAX`], and none takes
//! longer than [`PATIENCE`]; so browsers cannot take the daemon's places for clients.
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use selvedge_daemon::protocol::{Answer, Request};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

const AT_ONCE: usize = 8;
const ANSWER_BYTES_MAX: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Reasons for which there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("the daemon cannot be asked: {0}")]
    Connect(io::Error),
    #[error("the daemon has not answered within {} s", PATIENCE.as_secs())]
    Late,
    #[error("the daemon's answer is not of this release: {0}")]
    Malformed(serde_json::Error),
    #[error("{0}")]
    Refused(String),
    #[error("the daemon gave another answer than the one to this request")]
    Other,
}

/// Asks the daemon behind a socket.
#[derive(Debug)]
pub struct Ask {
    socket: PathBuf,
    permits: Semaphore,
}

/// A log that is followed.
pub struct Followed(BufReader<UnixStream>);

impl Ask {
    pub fn new(socket: PathBuf) -> Ask {
        Ask { socket, permits: Semaphore::new(AT_ONCE) }
    }

    /// The answer, which is not a refusal.
    pub async fn ask(&self, request: &Request) -> Result<Answer, AskError> {
        let asked = async {
            let _permit = self.permits.acquire().await.map_err(|_| AskError::Late)?;
            next(&mut self.connect(request).await?).await
        };
        timeout(PATIENCE, asked).await.map_err(|_| AskError::Late)?
    }

    /// Follows the daemon's log; the first lines are those that it has.
    pub async fn follow(&self) -> Result<Followed, AskError> {
        Ok(Followed(self.connect(&Request::Log { follow: true }).await?))
    }

    async fn connect(&self, request: &Request) -> Result<BufReader<UnixStream>, AskError> {
        let mut stream = UnixStream::connect(&self.socket).await.map_err(AskError::Connect)?;
        let mut line = serde_json::to_vec(request).map_err(AskError::Malformed)?;
        line.push(b'\n');
        stream.write_all(&line).await.map_err(AskError::Connect)?;
        Ok(BufReader::new(stream))
    }
}

impl Followed {
    pub async fn next(&mut self) -> Result<Answer, AskError> {
        next(&mut self.0).await
    }
}

async fn next(reader: &mut BufReader<UnixStream>) -> Result<Answer, AskError> {
    let mut line = Vec::new();
    reader.take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line).await.map_err(AskError::Connect)?;
    if line.pop() != Some(b'\n') {
        return Err(AskError::Connect(io::ErrorKind::UnexpectedEof.into()));
    }
    match serde_json::from_slice(&line).map_err(AskError::Malformed)? {
        Answer::Refused(reason) => Err(AskError::Refused(reason)),
        answer => Ok(answer),
    }
}

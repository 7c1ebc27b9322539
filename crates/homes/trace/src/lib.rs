// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces: files with the transitions of one NIC ([`selvedge_nic::tap`]), in the order in which they took effect.
//!
//! ```text
//! file     "SVTRACE", version (1 byte), then records
//! record   length of the body (2 bytes), body
//! body     kind (1 byte), fields in the order of the type; numbers little-endian, options and lists with a byte before them
//! ```
//!
//! Invariants
//! 1. The first record of a NIC is [`Record::Open`]. A file has several if a process closes its NIC and opens it again:
//!    each begins a NIC with empty tables.
//! 2. A record is appended by one `write`, under the NIC's lock. So each process of the NIC may write.
//! 3. A reader takes any bytes. An invalid record is an error with its offset, and ends the reading.
//!
//! Costs: a record has 10 to 190 bytes, and is read in O(its length).

mod wire;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use selvedge_nic::Limits;
use selvedge_nic::tap::Transition;

use wire::{Bytes, Malformed, Wire};

/// First bytes of a file.
pub const MAGIC: [u8; 7] = *b"SVTRACE";
/// Version of the format, after [`MAGIC`].
pub const VERSION: u8 = 1;
/// Longest name of a program that is kept.
const PROGRAM_BYTES_MAX: usize = 255;

/// The NIC whose transitions follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The program's name, without its folder.
    pub program: String,
    pub rank: u32,
    /// Number of the NIC among those of its process.
    pub ni: u32,
    /// nid << 32 | pid.
    pub id: u64,
    pub limits: Limits,
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "records are read one by one")]
pub enum Record {
    Open(Open),
    Transition(Transition),
}

/// Reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("not a trace: it begins with {0:02x?}")]
    Magic([u8; 7]),
    #[error("trace of version {0}; this program reads version {VERSION}")]
    Version(u8),
    #[error("offset {at}: {why}")]
    Record { at: u64, why: &'static str },
}

/// Returns the first bytes of a file: magic and version.
pub fn preamble() -> [u8; 8] {
    let mut bytes = [VERSION; 8];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes
}

/// Encodes a record, with its length.
pub fn encode(record: &Record) -> Vec<u8> {
    match record {
        Record::Open(open) => encoded(|bytes| {
            bytes.push(0);
            let mut program = open.program.as_str();
            while program.len() > PROGRAM_BYTES_MAX {
                let end = (0..program.len()).rev().find(|&at| at > 0 && program.is_char_boundary(at)).unwrap_or(0);
                program = &program[..end];
            }
            bytes.push(program.len() as u8);
            bytes.extend_from_slice(program.as_bytes());
            open.rank.put(bytes);
            open.ni.put(bytes);
            open.id.put(bytes);
            open.limits.put(bytes);
        }),
        Record::Transition(transition) => encode_transition(transition),
    }
}

/// Encodes a transition, like [`encode`].
pub fn encode_transition(transition: &Transition) -> Vec<u8> {
    encoded(|bytes| transition.put(bytes))
}

fn encoded(body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![0; 2];
    body(&mut bytes);
    let length = (bytes.len() - 2) as u16;
    bytes[..2].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn decode(body: &[u8]) -> Result<Record, Malformed> {
    let mut bytes = Bytes::new(body);
    let record = match body.first() {
        Some(0) => {
            u8::take(&mut bytes)?;
            let length = u8::take(&mut bytes)?;
            let program = std::str::from_utf8(bytes.next(length.into())?)
                .map_err(|_| Malformed("the program's name is not UTF-8"))?;
            let program = program.to_owned();
            let (rank, ni, id) = (u32::take(&mut bytes)?, u32::take(&mut bytes)?, u64::take(&mut bytes)?);
            Record::Open(Open { program, rank, ni, id, limits: Limits::take(&mut bytes)? })
        }
        _ => Record::Transition(Transition::take(&mut bytes)?),
    };
    if bytes.is_empty() { Ok(record) } else { Err(Malformed("a record is longer than its kind")) }
}

/// Reads a trace, record by record.
pub struct Reader<R> {
    from: R,
    at: u64,
    ended: bool,
}

impl Reader<io::BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a trace of this version.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Reader::new(io::BufReader::new(File::open(path)?))
    }
}

impl<R: Read> Reader<R> {
    /// Reads the first bytes.
    ///
    /// # Errors
    /// They are not those of a trace of this version.
    pub fn new(mut from: R) -> Result<Self, TraceError> {
        let mut first = [0; 8];
        let read = fill(&mut from, &mut first)?;
        let (magic, version) = (first[..7].try_into().expect("7 bytes"), first[7]);
        if read < first.len() || magic != MAGIC {
            return Err(TraceError::Magic(magic));
        }
        if version != VERSION {
            return Err(TraceError::Version(version));
        }
        Ok(Reader { from, at: first.len() as u64, ended: false })
    }

    /// Returns the offset of the next record.
    pub fn offset(&self) -> u64 {
        self.at
    }

    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        let wrong = |why| TraceError::Record { at: self.at, why };
        let mut length = [0; 2];
        match fill(&mut self.from, &mut length)? {
            0 => return Ok(None),
            2 => {}
            _ => return Err(wrong("the file ends within a record")),
        }
        let length = u16::from_le_bytes(length);
        let mut body = vec![0; length.into()];
        if fill(&mut self.from, &mut body)? < body.len() {
            return Err(wrong("the file ends within a record"));
        }
        let record = decode(&body).map_err(|Malformed(why)| wrong(why))?;
        if self.at == 8 && !matches!(record, Record::Open(_)) {
            return Err(wrong("a transition before a NIC was opened"));
        }
        self.at += 2 + u64::from(length);
        Ok(Some(record))
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, TraceError>;

    /// Reads the next record. Nothing follows an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let record = self.read().transpose();
        self.ended = !matches!(record, Some(Ok(_)));
        record
    }
}

/// Reads until `bytes` is full or the input ends; returns the number of bytes read.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match from.read(&mut bytes[done..]) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes a whole trace.
///
/// # Errors
/// Those of the output.
pub fn write_all<'r>(mut to: impl Write, records: impl IntoIterator<Item = &'r Record>) -> io::Result<()> {
    to.write_all(&preamble())?;
    records.into_iter().try_for_each(|record| to.write_all(&encode(record)))
}

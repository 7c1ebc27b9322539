// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC's rings, whose file a hostile process writes to: between messages, and before it is opened.

use std::fs::File;
use std::os::unix::fs::FileExt;

use selvedge_host::rings::{Envelope, Fault, MESSAGE_BYTES_MAX, PolledHeader, RingMessage, Rings, Sender};
use selvedge_os::process::Identity;
use tempfile::TempDir;

use crate::campaign::{Fuzz, Source};

pub struct Target {
    directory: TempDir,
    payload: Vec<u8>,
}

impl Target {
    pub fn new() -> Target {
        Target { directory: TempDir::new().expect("a directory"), payload: vec![0xee; MESSAGE_BYTES_MAX + 1] }
    }

    fn enqueue(&self, sender: &mut Sender, source: &mut Source) {
        let envelope = Envelope {
            portal: source.below(3) as u8,
            flags: source.word() as u8,
            match_bits: source.word(),
            header_data: source.word(),
        };
        let longest = source.pick(&[8, 104, 105, 3000, MESSAGE_BYTES_MAX as u64 + 1]);
        let length = source.below(longest + 1) as usize;
        let copy = |to: *mut u8| {
            // SAFETY: `payload` has `length` bytes, and the ring provides room for them.
            unsafe { std::ptr::copy_nonoverlapping(self.payload.as_ptr(), to, length) }
        };
        sender.enqueue_with(&envelope, length, source.below(2) as u32, copy);
    }

    /// Spoils some words of the file; a short ring has its slots and cursors near the start.
    fn spoil(file: &File, source: &mut Source) {
        let bytes = file.metadata().expect("the file's length").len();
        for _ in 0..source.below(12) {
            let at = match source.below(4) {
                0 => source.below(bytes / 8),
                // Slots come first, then the cursors.
                1 => 512 + 256 * 16 + source.below(2),
                _ => 512 + source.below(12 * 16),
            };
            let word = match source.below(3) {
                // A header, as a sender would write it.
                0 => source.below(20) | source.below(3) << 32 | source.below(40_000) << 48,
                _ => source.nasty(),
            };
            file.write_at(&word.to_le_bytes(), at * 8).expect("a write");
        }
    }
}

fn read<const LONG: bool>(message: &RingMessage) -> bool {
    assert!(message.length <= MESSAGE_BYTES_MAX);
    let mut bytes = vec![0u8; MESSAGE_BYTES_MAX];
    // SAFETY: `bytes` has room for the longest message, and `LONG` says whether this one is long.
    unsafe { message.copy_part::<LONG>(bytes.as_mut_ptr(), message.length) };
    true
}

fn read_either(message: &RingMessage) {
    // The longest message that fits into its slot alone has 104 bytes.
    if message.length > 104 {
        read::<true>(message)
    } else {
        read::<false>(message)
    };
}

fn take(own: &Rings, polled: Option<PolledHeader>, source: &mut Source) -> Result<(), Fault> {
    if let Some(polled) = polled {
        own.prefetch(0, polled);
        let Some(reader) = own.reader_from(0, polled) else { return Ok(()) };
        if let Some(message) = reader.poll()? {
            read_either(&message);
        }
    }
    let mut reader = own.reader(0);
    for _ in 0..source.below(4) {
        if let Some(message) = reader.poll()? {
            read_either(&message);
            reader.dequeue(&message);
        }
    }
    let (portal, most) = (source.below(3) as u8, source.below(300));
    reader.dequeue_run::<false>(portal, most, read::<false>);
    reader.dequeue_run::<true>(portal, most, read::<true>);
    assert!(reader.dequeued() <= 4 + 2 * 300);
    Ok(())
}

impl Fuzz for Target {
    fn execute(&mut self, source: &mut Source) {
        let directory = self.directory.path();
        let owner = Identity::own().to_word();
        let own = Rings::create(directory, 1, 0).expect("rings");
        let file = File::options().write(true).open(Rings::path(directory, 1, 0)).expect("their file");
        if source.one_in(4) {
            // Only the header is there.
            Target::spoil(&file, source);
        }
        let Some(mut sender) =
            Rings::open(directory, 1, 0, owner).ok().flatten().and_then(|rings| rings.claim(owner, 2))
        else {
            return;
        };
        for _ in 0..1 + source.below(10) {
            for _ in 0..source.below(30) {
                self.enqueue(&mut sender, source);
            }
            if source.one_in(2) {
                Target::spoil(&file, source);
            }
            let polled = own.poll(0);
            if take(&own, polled, source).is_err() {
                own.close(0);
                break;
            }
        }
        let _ = sender.dequeued();
        own.clear_dead();
    }
}

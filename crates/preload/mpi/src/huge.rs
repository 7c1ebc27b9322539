// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Huge pages. The kernel may give them unasked to private memory, but not to shared memory.
//!
//! Then computing with a large array in shared memory is some 10 % slower (first touch: five times), and its messages
//! are short compared with it. So such arrays stay private, and messages from them use cross-memory attach.

/// The longest range that is shared if only private memory has huge pages.
const SMALL_PAGES_BYTES: u64 = 64 << 20;

/// The memory that gets huge pages, according to `/sys/kernel/mm/transparent_hugepage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// None, unless a program requests them.
    OnRequest,
    /// Private memory; and shared memory for which a program requests them.
    Both,
    /// Private memory only.
    Private,
}

impl HugePages {
    pub fn of_kernel() -> HugePages {
        let setting = |name: &str| std::fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{name}"));
        HugePages::of(&setting("enabled").unwrap_or_default(), &setting("shmem_enabled").unwrap_or_default())
    }

    /// Parses both settings. The active value of each is in brackets.
    fn of(private: &str, shared: &str) -> HugePages {
        let is = |text: &str, value: &str| text.split_whitespace().any(|word| word == format!("[{value}]"));
        match () {
            _ if !is(private, "always") => HugePages::OnRequest,
            _ if ["always", "within_size", "advise", "force"].iter().any(|value| is(shared, value)) => HugePages::Both,
            _ => HugePages::Private,
        }
    }

    /// The longest range that is worth sharing.
    pub fn share_bytes_max(self) -> u64 {
        if self == HugePages::Private { SMALL_PAGES_BYTES } else { u64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_settings_are_parsed() {
        let (always, asked) = ("[always] madvise never\n", "always [madvise] never\n");
        let (no, advise) =
            ("always within_size advise [never] deny force\n", "always within_size [advise] never deny force\n");
        assert_eq!(HugePages::of(always, no), HugePages::Private);
        assert_eq!(HugePages::of(always, advise), HugePages::Both);
        assert_eq!(HugePages::of(always, ""), HugePages::Private);
        assert_eq!(
            (HugePages::of(asked, no), HugePages::of(asked, advise), HugePages::of("", "")),
            (HugePages::OnRequest, HugePages::OnRequest, HugePages::OnRequest)
        );
        assert!(HugePages::Private.share_bytes_max() < HugePages::Both.share_bytes_max());
    }
}

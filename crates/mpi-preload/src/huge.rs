// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Huge pages: what the kernel gives private memory of its own accord, and shared memory perhaps not.
//!
//! Where it does, a large array in shared memory is some 10 % slower to compute with (first touch: five times), and most messages are
//! short beside it: such arrays stay private, and what is sent of them goes by cross-memory attach.

/// The longest that is shared where only private memory has huge pages.
const SMALL_PAGES_BYTES: u64 = 64 << 20;

/// What `/sys/kernel/mm/transparent_hugepage` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Huge {
    /// The kernel uses them where a program asks for them, or not at all.
    Asked,
    /// For private memory, and for shared memory that asks for them.
    Both,
    /// For private memory alone.
    Private,
}

impl Huge {
    pub fn here() -> Huge {
        let setting = |name: &str| std::fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{name}"));
        Huge::of(&setting("enabled").unwrap_or_default(), &setting("shmem_enabled").unwrap_or_default())
    }

    /// The setting in force stands in brackets.
    fn of(private: &str, shared: &str) -> Huge {
        let is = |text: &str, value: &str| text.split_whitespace().any(|word| word == format!("[{value}]"));
        match () {
            _ if !is(private, "always") => Huge::Asked,
            _ if ["always", "within_size", "advise", "force"].iter().any(|value| is(shared, value)) => Huge::Both,
            _ => Huge::Private,
        }
    }

    /// The longest that is worth sharing.
    pub fn most(self) -> u64 {
        if self == Huge::Private { SMALL_PAGES_BYTES } else { u64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        let (always, asked) = ("[always] madvise never\n", "always [madvise] never\n");
        let (no, advise) =
            ("always within_size advise [never] deny force\n", "always within_size [advise] never deny force\n");
        assert_eq!(Huge::of(always, no), Huge::Private);
        assert_eq!(Huge::of(always, advise), Huge::Both);
        assert_eq!(Huge::of(always, ""), Huge::Private);
        assert_eq!(
            (Huge::of(asked, no), Huge::of(asked, advise), Huge::of("", "")),
            (Huge::Asked, Huge::Asked, Huge::Asked)
        );
        assert!(Huge::Private.most() < Huge::Both.most());
    }
}

//! The layout of a virtualiser's account of the buffers that it lends (`culm_lending::account`).

/// Words at the beginning of an account.
pub const ACCOUNT_HEADER: u32 = 2;

/// Words of each link in an account.
pub const ACCOUNT_LINK: u32 = 3;

/// Returns the bytes of an account of so many links and buffers.
pub const fn account_size(links: u32, buffers: u32) -> u64 {
    8 * (ACCOUNT_HEADER as u64 + ACCOUNT_LINK as u64 * links as u64 + buffers as u64)
}

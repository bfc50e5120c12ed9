//! What reads every block once: which blocks are still to be registered, and saved progress.

pub(crate) mod codec;
#[allow(dead_code, reason = "its users come with the scrubber and the backup")]
pub(crate) mod feed;

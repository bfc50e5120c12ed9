//! What reads every block once: which blocks are still to be registered, and saved progress.

pub(crate) mod codec;
pub(crate) mod feed;

//! Talks to a freeblock daemon.

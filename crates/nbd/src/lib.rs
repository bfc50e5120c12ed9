//! The server's side of NBD, the network block device, as a state machine without sockets, clocks or threads.
//!
//! Fixed newstyle handshake with a list of exports, INFO and GO, structured replies, `base:allocation`, STARTTLS, and
//! every command except resizing: the protocol of the specification (`doc/proto.md` of the reference implementation),
//! with a bound on all memory that a client can cause. A [`Connection`] takes bytes and gives [`Event`]s; a host, which
//! owns the socket, carries requests out and answers them.
//!
//! All bytes of a client either are understood, or get an error of the protocol, or end the connection with a
//! [`Violation`] that says why. `examples/memory.rs` is a whole server of a hundred lines.

mod connection;
mod error;
mod export;
mod output;
mod reply;
mod request;
mod wire;

pub use connection::{Answered, Connection, Event, Limits, Tls};
pub use error::{Errno, Violation};
pub use export::{Abilities, BlockSizes, Export, ExportError, NAME_BYTES_MAX};
pub use reply::{Extent, MemoryExtent, Reply};
pub use request::{Command, PIECE_BYTES_MAX, Request, ends_with_goodbye};

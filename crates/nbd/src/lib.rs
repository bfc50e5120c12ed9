//! The server's side of NBD, the network block device, as a state machine without sockets, clocks or threads.
//!
//! It has the fixed newstyle handshake with a list of exports, INFO and GO, structured replies, `base:allocation`,
//! STARTTLS, and every command except resizing, as in the specification (`doc/proto.md` of the reference
//! implementation), and a bound on all memory that a client can use. A [`Connection`] takes bytes and gives [`Event`]s;
//! a host, which owns the socket, executes requests and answers them.
//!
//! Any bytes of a client are understood, or get an error of the protocol, or end the connection with a [`Violation`]
//! that says why. `examples/memory.rs` is a whole server of a hundred lines.

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

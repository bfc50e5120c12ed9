//! What goes wrong on a connection, and what a client is told of a request.

use thiserror::Error;

/// What a client is told; the specification's values, which are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// The export is read-only.
    NotPermitted,
    /// The device failed.
    Io,
    /// No memory for it now.
    NoMemory,
    /// The request makes no sense here.
    Invalid,
    /// No room, or beyond the end.
    NoSpace,
    /// More bytes than may be sent as one.
    Overflow,
    /// Not in this way.
    NotSupported,
    /// The server is about to end.
    Shutdown,
}

impl Errno {
    pub(crate) fn value(self) -> u32 {
        match self {
            Self::NotPermitted => 1,
            Self::Io => 5,
            Self::NoMemory => 12,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Overflow => 75,
            Self::NotSupported => 95,
            Self::Shutdown => 108,
        }
    }
}

/// A client that cannot be served any further: it does not speak the protocol, or will not stop talking. The host closes
/// the connection; what had been asked before may still be carried out, and nobody is told.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// Flags that the server has not offered.
    #[error("the client answers the greeting with flags {flags:#x}, of which this server offers only 0x3")]
    ClientFlags {
        /// All of them.
        flags: u32,
    },
    /// Something that does not begin as it must.
    #[error("the client sends {found:#x} where {what} must begin with {expected:#x}")]
    Magic {
        /// An option or a request.
        what: &'static str,
        /// What came.
        found: u64,
        /// What must come.
        expected: u64,
    },
    /// Haggling without an end.
    #[error("the client has sent {most} options and still has not chosen an export")]
    TooManyOptions {
        /// As many are allowed.
        most: u32,
    },
    /// An option that would take long to pass over.
    #[error("the client sends option {option} with {length} bytes; at most {most} are passed over")]
    LongOption {
        /// Its number.
        option: u32,
        /// Its length.
        length: u32,
        /// The most allowed.
        most: u32,
    },
    /// The old way of choosing an export, which cannot be refused otherwise.
    #[error("the client asks for export {name:?} by the option that knows no refusal; {why}")]
    ExportName {
        /// As the client wrote it.
        name: String,
        /// Why it does not get it.
        why: &'static str,
    },
    /// Bytes sent in the clear that would be taken for encrypted ones.
    #[error("the client sends {bytes} bytes after it asked for TLS, before it could begin")]
    BeforeTls {
        /// How many.
        bytes: usize,
    },
}

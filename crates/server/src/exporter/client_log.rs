//! Log lines about clients that connect and leave: an orderly end is an info, any other a warning, and both are
//! limited in number.

use super::Exporter;
use crate::client::{Client, ClientError};
use crate::log_rate_limit::LogRateLimit;
use device::Device;
use tracing::{info, warn};
use units::Instant;

/// The limits on log lines about clients.
#[derive(Debug, Default)]
pub(super) struct ClientLog {
    /// The limit on lines about clients that connect and leave in order.
    usual: LogRateLimit,
    /// The limit on all other lines about clients.
    trouble: LogRateLimit,
}

impl ClientLog {
    /// Logs the number of suppressed lines when a window of the limit has ended, or when this is the last call.
    pub fn tell(&mut self, now: Instant, last: bool) {
        let due = |limit: &mut LogRateLimit| if last { limit.rest() } else { limit.take_suppressed(now) };
        if let Some(lines) = due(&mut self.usual) {
            info!(lines, "further lines about clients were suppressed");
        }
        if let Some(lines) = due(&mut self.trouble) {
            warn!(lines, "further warnings about clients were suppressed");
        }
    }

    /// Returns when a number of suppressed lines is to be logged.
    pub fn next_event(&self) -> Option<Instant> {
        self.usual.next_event().into_iter().chain(self.trouble.next_event()).min()
    }

    pub fn usual(&mut self, now: Instant) -> bool {
        self.tell(now, false);
        self.usual.allow(now)
    }

    pub fn trouble(&mut self, now: Instant) -> bool {
        self.tell(now, false);
        self.trouble.allow(now)
    }
}

/// How a client was lost.
pub(super) enum Lost {
    /// The client closed the connection.
    Closed,
    /// The socket failed.
    Socket(std::io::Error),
}

impl<D: Device> Exporter<D> {
    /// Ends a client that is gone.
    pub(super) fn lost(&mut self, id: u64, how: &Lost) {
        let now = self.clock.now();
        let Some(client) = self.clients.get_mut(&id) else { return };
        let logged = std::mem::replace(&mut client.gone, true) || client.ending;
        if logged {
            return;
        }
        let Client { asked, ref from, .. } = *client;
        let middle = asked > 0 || client.memory() > 0;
        let why = match how {
            Lost::Closed => "the client closed the connection".to_owned(),
            Lost::Socket(error) => error.to_string(),
        };
        // A client that only checks whether a server listens connects and sends nothing.
        let orderly = !client.heard || client.opened && !middle && matches!(how, Lost::Closed);
        if orderly {
            if self.lines.usual(now) {
                info!(client = id, from, why, "disconnected without NBD_CMD_DISC");
            }
        } else if self.lines.trouble(now) {
            match (client.opened, middle) {
                (false, _) => warn!(client = id, from, why, "lost before it had chosen an export"),
                (true, true) => {
                    warn!(client = id, from, why, unanswered = asked, "lost in the middle of a request");
                }
                (true, false) => warn!(client = id, from, why, "lost"),
            }
        }
    }

    /// Ends a client, when the log has the reason already.
    pub(super) fn hang_up(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.gone = true;
        }
    }

    /// Ends a client that has taken too long.
    pub(super) fn late(&mut self, id: u64, why: &str) {
        if self.lines.trouble(self.clock.now()) {
            warn!(client = id, from = self.from(id), why, "hung up on");
        }
        self.hang_up(id);
    }

    /// Ends a client because a read has failed after the answer's first bytes were sent.
    pub(super) fn unfinished(&mut self, id: u64, offset: u64) {
        if self.lines.trouble(self.clock.now()) {
            let why = "a large read failed in the middle, and a client without structured replies cannot get an error then";
            warn!(client = id, from = self.from(id), why, offset, "hung up on");
        }
        self.hang_up(id);
    }

    /// Logs that a client does not take its answers. The bytes held for it stay.
    pub(super) fn slow(&mut self, id: u64, why: &str) {
        if self.lines.trouble(self.clock.now()) {
            warn!(
                client = id,
                from = self.from(id),
                why,
                "slow: no more of the client's requests are read until the client goes on"
            );
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.is_reported_slow = true;
        }
    }

    /// Ends a client that violates the protocol, or whose TLS session fails.
    pub(super) fn broken(&mut self, id: u64, error: &ClientError) {
        // The log already says of a client without a slot that it was refused.
        let has_slot = self.clients.get(&id).is_some_and(|client| client.slot.is_some());
        let logged = has_slot && self.lines.trouble(self.clock.now());
        match error {
            ClientError::Violation(violation) => {
                if logged {
                    let from = self.from(id);
                    warn!(client = id, from, %violation, "hung up on: a client that does not keep to the protocol");
                }
                self.hang_up(id);
            }
            // The client gets the TLS alert before the connection is closed, and could read no answer.
            ClientError::Tls(error) => {
                if logged {
                    let from = self.from(id);
                    warn!(client = id, from, %error, "the client's TLS session failed");
                }
                if let Some(client) = self.clients.get_mut(&id) {
                    (client.ending, client.broken) = (true, true);
                }
            }
        }
    }

    fn from(&self, id: u64) -> &str {
        self.clients.get(&id).map_or("", |client| &client.from)
    }
}

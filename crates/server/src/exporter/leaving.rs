//! Clients that come and go, and what the log says of it: who went in order is mentioned, who did not is warned of, and
//! neither can fill the log.

use super::Exporter;
use crate::client::{Client, ClientError};
use crate::ration::Ration;
use device::Device;
use tracing::{info, warn};
use units::Instant;

/// What clients' doings may take of the log.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Of clients that came and went as they should.
    usual: Ration,
    /// Of those that did not.
    trouble: Ration,
}

impl Lines {
    /// Says how much was left out, when it is time; whatever the time if there will be no other.
    pub fn tell(&mut self, now: Instant, last: bool) {
        let due = |ration: &mut Ration| if last { ration.rest() } else { ration.left_out(now) };
        if let Some(lines) = due(&mut self.usual) {
            info!(lines, "more clients came or went than are named here");
        }
        if let Some(lines) = due(&mut self.trouble) {
            warn!(lines, "there was more trouble with clients than is told here");
        }
    }

    /// When there is something left out to be told.
    pub fn next_event(&self) -> Option<Instant> {
        self.usual.next_event().into_iter().chain(self.trouble.next_event()).min()
    }

    pub fn usual(&mut self, now: Instant) -> bool {
        self.tell(now, false);
        self.usual.may(now)
    }

    pub fn trouble(&mut self, now: Instant) -> bool {
        self.tell(now, false);
        self.trouble.may(now)
    }
}

/// How a client was lost.
pub(super) enum Lost {
    /// It has closed the connection.
    Closed,
    /// The socket says so.
    Socket(std::io::Error),
}

impl<D: Device> Exporter<D> {
    /// A client is not there any more.
    pub(super) fn lost(&mut self, id: u64, how: &Lost) {
        let now = self.clock.now();
        let Some(client) = self.clients.get_mut(&id) else { return };
        let told = std::mem::replace(&mut client.gone, true) || client.ending;
        if told {
            return;
        }
        let Client { asked, ref from, .. } = *client;
        let middle = asked > 0 || client.memory() > 0;
        let why = match how {
            Lost::Closed => "it closed the connection".to_owned(),
            Lost::Socket(error) => error.to_string(),
        };
        // Who looks whether somebody listens connects and says nothing.
        let orderly = !client.heard || client.opened && !middle && matches!(how, Lost::Closed);
        if orderly {
            if self.lines.usual(now) {
                info!(client = id, from, why, "gone without a goodbye");
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

    /// Hangs up on a client; why stands in the log already.
    pub(super) fn hang_up(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.gone = true;
        }
    }

    /// It has taken too long, with what.
    pub(super) fn late(&mut self, id: u64, why: &str) {
        if self.lines.trouble(self.clock.now()) {
            warn!(client = id, from = self.from(id), why, "hung up on");
        }
        self.hang_up(id);
    }

    /// A read of it has failed after its first bytes were sent.
    pub(super) fn unfinished(&mut self, id: u64, offset: u64) {
        if self.lines.trouble(self.clock.now()) {
            let why =
                "a large read failed in the middle, which a client without structured replies cannot be told";
            warn!(client = id, from = self.from(id), why, offset, "hung up on");
        }
        self.hang_up(id);
    }

    /// It does not take its answers: it keeps what is held for it, and is told of.
    pub(super) fn slow(&mut self, id: u64, why: &str) {
        if self.lines.trouble(self.clock.now()) {
            warn!(
                client = id,
                from = self.from(id),
                why,
                "slow: no more of its requests are read until it goes on"
            );
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.slow_told = true;
        }
    }

    /// It does not speak the protocol, or not with the encryption that there must be.
    pub(super) fn broken(&mut self, id: u64, error: &ClientError) {
        let told = self.lines.trouble(self.clock.now());
        match error {
            ClientError::Violation(violation) => {
                if told {
                    let from = self.from(id);
                    warn!(client = id, from, %violation, "hung up on: a client that does not keep to the protocol");
                }
                self.hang_up(id);
            }
            // It is told why before it is hung up on.
            ClientError::Tls(error) => {
                if told {
                    let from = self.from(id);
                    warn!(client = id, from, %error, "a client without the encryption that there must be");
                }
                if let Some(client) = self.clients.get_mut(&id) {
                    client.ending = true;
                }
            }
        }
    }

    fn from(&self, id: u64) -> &str {
        self.clients.get(&id).map_or("", |client| &client.from)
    }
}

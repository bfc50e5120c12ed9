//! A fair queue of clients' requests for the device: deficit round robin, by bytes and requests.
//!
//! While only one client has requests, all of them go to the device at once up to a bound of bytes, because the
//! scheduler chooses better from more. While several clients have requests, the number at the device is limited, so
//! that a request of another client has few before it. Each client gets an equal share of bytes, where a fixed number
//! of bytes is added for each request (Shreedhar and Varghese, SIGCOMM 1995).
//!
//! A small request of a client with none at the device is sent in spite of the limit. It waits only if disconnected
//! clients have left too many requests there: otherwise clients that connect, ask and disconnect would pass the limit
//! together.

use std::collections::{BTreeMap, VecDeque};

/// The cost of a request in addition to its bytes, in bytes: about what a disk transfers in the time of a short seek.
const REQUEST_COST_BYTES: u64 = 256 << 10;

/// The cost that a client may cause in one round, in bytes.
const QUANTUM_BYTES: u64 = 1 << 20;

/// The most requests at the device while several clients have some: enough for a scheduler to choose from.
const AT_DEVICE_REQUESTS_MAX: usize = 64;

/// The most bytes at the device while several clients have requests: a quarter of a second of transfer.
const AT_DEVICE_BYTES_MAX: u64 = 32 << 20;

/// The most bytes at the device while only one client has requests; the last request may exceed it. Another client that
/// begins to send then waits for these bytes.
const ALONE_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    /// The clients that have a request in this queue or at the device.
    queues: BTreeMap<u64, ClientQueue<T>>,
    /// The clients that have a request in this queue, in round-robin order.
    round: VecDeque<u64>,
    requests: usize,
    bytes: u64,
    /// The number of requests at the device whose clients have disconnected.
    of_gone: usize,
}

#[derive(Debug)]
struct ClientQueue<T> {
    /// The waiting requests with their bytes.
    waiting: VecDeque<(u64, T)>,
    /// The cost that the client may still cause in this round.
    deficit: u64,
    at_device: usize,
    is_gone: bool,
}

impl<T> Default for ClientQueue<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), deficit: 0, at_device: 0, is_gone: false }
    }
}

impl<T> ClientQueue<T> {
    fn cost(&self) -> Option<u64> {
        self.waiting.front().map(|(bytes, _)| bytes + REQUEST_COST_BYTES)
    }
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), round: VecDeque::new(), requests: 0, bytes: 0, of_gone: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Adds a request of `bytes` bytes after the client's other requests.
    pub fn push(&mut self, client: u64, bytes: u64, request: T) {
        let queue = self.queues.entry(client).or_default();
        if queue.waiting.is_empty() {
            self.round.push_back(client);
        }
        queue.waiting.push_back((bytes, request));
    }

    /// Takes the next request to send to the device, if the limits allow one.
    pub fn next(&mut self) -> Option<(u64, T)> {
        let alone = self.queues.len() <= 1;
        if alone && self.bytes < ALONE_BYTES_MAX
            || self.requests < AT_DEVICE_REQUESTS_MAX && self.bytes < AT_DEVICE_BYTES_MAX
        {
            return self.next_in_round();
        }
        if self.of_gone >= AT_DEVICE_REQUESTS_MAX {
            return None;
        }
        let at_once = |client: &u64| {
            self.queues.get(client).is_some_and(|queue| {
                queue.at_device == 0 && queue.cost().is_some_and(|cost| cost <= QUANTUM_BYTES)
            })
        };
        let place = self.round.iter().position(at_once)?;
        self.take(place)
    }

    fn next_in_round(&mut self) -> Option<(u64, T)> {
        loop {
            let client = *self.round.front()?;
            let queue = self.queues.get_mut(&client)?;
            let cost = queue.cost()?;
            if cost <= queue.deficit {
                queue.deficit -= cost;
                return self.take(0);
            }
            queue.deficit += QUANTUM_BYTES;
            self.round.rotate_left(1);
        }
    }

    /// Takes the first request of the client at index `place` of the round.
    fn take(&mut self, place: usize) -> Option<(u64, T)> {
        let client = *self.round.get(place)?;
        let queue = self.queues.get_mut(&client)?;
        let (bytes, request) = queue.waiting.pop_front()?;
        queue.at_device += 1;
        if queue.waiting.is_empty() {
            queue.deficit = 0;
            self.round.remove(place);
        }
        self.requests += 1;
        self.bytes += bytes;
        Some((client, request))
    }

    /// Records that the device is done with a request of the client.
    pub fn done(&mut self, client: u64, bytes: u64) {
        let Some(queue) = self.queues.get_mut(&client) else { return };
        queue.at_device = queue.at_device.saturating_sub(1);
        self.of_gone = self.of_gone.saturating_sub(usize::from(queue.is_gone));
        self.requests = self.requests.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        if queue.at_device == 0 && queue.waiting.is_empty() {
            self.queues.remove(&client);
        }
    }

    /// Drops the waiting requests of a disconnected client. Those at the device count until they are done.
    pub fn forget(&mut self, client: u64) {
        self.round.retain(|one| *one != client);
        let Some(queue) = self.queues.get_mut(&client) else { return };
        queue.waiting.clear();
        if queue.at_device == 0 {
            self.queues.remove(&client);
        } else if !std::mem::replace(&mut queue.is_gone, true) {
            self.of_gone += queue.at_device;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_client_alone_has_all_its_requests_at_the_device_up_to_a_bound_of_bytes() {
        let at_device = |bytes: u64| {
            let mut queue = FairQueue::default();
            (0..1000).for_each(|request| queue.push(1, bytes, request));
            std::iter::from_fn(|| queue.next()).map(|(_, request)| request).collect::<Vec<u32>>()
        };
        assert_eq!(at_device(64 << 10), (0..1000).collect::<Vec<_>>());
        assert_eq!(at_device(8 << 20), (0..8).collect::<Vec<_>>());
        assert_eq!(at_device(1 << 30), [0]);
    }

    /// Clients that send one request and disconnect have together no more requests at the device than clients that
    /// stay.
    #[test]
    fn clients_that_come_ask_and_go_do_not_pass_the_limit() {
        let mut queue = FairQueue::default();
        let mut at_device = VecDeque::new();
        for client in 0..1_000 {
            queue.push(client, 512 << 10, client);
            at_device.extend(std::iter::from_fn(|| queue.next()).map(|(client, _)| client));
            queue.forget(client);
        }
        assert_eq!(at_device.len(), AT_DEVICE_REQUESTS_MAX);
        // A client that stays is served as soon as one of the disconnected clients' requests is done.
        queue.push(1_000, 4096, 1_000);
        assert_eq!(queue.next(), None);
        queue.done(at_device.pop_front().unwrap(), 512 << 10);
        assert_eq!(queue.next(), Some((1_000, 1_000)));
    }

    #[test]
    fn a_small_request_passes_whatever_another_client_has_asked_for() {
        let mut queue = FairQueue::default();
        (0..1000).for_each(|request| queue.push(1, 32 << 20, request));
        assert_eq!(std::iter::from_fn(|| queue.next()).count(), 2);
        for round in 0..100 {
            queue.push(2, 4096, 7777);
            assert_eq!(queue.next(), Some((2, 7777)), "round {round}");
            assert_eq!(queue.next(), None, "the other one waits meanwhile");
            queue.done(2, 4096);
        }
    }

    #[test]
    fn a_client_that_is_gone_keeps_no_other_waiting() {
        let mut queue = FairQueue::default();
        (0..100).for_each(|request| queue.push(1, 1 << 20, request));
        queue.push(2, 1 << 20, 0);
        let at_device = std::iter::from_fn(|| queue.next()).filter(|(client, _)| *client == 1).count();
        queue.forget(1);
        (0..at_device).for_each(|_| queue.done(1, 1 << 20));
        queue.done(2, 1 << 20);
        queue.forget(2);
        assert!(queue.queues.is_empty() && queue.round.is_empty() && queue.next().is_none());
        assert_eq!((queue.requests, queue.bytes, queue.of_gone), (0, 0, 0));
    }

    proptest! {
        /// Two clients that always have requests waiting get equal shares, for any mix of requests.
        #[test]
        fn clients_get_the_same_share_of_bytes_and_requests(
            sizes in prop::collection::vec(1..64u64, 2..5), longer in 50..400usize,
        ) {
            let mut queue = FairQueue::default();
            let bytes: Vec<u64> = sizes.iter().map(|size| size * size * (8 << 10)).collect();
            let mut served = vec![0u64; bytes.len()];
            for (client, bytes) in (0u64..).zip(&bytes) {
                (0..1000).for_each(|_| queue.push(client, *bytes, ()));
            }
            let mut at_device = VecDeque::new();
            for _ in 0..longer {
                while let Some((client, ())) = queue.next() {
                    at_device.push_back(client);
                    served[client as usize] += bytes[client as usize] + REQUEST_COST_BYTES;
                }
                let Some(client) = at_device.pop_front() else { break };
                queue.done(client, bytes[client as usize]);
            }
            let (least, most) = (served.iter().min().unwrap(), served.iter().max().unwrap());
            let largest = bytes.iter().max().unwrap() + REQUEST_COST_BYTES;
            prop_assert!(most - least <= 2 * (QUANTUM_BYTES + largest), "{served:?} of {bytes:?}");
        }

        /// Each request comes out once, those of one client in the order of their arrival, and none is left at the end.
        #[test]
        fn nothing_is_lost_and_each_client_keeps_its_order(
            steps in prop::collection::vec((0..4u8, 0..5u64, 0..4_000_000u64), 1..200),
        ) {
            let mut queue = FairQueue::default();
            let (mut pushed, mut out) = (BTreeMap::<u64, VecDeque<u64>>::new(), Vec::new());
            for (step, client, bytes) in steps {
                match step {
                    0 | 1 => {
                        queue.push(client, bytes, bytes);
                        pushed.entry(client).or_default().push_back(bytes);
                    }
                    2 => {
                        if let Some((client, bytes)) = queue.next() {
                            prop_assert_eq!(pushed.get_mut(&client).unwrap().pop_front(), Some(bytes));
                            out.push((client, bytes));
                        }
                    }
                    _ if bytes % 7 == 0 => {
                        queue.forget(client);
                        pushed.remove(&client);
                    }
                    _ => {
                        if let Some((client, bytes)) = out.pop() {
                            queue.done(client, bytes);
                        }
                    }
                }
            }
            loop {
                out.drain(..).for_each(|(client, bytes)| queue.done(client, bytes));
                let Some((client, bytes)) = queue.next() else { break };
                prop_assert_eq!(pushed.get_mut(&client).unwrap().pop_front(), Some(bytes));
                out.push((client, bytes));
            }
            prop_assert!(pushed.values().all(VecDeque::is_empty) && queue.queues.is_empty());
            prop_assert_eq!((queue.requests, queue.bytes, queue.of_gone), (0, 0, 0));
        }
    }
}

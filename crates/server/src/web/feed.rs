//! The latest snapshot of the disks, shared by all browsers.

use super::BROWSERS_MAX;
use axum::body::Bytes;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::{Notify, watch};

/// The latest snapshot. A slow browser misses the snapshots that were replaced before it read
/// them.
#[derive(Debug)]
pub(super) struct Feed {
    latest: watch::Sender<Bytes>,
    browsers: AtomicUsize,
    /// Notified when a browser subscribes and there was none.
    came: Notify,
    made: AtomicU64,
}

impl Default for Feed {
    fn default() -> Self {
        let latest = watch::Sender::new(Bytes::new());
        Self { latest, browsers: 0.into(), came: Notify::new(), made: 0.into() }
    }
}

/// A browser's subscription to the snapshots, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct FeedSubscription(std::sync::Arc<Feed>);

impl FeedSubscription {
    /// Subscribes a browser, unless [`BROWSERS_MAX`] are subscribed.
    pub fn take(feed: &std::sync::Arc<Feed>) -> Option<Self> {
        let more = |browsers| (browsers < BROWSERS_MAX).then_some(browsers + 1);
        let before = feed.browsers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        if before == 0 {
            feed.came.notify_one();
        }
        Some(Self(std::sync::Arc::clone(feed)))
    }

    /// Returns a receiver of the snapshots from the next one on.
    pub fn receiver(&self) -> watch::Receiver<Bytes> {
        self.0.latest.subscribe()
    }
}

impl Drop for FeedSubscription {
    fn drop(&mut self) {
        self.0.browsers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Feed {
    /// Waits until a browser is subscribed.
    pub async fn is_looked_at(&self) {
        while self.browsers.load(Ordering::Relaxed) == 0 {
            self.came.notified().await;
        }
    }

    pub fn put(&self, json: &str) {
        self.made.fetch_add(1, Ordering::Relaxed);
        // A line end within the snapshot would end the event.
        self.latest.send_replace(Bytes::from(format!("data: {}\n\n", json.replace(['\r', '\n'], " "))));
    }

    /// Returns the number of snapshots made.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn subscriptions_are_limited_and_a_dropped_one_is_free_again() {
        let feed = Arc::new(Feed::default());
        let mut places: Vec<_> = (0..BROWSERS_MAX).map(|_| FeedSubscription::take(&feed).unwrap()).collect();
        assert!(FeedSubscription::take(&feed).is_none());
        places.pop();
        assert!(FeedSubscription::take(&feed).is_some());
    }

    #[test]
    fn a_slow_browser_finds_the_latest_snapshot_only() {
        let feed = Arc::new(Feed::default());
        let place = FeedSubscription::take(&feed).unwrap();
        let mut slow = place.receiver();
        for n in 0..1_000 {
            feed.put(&format!("{{\"n\":\n{n}}}"));
        }
        assert_eq!(&slow.borrow_and_update()[..], b"data: {\"n\": 999}\n\n");
        assert!(!slow.has_changed().unwrap());
    }
}

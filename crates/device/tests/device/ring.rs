//! The ring returns all objects of an operation, however the operation ends.

use device::{Aligned, Ring, Work, is_closed, watch_close};
use std::io::Write;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

fn ring() -> Option<Ring> {
    Ring::new().inspect_err(|error| testing::missing(&format!("io_uring ({error})"))).ok()
}

fn pair() -> (Arc<OwnedFd>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Arc::new(ours.into()), theirs)
}

#[test]
fn more_at_once_than_the_kernel_takes_ends_all_the_same() {
    let Some(mut ring) = ring() else { return };
    let file: OwnedFd = std::fs::File::open(std::env::current_exe().unwrap()).unwrap().into();
    let file = Arc::new(file);
    let mut tokens = std::collections::BTreeSet::new();
    for i in 0..3000 {
        assert!(tokens.insert(
            ring.start(Work::ReadAt(Arc::clone(&file), Aligned::zeroed(512, 1), 0..512, i * 512)).unwrap()
        ));
    }
    while !tokens.is_empty() {
        ring.wait(None).unwrap();
        while let Some(ended) = ring.next_ended() {
            assert!(tokens.remove(&ended.token), "twice");
            assert!(ended.result.is_ok());
        }
    }
    assert_eq!(ring.under_way(), 0);
}

#[test]
fn a_cancelled_operation_ends_and_its_token_is_not_reused() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = pair();
    let first = ring.start(Work::Receive(Arc::clone(&ours), vec![0; 8])).unwrap();
    ring.cancel(first).unwrap();
    ring.wait(None).unwrap();
    let ended = ring.next_ended().unwrap();
    assert_eq!(ended.token, first);
    assert!(ended.result.is_err());
    // The slot of the ended operation is used again. Cancelling the old token does not end the new
    // operation.
    let second = ring.start(Work::Receive(Arc::clone(&ours), vec![0; 8])).unwrap();
    assert_ne!(first, second);
    ring.cancel(first).unwrap();
    ring.wait(Some(Instant::now())).unwrap();
    assert!(ring.next_ended().is_none());
    theirs.write_all(b"new").unwrap();
    ring.wait(None).unwrap();
    let ended = ring.next_ended().unwrap();
    assert_eq!((ended.token, ended.result.unwrap()), (second, 3));
}

#[test]
fn a_dropped_ring_ends_its_operations() {
    let (ours, mut theirs) = pair();
    {
        let Some(mut ring) = ring() else { return };
        for _ in 0..10 {
            ring.start(Work::Receive(Arc::clone(&ours), vec![0; 1 << 16])).unwrap();
        }
        ring.wait(Some(Instant::now())).unwrap();
    }
    assert_eq!(Arc::strong_count(&ours), 1, "nothing works on the socket any more");
    theirs.write_all(b"still there").unwrap();
    let mut received = [0; 11];
    std::io::Read::read_exact(&mut UnixStream::from(Arc::try_unwrap(ours).unwrap()), &mut received).unwrap();
    assert_eq!(&received, b"still there");
}

#[test]
fn a_deadline_that_is_past_is_no_wait() {
    let Some(mut ring) = ring() else { return };
    let (ours, _theirs) = pair();
    ring.start(Work::Receive(ours, vec![0; 1])).unwrap();
    for _ in 0..100 {
        ring.wait(Some(Instant::now())).unwrap();
        assert!(ring.next_ended().is_none());
    }
}

/// A client that has ended its sending side may wait for answers; a client that has closed its socket does
/// not.
#[test]
fn the_end_of_a_connection_differs_from_the_end_of_its_sending_side() {
    let Some(mut ring) = ring() else { return };
    let (ours, theirs) = pair();
    theirs.shutdown(Shutdown::Write).unwrap();
    ring.start(Work::HangUp(Arc::clone(&ours))).unwrap();
    ring.wait(None).unwrap();
    assert!(!is_closed(&ring.next_ended().unwrap().result));
    let watch = ring.start(Work::Close(Arc::new(watch_close(&ours).unwrap()))).unwrap();
    ring.wait(Some(Instant::now())).unwrap();
    assert!(ring.next_ended().is_none(), "it still receives");
    drop(theirs);
    ring.wait(None).unwrap();
    assert_eq!(ring.next_ended().unwrap().token, watch);
}

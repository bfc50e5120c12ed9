//! A session's frames, from client and daemon: no bytes panic, and what is taken encodes to what it was.
#![no_main]

use client::wire::{Call, Decoder, Event, Frame};
use libfuzzer_sys::fuzz_target;

fn all<T: Frame + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let mut decoder = Decoder::default();
    // In two pieces: where a frame is cut must not matter.
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    for piece in [head, tail] {
        decoder.push(piece);
        while let Ok(Some(frame)) = decoder.take::<T>() {
            let mut again = Vec::new();
            frame.encode(&mut again);
            let mut back = Decoder::default();
            back.push(&again);
            assert_eq!(back.take::<T>(), Ok(Some(frame)));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    all::<Call>(bytes);
    all::<Event>(bytes);
});

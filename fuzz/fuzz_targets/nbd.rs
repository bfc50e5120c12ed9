//! Whatever an NBD client sends, in parts: a violation, or requests that lie inside the export.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nbd::{Abilities, Connection, Event, Export, Limits, Reply, Tls};
use std::sync::Arc;

fuzz_target!(|parts: Vec<Vec<u8>>| {
    let all = Abilities { write: true, flush: true, trim: true, block_status: true, ..Abilities::default() };
    let exports: Arc<[Export]> = Arc::from([Export::new("", 1 << 16).unwrap().with(all)]);
    let mut connection = Connection::new(exports, Tls::Offered, Limits::default());
    for part in parts {
        if connection.receive(&part).is_err() {
            return;
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Request(request) => {
                    assert!(request.offset + u64::from(request.length) <= 1 << 16);
                    let data = vec![0; request.length as usize];
                    if connection.reply(&request, &Reply::Data(&data)).is_err() {
                        return;
                    }
                }
                Event::StartTls => connection.tls_started(),
                Event::Opened(_) | Event::Ended => {}
            }
        }
        connection.sent(connection.output().len());
    }
});

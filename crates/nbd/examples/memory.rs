//! An NBD server of memory, on a Unix socket: `memory SOCKET MEGABYTES`. Each client has a thread.
//!
//! ```text
//! cargo run --package freeblock-nbd --example memory -- /tmp/nbd 64 &
//! nbdinfo 'nbd+unix:///?socket=/tmp/nbd'
//! ```

#![allow(clippy::disallowed_methods, reason = "an example has sockets and threads; the library has none")]

use nbd::{Abilities, Command, Connection, Event, Export, Extent, Limits, Reply, Request, Tls};
use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(socket), Some(megabytes)) = (args.next(), args.next()) else {
        return Err("usage: memory SOCKET MEGABYTES".into());
    };
    listen(&UnixListener::bind(socket)?, megabytes.parse::<usize>()? << 20)
}

/// Serves this number of bytes to every client.
pub fn listen(listener: &UnixListener, bytes: usize) -> Result<(), Box<dyn Error>> {
    let memory = Arc::new(Mutex::new(vec![0; bytes]));
    let abilities = Abilities {
        write: true,
        flush: true,
        fua: true,
        trim: true,
        write_zeroes: true,
        fast_zero: true,
        cache: true,
        multi_conn: true,
        rotational: false,
        block_status: true,
        memory_status: false,
    };
    let size = bytes as u64;
    let exports: Arc<[Export]> = Arc::from([
        Export::new("", size)?.describe("memory")?.with(abilities),
        Export::new("read-only", size)?.with(Abilities { write: false, ..abilities }),
    ]);
    for client in listener.incoming() {
        let (exports, memory, client) = (Arc::clone(&exports), Arc::clone(&memory), client?);
        std::thread::spawn(move || {
            // An error of one client ends only that client.
            let _ = serve(client, exports, &memory);
        });
    }
    Ok(())
}

fn serve(
    mut client: UnixStream,
    exports: Arc<[Export]>,
    memory: &Mutex<Vec<u8>>,
) -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::new(exports, Tls::Off, Limits::default());
    let mut buffer = vec![0; 1 << 16];
    loop {
        while let Some(event) = connection.poll() {
            match event {
                Event::Request(request) => {
                    let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
                    carry_out(&mut connection, &request, &mut memory)?;
                }
                Event::Ended | Event::Unfinished { .. } => return send(&mut client, &mut connection),
                Event::Opened(_) | Event::StartTls => {}
            }
        }
        send(&mut client, &mut connection)?;
        if connection.has_events() {
            continue;
        }
        match client.read(&mut buffer)? {
            0 => return Ok(()),
            some => connection.receive(&buffer[..some])?,
        }
    }
}

fn send(client: &mut UnixStream, connection: &mut Connection) -> Result<(), Box<dyn Error>> {
    while !connection.output().is_empty() {
        client.write_all(connection.output())?;
        connection.sent(connection.output().len())?;
    }
    Ok(())
}

fn carry_out(
    connection: &mut Connection,
    request: &Request,
    memory: &mut [u8],
) -> Result<(), nbd::Violation> {
    let from = request.offset as usize;
    let bytes = &mut memory[from..from + request.length as usize];
    match request.command {
        Command::Read => connection.reply(request, &Reply::Data(bytes)),
        Command::BlockStatus { one } => {
            let extent = |part: &[u8]| {
                let zero = part.iter().all(|byte| *byte == 0);
                Extent { length: part.len() as u32, hole: zero, zero }
            };
            let mut parts = bytes.chunks(4096).map(extent);
            let first = parts.next();
            // A client that wants one extent asks again for the rest, so the search ends with the
            // first extent: otherwise each request would search the whole rest.
            let rest = parts.take_while(|part| !one || first.is_some_and(|first| part.zero == first.zero));
            let extents: Vec<Extent> = first.into_iter().chain(rest).collect();
            connection.reply(request, &Reply::Status(&extents))
        }
        Command::Write => {
            bytes.copy_from_slice(&request.data);
            connection.reply(request, &Reply::Done)
        }
        Command::Trim | Command::WriteZeroes { .. } => {
            bytes.fill(0);
            connection.reply(request, &Reply::Done)
        }
        Command::Flush | Command::Cache => connection.reply(request, &Reply::Done),
    }
}

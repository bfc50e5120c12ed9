//! Serves a disk or a file over NBD, without a scheduler, until standard input ends: `export FILE SOCKET`.
//!
//! ```text
//! truncate -s 1G disk
//! cargo run --package freeblock-server --example export -- disk /tmp/s &
//! nbdinfo 'nbd+unix:///?socket=/tmp/s'
//! ```

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use device::{Options, Raw};
    use server::{Address, ExportConfig, Exporter, Listener, Moment};
    let mut args = std::env::args_os().skip(1);
    let (Some(file), Some(socket)) = (args.next(), args.next()) else {
        return Err("usage: export FILE SOCKET".into());
    };
    let disk = Raw::open(file, Options { buffered: true, ..Options::default() })?;
    let listener = Listener::bind(Address::Unix(socket.into()), false)?;
    let (exporter, stop) = Exporter::new(disk, ExportConfig::default(), vec![listener])?;
    server::notify(Moment::Ready)?;
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        stop.stop()
    });
    exporter.run()?;
    server::notify(Moment::Stopping)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}

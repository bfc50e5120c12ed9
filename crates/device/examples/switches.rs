//! The look-ahead and the read cache of a disk: shows their states, or keeps them off until standard input
//! ends.
//!
//! `cargo run --example switches -- /dev/sdX` shows the states. `... /dev/sdX DIRECTORY off` switches both
//! off, with a record in the directory, and back on when standard input ends. `... /dev/sdX DIRECTORY back`
//! switches on again what a killed process has left off at this disk. `proofs/switches.sh` runs the example in a
//! guest.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use device::{Sg, SwitchJournal, Switches, put_back, switch_off};
    use std::io::{Read, Write};
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "give DISK, DISK DIRECTORY off, or DISK DIRECTORY back";
    let (path, rest) = arguments.split_first().ok_or(usage)?;
    let mut disk = Sg::open(path.as_ref())?;
    let identity = || -> Result<String, Box<dyn std::error::Error>> {
        Ok(device::inspect(path.as_ref())?.identity.ok_or("the kernel has no identity of the disk")?)
    };
    match rest {
        [] => println!("{:?}", Switches::read(&mut disk)?),
        [directory, word] if word == "off" => {
            let journal = SwitchJournal::new(directory.as_ref());
            let quiet = switch_off(Box::new(disk), Box::new(journal), &identity()?)?;
            println!("off");
            std::io::stdout().flush()?;
            std::io::stdin().read_to_end(&mut Vec::new())?;
            quiet.end().map_err(|error| error.to_string())?;
        }
        [directory, word] if word == "back" => {
            let identity = identity()?;
            let journal = SwitchJournal::new(directory.as_ref());
            for held in journal.left()? {
                let held = held?;
                if held.record.disk != identity {
                    println!("{}: another disk; its record stays", held.record.disk);
                    continue;
                }
                put_back(&mut disk, &held.record)?;
                journal.settle(held)?;
                println!("back");
            }
        }
        _ => return Err(usage.into()),
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}

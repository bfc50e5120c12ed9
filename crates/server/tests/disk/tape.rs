//! What a disk's core was told, told again.

use scheduler::Core;
use server::{Disk, ReplayError, Replayed, Tape, replay};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use crate::{core, spy::Spy};

/// A file in memory that the test can read.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Records a disk that is new.
pub fn record(disk: &mut Disk<Spy>, policy: &str, seed: u64) -> Memory {
    let memory = Memory::default();
    let setup = serde_json::json!({ "policy": policy, "seed": seed });
    disk.record(Tape::new(memory.clone(), setup).unwrap());
    memory
}

pub fn again(tape: &str) -> Result<Replayed, ReplayError> {
    replay(&mut tape.as_bytes(), |setup| {
        let (model, config) = core(setup["policy"].as_str().unwrap(), setup["seed"].as_u64().unwrap());
        Ok(Core::new(model, config))
    })
}

#[test]
fn a_tape_that_was_changed_or_cut_is_found_out() {
    let mut world = crate::World::new("sptf", 5);
    for i in 0..60 {
        world.step(crate::Step::Register(units::Op::Write, crate::range(i * 50, 40), 8));
        world.step(crate::Step::Read(crate::range(i * 997 % 3_400, 8)));
        world.step(crate::Step::Wait(9_000));
    }
    world.finish();
    let tape = world.tape.text();
    let whole = again(&tape).unwrap();
    assert_eq!(whole.requests, 60);
    assert!(whole.blocks == 300 && whole.commands > 60 && !whole.cut_off, "{whole:?}");
    let cut = again(&tape[..tape.len() - 9]).unwrap();
    assert!(cut.cut_off && cut.inputs + 1 == whole.inputs, "{cut:?}");
    let lines: Vec<&str> = tape.lines().collect();
    let place = lines.iter().position(|line| line.contains("\"completed\"")).unwrap();
    // An input that is missing, and a decision that is another.
    let done = lines[..place].iter().rposition(|line| line.contains("\"done\"")).unwrap();
    let missing = [&lines[..done], &lines[done + 1..]].concat().join("\n") + "\n";
    assert!(matches!(again(&missing), Err(ReplayError::Diverged { .. })), "{:?}", again(&missing));
    let other = tape.replacen("{\"completed\":0}", "{\"completed\":1}", 1);
    let error = again(&other).unwrap_err();
    assert!(matches!(error, ReplayError::Diverged { line, .. } if line == place as u64 + 1), "{error}");
    for (text, expected) in [
        ("", "line 1"),
        ("{\"format\":9,\"setup\":null}\n", "format 9"),
        (&format!("{}\n{{\"dance\":1}}\n", lines[0]), "line 2"),
        (&format!("{}\n{{\"done\":{{\"at\":1,\"id\":7,\"bad\":null}}}}\n", lines[0]), "no command 7"),
    ] {
        let error = again(text).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

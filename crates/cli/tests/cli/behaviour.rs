//! Emulated drives that differ from their profiles, selected by name.

use crate::support::{Dir, number, run, run_with};
use ::drive::Behaviour;

/// Returns each switch of a behaviour with the first value that `probe --help` gives it.
fn in_the_help() -> Vec<String> {
    let help = run("probe --help").worked();
    let words = || help.split([',', ';', ' ', '\n']);
    let given = |name: &str| {
        let of_it =
            |word: &&str| word.split_once('=').is_some_and(|(begin, value)| begin == name && value != "off");
        words().find(of_it).or(words().find(|word| *word == format!("{name}=off"))).map(str::to_owned)
    };
    Behaviour::names().map(|name| given(name).unwrap_or_else(|| panic!("no {name} in:\n{help}"))).collect()
}

#[test]
fn every_behaviour_is_in_the_help_with_a_value_that_is_read() {
    let words = in_the_help();
    for word in &words {
        let behaviour = word.parse::<Behaviour>().unwrap_or_else(|error| panic!("{error}"));
        assert_ne!(behaviour, Behaviour::default(), "{word}");
    }
    let all: Behaviour = words.join(",").parse().unwrap();
    assert!(all.grown_defects > 0 && all.bad_sectors.is_some() && all.drift.is_some(), "{all}");
}

#[test]
fn a_simulated_drive_has_the_behaviour_given() {
    let response = |behaviour: &str| {
        let args = "simulate --where outside --conservatism 0.3 --drive mimic-less-capacity --requests 3000 --outstanding 4 \
                    --json --behaviour";
        number(&run(&format!("{args} {behaviour}")).json(), "/foreground/mean_response_ms")
    };
    let exact = response("queue=fcfs:64");
    for word in ["missed_landings_ppm=200000", "seek_ageing_ppm=100000", "bad_sectors=50000:8"] {
        let slow = response(&format!("queue=fcfs:64,{word}"));
        assert!(slow > exact * 1.02, "{word}: {slow} ms, {exact} ms without");
    }
    assert_eq!(response("queue=fcfs:64,none,drift=off"), exact);
}

/// Without a buffer the drive cannot acknowledge a write early, whatever `write_back` says.
#[test]
fn a_drive_without_a_buffer_cannot_write_back() {
    for behaviour in ["noise,buffer=off,write_back=on", "buffer=off,bus_sector=6.4us,queue=sptf:64"] {
        let args = "simulate --where outside --reads 0 --requests 2000 --json --behaviour";
        let json = run(&format!("{args} {behaviour}")).json();
        assert!(number(&json, "/outside/foresight/within_100us") > 0.9, "{behaviour}: {json}");
        assert_eq!(json["outside"]["caution"], serde_json::Value::Null, "{behaviour}: {json}");
    }
}

/// Returns a trace of pairs of requests 1 ms apart; the second of each pair begins at the LBN where the first ends.
fn pairs() -> String {
    let (mut state, mut lbn) = (1_u64, 0);
    let mut text = String::new();
    for i in 0..3_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        lbn = if i % 2 == 0 { (state >> 33) % 17_000_000 } else { lbn + 8 };
        text += &format!("{}.0 0 {lbn} 8 {}\n", i / 2 * 25 + i % 2, u8::from(i % 6 < 4));
    }
    text
}

/// Tests every switch alone, from the command line: it changes the times of a drive that is otherwise exact, equally
/// for equal seeds, and differently for another seed if it is random.
#[test]
fn each_switch_alone_changes_what_a_simulated_drive_does() {
    let exact = "bus_sector=6.4us,buffer=off,queue=sptf:64";
    let buffered = "bus_sector=6.4us,buffer=on,read_ahead=on,write_back=off,queue=sptf:64";
    let serial = "bus_sector=6.4us,buffer=on,read_ahead=on,write_back=on,queue=off";
    let writing_back = "bus_sector=6.4us,buffer=on,read_ahead=on,write_back=on,queue=sptf:64";
    let certain = "write_cache seek_ageing_ppm command_percent completion_overhead bus_sector buffer read_ahead write_back eager_read_ahead queue";
    let dir = Dir::new();
    let replay = format!("replay:{}", dir.file("pairs.trace", &pairs()));
    for word in in_the_help() {
        let (name, _) = word.split_once('=').unwrap();
        let (base, word, closed) = match name {
            "buffer" | "read_ahead" => (buffered, word.clone(), &["--outstanding", "1"][..]),
            "write_back" => (buffered, "write_back=on".to_owned(), &[][..]),
            "prompt_read_ahead" => (serial, word.clone(), &[][..]),
            "write_cache" => (writing_back, word.clone(), &[][..]),
            "eager_read_ahead" => (buffered, word.clone(), &["--outstanding", "2"][..]),
            "bus_sector" => (exact, "bus_sector=99us".to_owned(), &[][..]),
            "queue" => (exact, "queue=off".to_owned(), &[][..]),
            // Enough bad sectors for requests to hit some.
            "grown_defects" | "bad_sectors" => (exact, word.replace("=20", "=20000"), &[][..]),
            _ => (exact, word.clone(), &[][..]),
        };
        let response = |words: &str, seed: &str| {
            let args = ["simulate", "--where", "outside", "--json", "--seed", seed];
            // The trace's commands never arrive while the drive reads a sector ahead; random arrivals do.
            let load: &[&str] = match name {
                "prompt_read_ahead" => &["--rate", "100", "--requests", "3000"],
                _ => &["--workload", &replay],
            };
            let ran = run_with(&[&args[..], load, closed, &["--behaviour", words]].concat());
            number(&ran.json(), "/foreground/mean_response_ms")
        };
        let with = format!("{base},{word}");
        let [one, again, other] = ["1", "1", "2"].map(|seed| response(&with, seed));
        assert_ne!(response(base, "1"), one, "{word} changes nothing");
        assert_eq!(one, again, "{word} is not the same for a seed");
        assert_eq!(one == other, certain.contains(name), "{word}, by another seed");
    }
}

/// Commands beyond the drive's queue wait in the host; a daemon serves such drives in the same way.
#[test]
fn drives_that_take_one_command_at_a_time_are_simulated() {
    let simulate = |behaviour: &str| {
        let args = "simulate --where outside --drive mimic-less-capacity --workload oltp --background scan --requests 2000 --json";
        run(&format!("{args} --behaviour {behaviour}")).json()
    };
    for behaviour in ["none", "queue=off", "noise,queue=off", "queue=sptf:1", "noise,queue=fcfs:1"] {
        let ran = simulate(behaviour);
        assert_eq!(number(&ran, "/foreground/requests"), 2_000.0, "{behaviour}");
        assert!(number(&ran, "/outside/foresight/within_100us") > 0.9, "{behaviour}: {ran}");
        assert!(number(&ran, "/outside/gaps/used") > 200.0, "{behaviour}: {ran}");
    }
    // Without a queue the drive begins a command after the host has received the previous completion, which takes time.
    let response = |behaviour| number(&simulate(behaviour), "/foreground/mean_response_ms");
    assert!(response("none") > response("queue=sptf:64"));
}

#[test]
fn a_switch_without_a_value_takes_that_of_a_preset_and_the_seed_is_named() {
    let dir = Dir::new();
    let table = dir.path("table.mimic");
    run_with(&["mimic", "probe", "emulated:mimic-less-capacity", "-o", &table, "--requests", "2000"])
        .worked();
    let check = |device: &str| run_with(&["mimic", "check", &table, device, "--requests", "300"]).worked();
    let one = check("emulated:mimic-less-capacity,late_settles,seed=3");
    assert!(one.contains("with late_settles=20000:500us, seed 3;"), "{one}");
    assert_eq!(one, check("emulated:mimic-less-capacity,seed=3,late_settles=20000:0.5ms"));
    let most = check("emulated:mimic-less-capacity,drift=off,noise,seed=3");
    assert!(most.contains("with noise,drift=off, seed 3;"), "{most}");
}

#[test]
fn mistakes_are_named() {
    let mend =
        "give the largest deviation in millionths and the duration of a speed, such as 5000:5s, or off";
    for args in [
        "probe emulated:quantum-atlas-10k,drift=fast",
        "mimic check table emulated:quantum-atlas-10k,drift=fast,noise",
        "simulate --where outside --behaviour noise,drift=fast",
        #[cfg(target_os = "linux")]
        "serve --disk d0=emulated:quantum-atlas-10k,drift=fast,file=d0.img --listen tcp:127.0.0.1:0",
        #[cfg(target_os = "linux")]
        "emulate quantum-atlas-10k --file d0.img --listen 127.0.0.1:0 --behaviour drift=fast",
    ] {
        run(args).complained(2, &["drift: invalid value \"fast\"", mend]);
    }
    run("probe emulated:quantum-atlas-10k,nois")
        .complained(2, &["\"nois\" is no behaviour", "seek_spread, late_settles"]);
    run("probe emulated:quantum-atlas-10k,bad_sectors")
        .complained(2, &["bad_sectors", "needs a value", "20:8"]);
    run("probe emulated:quantum-atlas-10k,seed=-1").complained(2, &["seed: give a whole number"]);
    run("probe emulated:quantum-atlas-10k,overlap_percent=200")
        .complained(2, &["overlap_percent: 200; give 0 to 100"]);
    run("simulate --where outside --behaviour noise,seed=5").complained(2, &["\"seed=5\"", "by --seed"]);
    run("simulate --behaviour noise").complained(2, &["--behaviour", "--where outside"]);
    // A file's name may have commas.
    run("probe emulated:mine,noise.toml,noise").complained(1, &["mine,noise.toml"]);
}

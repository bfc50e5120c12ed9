//! Compares imported drives with the output of DiskSim 4.0, if these files are available.

use freeblock_model::{DriveModel, disksim};
use std::path::PathBuf;
use units::{Duration, Instant, Lbn};

fn shared(name: &str) -> Option<PathBuf> {
    testing::shared(&format!("drives/{name}"))
}

struct Answer {
    write: bool,
    lbn: u64,
    blocks: u64,
    think: f64,
    service: f64,
}

fn answers(text: &str) -> impl Iterator<Item = Answer> {
    text.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        Answer {
            write: cells[1] == "W",
            lbn: cells[2].parse().unwrap(),
            blocks: cells[3].parse().unwrap(),
            think: cells[5].parse().unwrap(),
            service: cells[6].parse().unwrap(),
        }
    })
}

/// The HP C2247A acknowledges a write when it is on the medium, so the completion time of each write gives the angle of its
/// last sector. The zones of this drive have skews in whole sectors, offsets of up to 80 sectors, slipped tracks and
/// reserved space: if one of these were read wrongly, the angles of a zone would be off by sectors. The test allows a slow
/// drift, because DiskSim's clock lags by a microsecond per second.
#[test]
fn every_zone_of_the_hp_c2247a_has_disksims_angles() {
    let (Some(parv), Some(csv)) = (shared("disksim/hp_c2247a.parv"), shared("oracle/hp_c2247a.csv")) else {
        return;
    };
    let profile = disksim::import(&parv).unwrap().profile;
    let completion = profile.firmware.as_ref().unwrap().overheads.write_completion;
    let model = DriveModel::from_profile(&profile).unwrap();
    let text = std::fs::read_to_string(csv).unwrap();
    let mut now = 0.0;
    let mut seen = vec![0; profile.layout.zones.len()];
    for answer in answers(&text).take(1000) {
        let done = now + answer.service;
        now = done + answer.think;
        if !answer.write {
            continue;
        }
        let last = model.layout().locate(Lbn::new(answer.lbn + answer.blocks - 1)).unwrap();
        let track = model.layout().track(last.track);
        let end = track.sector_angle(last.sector) + track.arc(last.sector, 1);
        let done = Instant::ZERO + Duration::from_millis_f64(done - completion).unwrap();
        let late = end.until(model.rpm().angle_at(done));
        let sectors = late.parts() as f64 / track.arc(0, 1).parts() as f64;
        assert!(sectors < 2.0, "LBN {} ends {sectors} sectors after its angle", answer.lbn);
        let zone = profile.layout.zones.iter().position(|z| track.cylinder.get() <= z.last_cylinder).unwrap();
        seen[zone] += 1;
    }
    assert!(seen.iter().all(|&n| n >= 10), "too few writes to tell: {seen:?}");
}

/// The cylinder, head and sector of the first request of the Cheetah 9LP's trace, and its seek time, are those of DiskSim.
#[test]
fn the_first_request_of_the_cheetah_9lp_is_where_disksim_puts_it() {
    let Some(parv) = shared("disksim/cheetah9LP.parv") else { return };
    let model = DriveModel::from_profile(&disksim::import(&parv).unwrap().profile).unwrap();
    let location = model.layout().locate(Lbn::new(1_975_456)).unwrap();
    let track = model.layout().track(location.track);
    assert_eq!((track.cylinder.get(), track.head.get(), location.sector), (648, 1, 122));
    assert!((model.seek(648).as_millis_f64() - 3.5137).abs() < 5e-5);
    // The arm starts at cylinder 0 and the platter at angle 0. The read takes the overhead of 0.28362 ms, the seek, the
    // rotation, one sector on the platter and four sectors on the bus.
    let arrive = Instant::ZERO + Duration::from_millis_f64(0.28362).unwrap() + model.seek(648);
    let wait = model.rpm().angle_at(arrive).until(track.sector_angle(location.sector));
    let latency = model.rpm().time_to_pass(wait);
    assert!((latency.as_millis_f64() - 3.8454).abs() < 5e-4, "{latency}");
    let first_in = arrive + latency + model.rpm().time_to_pass(track.arc(location.sector, 1));
    let done = first_in.as_secs_f64() * 1e3 + 4.0 * 0.105;
    assert!((done - 8.086_286).abs() < 5e-4, "{done}");
}

/// The first request of a trace is a read that starts with the arm at cylinder 0, so its time can be computed to the
/// microsecond.
#[test]
fn first_requests_take_the_time_that_disksim_says() {
    for (file, lbn, expected) in [("cheetah4LP", 8_437_604, 16.356_153), ("ibm18es", 17_317_516, 18.049_071)]
    {
        let Some(parv) = shared(&format!("disksim/{file}.parv")) else { return };
        let profile = disksim::import(&parv).unwrap().profile;
        let firmware = profile.firmware.as_ref().unwrap();
        let model = DriveModel::from_profile(&profile).unwrap();
        let location = model.layout().locate(Lbn::new(lbn)).unwrap();
        let track = model.layout().track(location.track);
        let moved = model.seek(track.cylinder.get()).max(model.head_switch());
        let arrive =
            Instant::ZERO + Duration::from_millis_f64(firmware.overheads.read_miss.0).unwrap() + moved;
        let wait = model.rpm().angle_at(arrive).until(track.sector_angle(location.sector));
        let first_in = arrive + model.rpm().time_to_pass(wait + track.arc(location.sector, 1));
        let done = first_in.as_secs_f64() * 1e3 + 4.0 * firmware.bulk_sector_ms;
        assert!((done - expected).abs() < 1e-3, "{file}: {done} for {expected}");
    }
}

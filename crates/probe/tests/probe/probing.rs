//! The results of probes of hidden drives: the probe has only a handle of each.

use crate::common::{self, CUT, Cut, Emulated, finding, predictions_on};
use model::Profile;
use model::builtin;
use model::profile::{Order, SectorsPerTrack};
use probe::{DeviceError, Journal, Options, Probe, ProbeError, ProbedDevice, ProbedProfile};
use std::ops::ControlFlow;
use units::{LbnRange, Op, Sectors};

fn probed(truth: &Profile) -> ProbedProfile {
    let mut device = Emulated::new(truth);
    Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn holds(truth: &Profile, found: &ProbedProfile, most_seconds: f64) {
    common::holds(Emulated::new(truth), truth, found, most_seconds);
}

fn builtin_drive(name: &str) -> (Profile, ProbedProfile) {
    let truth = builtin::find(name).unwrap();
    let found = probed(&truth);
    holds(&truth, &found, 300.0);
    (truth, found)
}

#[test]
fn a_drive_of_one_zone_is_found_as_it_is() {
    let (truth, ProbedProfile { profile, report }) = builtin_drive("mimic-less-capacity");
    assert_eq!((profile.rpm, profile.heads, profile.cylinders), (truth.rpm, truth.heads, truth.cylinders));
    assert_eq!(profile.layout.order, truth.layout.order);
    let [zone] = profile.layout.zones.as_slice() else { panic!("{} zones", profile.layout.zones.len()) };
    let real = &truth.layout.zones[0];
    assert_eq!(zone.sectors_per_track, real.sectors_per_track);
    assert_eq!(zone.track_skew.angle(), real.track_skew.angle());
    assert_eq!(zone.cylinder_skew.angle(), real.cylinder_skew.angle());
    let switch = profile.mechanics.cylinder_switch_ms.unwrap();
    assert!((switch - truth.mechanics.cylinder_switch_ms.unwrap()).abs() < 0.05, "{switch}");
    assert!(!profile.mechanics.zero_latency_read);
    assert!(report.unsure.is_empty());
}

#[test]
fn zones_slips_and_skews_of_a_real_drive_are_found() {
    let (truth, ProbedProfile { profile, .. }) = builtin_drive("quantum-atlas-10k");
    assert_eq!((profile.rpm, profile.heads, profile.cylinders), (truth.rpm, truth.heads, truth.cylinders));
    for (found, real) in profile.layout.zones.iter().zip(&truth.layout.zones) {
        assert_eq!(found.sectors_per_track, real.sectors_per_track);
        assert_eq!(found.track_skew.angle(), real.track_skew.angle());
        assert_eq!(found.cylinder_skew.angle(), real.cylinder_skew.angle());
        assert_eq!(found.slips, real.slips);
        assert_eq!((found.first_cylinder, found.last_cylinder), (real.first_cylinder, real.last_cylinder));
    }
    assert_eq!(profile.layout.zones.len(), truth.layout.zones.len());
}

#[test]
fn spares_after_some_cylinders_are_found() {
    let (truth, ProbedProfile { profile, .. }) = builtin_drive("seagate-cheetah-4lp");
    for (found, real) in profile.layout.zones.iter().zip(&truth.layout.zones) {
        assert_eq!(found.sparing.per, real.sparing.per);
        assert_eq!(found.sparing.cylinders, real.sparing.cylinders);
        assert_eq!(found.sparing.spares, real.sparing.spares);
    }
    assert_eq!(profile.layout.zones.len(), truth.layout.zones.len());
}

#[test]
fn a_small_drive_in_bands_is_found() {
    let mut truth = builtin::find("nearline-4tb").unwrap();
    truth.layout.zones.truncate(1);
    truth.cylinders = truth.layout.zones[0].last_cylinder + 1;
    let found = probed(&truth);
    holds(&truth, &found, 300.0);
    assert_eq!(found.profile.layout.order, Order::SurfaceSerpentine { band_cylinders: 128 });
    assert_eq!(found.profile.heads, truth.heads);
    assert_eq!(found.profile.layout.zones[0].sectors_per_track, SectorsPerTrack::Same(3_072));
}

#[test]
fn a_drive_whose_times_and_speed_vary_is_found() {
    let truth = builtin::find("mimic-less-capacity").unwrap();
    let mut device = Emulated::noisy(&truth, 1);
    let found = Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.report.drive_time_s <= 300.0, "{} s", found.report.drive_time_s);
    let shares = predictions_on(device, &truth, &found.profile, &found.report, 2_000);
    assert!(shares.near >= 0.97, "{shares:?}");
    assert_eq!(found.profile.heads, truth.heads);
    assert_eq!(found.profile.layout.zones[0].sectors_per_track, truth.layout.zones[0].sectors_per_track);
}

/// More commands than a probe of any small drive needs.
const COMMANDS_MAX: u64 = 60_000;

#[test]
fn random_hidden_drives_are_found_or_named_in_their_time() {
    for seed in testing::some(2, [1, 3, 5, 13, 18, 20, 23, 26]) {
        let truth = common::random(seed);
        let found = probed(&truth);
        holds(&truth, &found, 300.0);
        common::is_right_or_unsure(&truth, &found);
        assert!(found.report.unsure.is_empty(), "{seed}: {:?}", found.report.unsure);
        assert!(found.report.commands <= COMMANDS_MAX, "{seed}: {} commands", found.report.commands);
    }
    // One drive is mapped in part, one has a share of predicted reads too close to 97% to decide, and one is a little
    // below: all probes end in time, and name the regions where the profile is wrong.
    for seed in [0, 45, 50] {
        let truth = common::random(seed);
        let found = probed(&truth);
        holds(&truth, &found, 300.0);
        common::is_right_or_unsure(&truth, &found);
        assert!(!found.report.unsure.is_empty() && found.report.commands <= COMMANDS_MAX, "{seed}");
    }
}

#[test]
fn densities_that_differ_by_head_are_found() {
    for seed in [9, 11, 28] {
        let truth = common::random(seed);
        let found = probed(&truth);
        holds(&truth, &found, 300.0);
        common::is_right_or_unsure(&truth, &found);
        assert!(found.report.unsure.is_empty(), "{seed}: {:?}", found.report.unsure);
        assert_eq!(found.profile.heads, truth.heads, "{seed}");
        let by_head = |profile: &Profile| {
            let largest = profile.layout.zones.iter().max_by_key(|z| {
                let by_head = matches!(z.sectors_per_track, SectorsPerTrack::ByHead(_));
                (by_head, z.last_cylinder - z.first_cylinder)
            });
            let Some(SectorsPerTrack::ByHead(list)) = largest.map(|z| z.sectors_per_track.clone()) else {
                panic!("{seed}: no such zone")
            };
            let mut list = list;
            list.sort_unstable();
            list
        };
        // If a zone begins with a cylinder whose heads descend, the probe numbers the heads in the other direction.
        assert_eq!(by_head(&found.profile), by_head(&truth), "{seed}");
    }
}

/// Bands whose runs have densities of their own: random ones of some tracks, back and forth, with slips; and those of
/// real drives, in every order of surfaces, some with whole tracks without LBNs.
#[test]
fn densities_that_differ_by_head_within_bands_are_found() {
    let random = [6, 30, 43, 46, 48].map(|seed| (common::random(seed), 300.0));
    let wong = ["wong:wd2500ks:1", "wong:st3160811as:1", "wong:st3320613as:1", "wong:hdwe150:1"];
    let wong = wong.map(|name| (common::profile_of(name).unwrap(), 3_600.0));
    for (truth, most_seconds) in random.into_iter().chain(wong) {
        let name = &truth.name;
        let found = probed(&truth);
        holds(&truth, &found, most_seconds);
        let check = found.report.check;
        assert!(check.of_drive >= 1.0 && check.within_50us >= 0.97, "{name}: {check:?}");
        assert!(found.report.unsure.is_empty(), "{name}: {:?}", found.report.unsure);
        assert_eq!(found.profile.heads, truth.heads, "{name}");
        let width = |order| match order {
            Order::SurfaceSerpentine { band_cylinders } | Order::Bands { band_cylinders, .. } => {
                band_cylinders
            }
            _ => 0,
        };
        assert_eq!(width(found.profile.layout.order), width(truth.layout.order), "{name}");
    }
}

/// A slip does not end a zone whose densities recur.
#[test]
fn slips_among_densities_that_differ_by_head_are_found() {
    let truth = common::profile_of("wong:deskstar-7k80:1").unwrap();
    let found = probed(&truth);
    holds(&truth, &found, 3_600.0);
    assert!(found.report.unsure.is_empty() && found.report.check.within_50us >= 0.97);
    for (found, real) in found.profile.layout.zones.iter().zip(&truth.layout.zones) {
        assert_eq!((&found.sectors_per_track, &found.slips), (&real.sectors_per_track, &real.slips));
    }
}

#[test]
fn random_hidden_drives_whose_times_vary_are_found_or_named_in_their_time() {
    let found = |seed: u64, two: bool| {
        let truth = common::random(seed);
        let device = Emulated::noisy(&truth, 1);
        let mut device = if two { device } else { device.one_at_a_time() };
        let found =
            Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
        common::holds(device, &truth, &found, 300.0);
        common::is_right_or_unsure(&truth, &found);
        found
    };
    // Some of these drives have very different densities of zones (seeds 7, 27), or densities that differ by head (28).
    let each = testing::some(4, [1, 7, 10, 16, 18, 26, 27, 28]).into_iter().map(|seed| (seed, false));
    // With two commands at a time, parts of the drive of seed 10 are named: the cylinders between its zones are
    // miscounted, which 2% of the reads show.
    let mut named = std::collections::BTreeSet::new();
    for (seed, two) in each.chain(testing::some(2, [10, 16, 18, 26]).into_iter().map(|seed| (seed, true))) {
        if !found(seed, two).report.unsure.is_empty() {
            named.insert(seed);
        }
    }
    // With the noise of seeds 1 to 6, one probe of 48 names a part. One command at a time and two give the same map.
    assert!(named.len() <= 1, "{named:?}");
    // The first drive is mapped in part; the second is slow, and each part of it is read again.
    for seed in [17, 23] {
        assert!(!found(seed, false).report.unsure.is_empty(), "{seed}");
    }
}

/// Probes with writes allowed to some sectors in the middle; returns the result and the ranges of all writes.
fn written(truth: &Profile, behaviour: drive::Behaviour) -> (ProbedProfile, Vec<LbnRange>) {
    let mut device = Watched { device: Emulated::with(truth, behaviour, 1), written: Vec::new() };
    let region = region_of(&device);
    let options = Options { writes: Some(region), ..Options::default() };
    let found = Probe::new(options).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
    (found, device.written)
}

fn region_of(device: &dyn ProbedDevice) -> LbnRange {
    LbnRange::new(units::Lbn::new(device.capacity().get() / 3), Sectors::new(20_000))
}

/// A device that records the ranges of its writes.
struct Watched {
    device: Emulated,
    written: Vec<LbnRange>,
}

impl Watched {
    fn before(&mut self, commands: &[(Op, LbnRange)]) -> Result<(), DeviceError> {
        self.written.extend(commands.iter().filter(|(op, _)| op.is_write()).map(|(_, range)| range));
        Ok(())
    }
}

common::goes_through!(Watched);

#[test]
fn write_settling_is_measured_where_writes_are_allowed_and_nowhere_else() {
    let truth = builtin::find("seagate-cheetah-9lp").unwrap();
    let through = drive::Behaviour { write_back: Some(false), ..drive::Behaviour::default() };
    let (found, wrote) = written(&truth, through);
    let region = region_of(&Emulated::new(&truth));
    assert!(!wrote.is_empty());
    assert!(wrote.iter().all(|w| region.contains(w.start()) && w.end() <= region.end()));
    let cache = &found.profile.firmware.as_ref().unwrap().cache;
    assert_eq!(cache.write_back, model::profile::WriteBack::None);
    let settle = found.profile.mechanics.write_settle_ms;
    assert!((settle - truth.mechanics.write_settle_ms).abs() < 0.05, "{settle} ms");
    let (said, real) =
        (found.profile.firmware.unwrap().overheads, &truth.firmware.as_ref().unwrap().overheads);
    for (said, real) in [(said.read_miss, real.read_miss), (said.write_miss, real.write_miss)] {
        assert!((said.0 - real.0).abs() < 0.05 && (said.1 - real.1).abs() < 0.05, "{said:?} {real:?}");
    }
    // If the probe sends two commands at a time, the second one writes nowhere else either.
    let (_, wrote) = written(&truth, common::without_chance());
    assert!(!wrote.is_empty());
    assert!(wrote.iter().all(|w| region.contains(w.start()) && w.end() <= region.end()));
}

#[test]
fn nothing_is_said_of_a_write_cache_that_was_not_measured() {
    // The profile of a drive without measured writes once said write-through. A core that relied on that made the
    // foreground of a write-back drive up to 1.9% slower, at a bound of 1%.
    let truth = builtin::find("seagate-cheetah-9lp").unwrap();
    for on in [true, false] {
        let behaviour = drive::Behaviour { write_back: Some(on), ..drive::Behaviour::default() };
        let mut device = Emulated::with(&truth, behaviour, 1);
        let found =
            Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(finding(&found, "write cache").value, "not measured");
        let cache = &found.profile.firmware.as_ref().unwrap().cache;
        assert_eq!(cache.write_back.known(), None);
        let again = Profile::from_toml(&found.profile.to_toml(), "as it was written").unwrap();
        assert_eq!(again, found.profile);
    }
}

#[test]
fn a_buffer_that_evicts_transferred_data_may_still_hold_writes() {
    // The buffer evicts data once they are transferred, so reads are never hits: a probe once reported the buffer, and
    // write-back, as off.
    let truth = builtin::find("seagate-cheetah-9lp").unwrap();
    let behaviour = drive::Behaviour {
        write_back: Some(true),
        read_ahead: Some(false),
        queue: common::without_chance().queue,
        ..drive::Behaviour::default()
    };
    let (found, _) = written(&truth, behaviour);
    assert_eq!(finding(&found, "read cache").value, "off");
    let cache = &found.profile.firmware.as_ref().unwrap().cache;
    assert!(drive::Behaviour::default().writes_back(cache), "{cache:?}");
}

#[test]
fn writes_acknowledged_from_the_buffer_are_seen_and_their_settling_by_what_comes_behind() {
    let truth = builtin::find("seagate-cheetah-9lp").unwrap();
    for on in [true, false] {
        let behaviour = drive::Behaviour { write_back: Some(on), ..drive::Behaviour::default() };
        let (found, _) = written(&truth, behaviour);
        let firmware = found.profile.firmware.as_ref().unwrap();
        assert_eq!(firmware.cache.write_back == model::profile::WriteBack::Always, on);
        assert_eq!(finding(&found, "write cache").value.starts_with("write-back"), on);
        let settle = found.profile.mechanics.write_settle_ms;
        assert!((settle - truth.mechanics.write_settle_ms).abs() < 0.05, "{on}: {settle} ms");
    }
}

#[test]
fn nothing_is_written_unless_it_is_allowed() {
    let truth = builtin::find("mimic-less-capacity").unwrap();
    let mut device = Watched { device: Emulated::new(&truth), written: Vec::new() };
    Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(device.written, []);
    for (first, len) in [(u64::MAX - 5, 64), (0, 63), (device.capacity().get() - 63, 64)] {
        let region = LbnRange::new(units::Lbn::new(first), Sectors::new(len));
        let options = Options { writes: Some(region), ..Options::default() };
        let error = Probe::new(options).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(error, ProbeError::Region { .. }), "{error}");
    }
}

#[test]
fn a_probe_cut_short_again_and_again_finds_the_same_drive() {
    cut_again_and_again(drive::Behaviour::default());
}

#[test]
fn a_probe_that_gives_two_commands_at_a_time_may_be_cut_short_as_well() {
    let queue = drive::Behaviour::fast02().queue;
    cut_again_and_again(drive::Behaviour { queue, ..drive::Behaviour::default() });
}

fn cut_again_and_again(behaviour: drive::Behaviour) {
    let truth = builtin::find("mimic-less-capacity").unwrap();
    let whole = probed(&truth);
    let mut state: Option<Vec<u8>> = None;
    for _ in 0..20 {
        // Each part of the probe has a new process, a new clock, and a drive with an empty buffer.
        let mut probe = match &state {
            None => Probe::new(Options::default()),
            Some(bytes) => {
                Probe::resume(Options::default(), Journal::from_bytes(bytes, "state").unwrap()).unwrap()
            }
        };
        let mut device = Emulated::with(&truth, behaviour, 0);
        let mut device = Cut { device: &mut device, left: 1_000 };
        match probe.run(&mut device, &mut |_| ControlFlow::Continue(())) {
            Ok(found) => {
                assert_eq!(found.profile.layout.order, whole.profile.layout.order);
                assert_eq!(found.profile.heads, whole.profile.heads);
                common::holds(Emulated::with(&truth, behaviour, 0), &truth, &found, 300.0);
                return;
            }
            Err(ProbeError::Device(error)) => assert!(error.to_string().contains(CUT)),
            Err(error) => panic!("{error}"),
        }
        state = Some(probe.journal().to_bytes());
    }
    panic!("not done after 20 pieces");
}

/// Returns the journal of a probe of `device` whose device was removed after `commands` commands.
fn begun(mut device: Emulated, commands: u64) -> Vec<u8> {
    let mut probe = Probe::new(Options::default());
    let result =
        probe.run(&mut Cut { device: &mut device, left: commands }, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(result, Err(ProbeError::Device(_))), "{result:?}");
    probe.journal().to_bytes()
}

/// Continues a probe from `state` with another handle.
fn resumed(state: &[u8], device: &mut dyn ProbedDevice) -> Result<ProbedProfile, ProbeError> {
    let journal = Journal::from_bytes(state, "state")?;
    Probe::resume(Options::default(), journal)?.run(device, &mut |_| ControlFlow::Continue(()))
}

#[test]
fn a_probe_of_a_drive_that_varies_goes_on_after_a_pause() {
    let truth = builtin::find("mimic-less-capacity").unwrap();
    let state = begun(Emulated::noisy(&truth, 3), 5_000);
    // The other seed stands for a pause in which the spindle's speed has changed.
    let mut device = Emulated::noisy(&truth, 4);
    let found = resumed(&state, &mut device).unwrap();
    assert_eq!(found.profile.heads, truth.heads);
    let shares = predictions_on(device, &truth, &found.profile, &found.report, 1_000);
    assert!(shares.near >= 0.97, "{shares:?}");
}

/// The drive has ten tracks of 365 sectors, and a buffer of 16 segments of 512 sectors: once all tracks were read, only
/// reads longer than a segment come from the medium.
#[test]
fn a_drive_that_fits_into_its_buffer_is_found_or_named() {
    let truth = common::random(223);
    for seed in [1, 2] {
        let mut device = Emulated::noisy(&truth, seed);
        let found =
            Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
        common::holds(device, &truth, &found, 300.0);
        assert_eq!(finding(&found, "read cache").value, "on", "{seed}");
    }
}

#[test]
fn a_drive_swapped_for_another_is_refused_by_name() {
    let truth = builtin::find("mimic-less-capacity").unwrap();
    let state = begun(Emulated::new(&truth), 3_000);
    let mut other = truth.clone();
    // The other drive has the same size and speed, but other skews.
    other.layout.zones[0].track_skew = model::profile::Revolutions::Decimal(0.21);
    let error = resumed(&state, &mut Emulated::new(&other)).unwrap_err().to_string();
    assert!(error.contains("another drive"), "{error}");
    let noisy = resumed(&state, &mut Emulated::noisy(&other, 2)).unwrap_err().to_string();
    assert!(noisy.contains("another drive"), "{noisy}");
    let smaller = builtin::find("seagate-cheetah-4lp").unwrap();
    let error = resumed(&state, &mut Emulated::new(&smaller)).unwrap_err().to_string();
    assert!(error.contains("sectors of 512 bytes, the drive"), "{error}");
    // A journal that is too short to be continued is refused, too.
    for young in [0, 20] {
        let state = begun(Emulated::new(&truth), young);
        let error = resumed(&state, &mut Emulated::new(&smaller)).unwrap_err().to_string();
        assert!(error.contains("sectors of 512 bytes, the drive"), "{young}: {error}");
    }
}

#[test]
fn a_damaged_journal_or_another_seed_is_refused_by_name() {
    let truth = builtin::find("mimic-less-capacity").unwrap();
    let mut state = begun(Emulated::new(&truth), 1_000);
    let other_seed = Options { seed: 2, ..Options::default() };
    let journal = Journal::from_bytes(&state, "state").unwrap();
    let error = Probe::resume(other_seed, journal).unwrap_err().to_string();
    assert!(error.contains("the state's seed is 1, not 2"), "{error}");
    let middle = state.len() / 2;
    state[middle] ^= 1;
    let error = resumed(&state, &mut Emulated::new(&truth)).unwrap_err().to_string();
    assert!(error.starts_with("state: damaged"), "{error}");
    let error = resumed(b"something else", &mut Emulated::new(&truth)).unwrap_err().to_string();
    assert!(error.starts_with("state: not a probe's state"), "{error}");
}

#[test]
fn a_caller_that_wants_an_end_gets_it() {
    let truth = builtin::find("mimic-less-capacity").unwrap();
    let mut probe = Probe::new(Options::default());
    let mut calls = 0;
    let result = probe.run(&mut Emulated::new(&truth), &mut |at| {
        calls += 1;
        assert!((0.0..=1.0).contains(&at.share));
        if calls == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(result, Err(ProbeError::Interrupted)), "{result:?}");
    assert!(probe.journal().commands() > 0);
}

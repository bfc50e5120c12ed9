//! The cache cleaner: reads see the latest write, and a completed flush survives a power cut.

use super::world::{World, range, worlds};
use lab_apps::cache::{Action, Cache, CallId, Config, NoHead};
use proptest::prelude::*;
use scheduler::{Application, Record, Sessions, Wanted};
use sim::{Place, Platters, Volume};
use std::collections::BTreeMap;
use units::{Duration, Instant, RequestId, Sectors};

const BLOCK: u64 = 8;
const BLOCKS: u64 = 40;

#[derive(Default)]
struct HostedCache(Option<Cache>);

impl Application for HostedCache {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        if let Some(cache) = &mut self.0 {
            cache.done(sessions, done, bytes, now);
        }
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        self.0.as_mut().is_some_and(|cache| cache.buffer(wanted, into))
    }
}

#[derive(Clone, Debug)]
enum CacheCall {
    Write {
        block: u64,
        value: u8,
    },
    Read {
        block: u64,
        floor: u8,
    },
    /// The content of each block at the start of the flush.
    Flush(Vec<u8>),
}

struct VolumeRig {
    volume: Volume,
    place: Place<HostedCache>,
    sector: usize,
    requests: BTreeMap<RequestId, RequestId>,
    calls: BTreeMap<CallId, CacheCall>,
    /// By block, the last value written, the last one answered, and the last one flushed. Values of
    /// a block ascend.
    issued: Vec<u8>,
    answered: Vec<u8>,
    flushed: Vec<u8>,
}

impl VolumeRig {
    fn new(world: &World, buffers: usize) -> Self {
        let drive = world.drive();
        let mut volume = world.start(Platters::blank(&drive), Instant::ZERO, 0);
        world.load(&mut volume, false);
        let place = volume.host(HostedCache::default());
        let mut config =
            Config::new(range(0, BLOCKS * BLOCK), Sectors::new(BLOCK), drive.sector_bytes(), buffers);
        config.syncer = None;
        volume
            .call(place, |host, sessions| {
                host.0 = Some(Cache::new(config, sessions, Instant::ZERO).unwrap());
            })
            .unwrap();
        Self {
            sector: drive.sector_bytes().get() as usize,
            volume,
            place,
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            issued: vec![0; BLOCKS as usize],
            answered: vec![0; BLOCKS as usize],
            flushed: vec![0; BLOCKS as usize],
        }
    }

    fn cache<R>(&mut self, call: impl FnOnce(&mut Cache, &mut dyn Sessions) -> R) -> R {
        self.volume.call(self.place, |host, sessions| call(host.0.as_mut().unwrap(), sessions)).unwrap()
    }

    /// Carries out the cache's actions and passes it completions until nothing is left to do.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        let now = self.volume.now();
        loop {
            while let Some(done) = self.volume.completion() {
                let id = self.requests.remove(&done.id).unwrap();
                let result = match done.bad {
                    None => Ok(done.bytes.as_slice()),
                    Some(bad) => Err(bad),
                };
                self.cache(|cache, _| cache.completed(id, result, now)).unwrap();
            }
            let Some(action) = self.cache(|cache, sessions| cache.poll(sessions, &NoHead, now)) else {
                return Ok(());
            };
            match action {
                Action::Submit(request) => {
                    let id = if request.op.is_write() {
                        let mut bytes = vec![0; request.range.len().get() as usize * self.sector];
                        self.cache(|cache, _| cache.bytes(request.id, request.range, &mut bytes)).unwrap();
                        self.volume.submit_write(request.range, bytes).unwrap()
                    } else {
                        self.volume.submit_read(request.range).unwrap()
                    };
                    self.requests.insert(id, request.id);
                }
                Action::Answer { call, result } => {
                    let bytes = result.unwrap();
                    match self.calls.remove(&call).unwrap() {
                        CacheCall::Write { block, value } => {
                            let answered = &mut self.answered[block as usize];
                            *answered = value.max(*answered);
                        }
                        CacheCall::Read { block, floor } => {
                            let most = self.issued[block as usize];
                            prop_assert!(
                                bytes.iter().all(|byte| (floor..=most).contains(byte)),
                                "a stale read"
                            );
                        }
                        CacheCall::Flush(values) => {
                            for (flushed, value) in self.flushed.iter_mut().zip(values) {
                                *flushed = value.max(*flushed);
                            }
                        }
                    }
                }
                Action::WriteFailed { range, .. } => prop_assert!(false, "the medium is good at {range}"),
            }
        }
    }

    fn run(&mut self, time: Duration) -> Result<(), TestCaseError> {
        let until = self.volume.now() + time;
        self.settle()?;
        while self.volume.next_at().is_some_and(|at| at <= until) {
            self.volume.step().unwrap();
            self.settle()?;
        }
        self.volume.run_until(until).unwrap();
        self.settle()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn flushed_data_survive_a_power_cut(
        world in worlds(),
        buffers in 4..30usize,
        ops in prop::collection::vec((0..3u8, 0..BLOCKS, 0..60_000u64), 1..80),
    ) {
        prop_assume!(world.drive().layout().capacity().get() >= BLOCKS * BLOCK);
        let mut rig = VolumeRig::new(&world, buffers);
        for (kind, block, micros) in ops {
            let place = range(block * BLOCK, BLOCK);
            let now = rig.volume.now();
            match kind {
                0 => {
                    rig.issued[block as usize] += 1;
                    let value = rig.issued[block as usize];
                    let bytes = vec![value; BLOCK as usize * rig.sector];
                    let call = rig.cache(|cache, _| cache.write(place, bytes, now)).unwrap();
                    rig.calls.insert(call, CacheCall::Write { block, value });
                }
                1 => {
                    let floor = rig.answered[block as usize];
                    let call = rig.cache(|cache, _| cache.read(place, now)).unwrap();
                    rig.calls.insert(call, CacheCall::Read { block, floor });
                }
                _ => {
                    let values = rig.answered.clone();
                    let call = rig.cache(|cache, _| cache.flush()).unwrap();
                    rig.calls.insert(call, CacheCall::Flush(values));
                }
            }
            rig.run(Duration::from_micros(micros))?;
        }
        let VolumeRig { volume, sector, flushed, issued, .. } = rig;
        let platters = volume.power_cut().unwrap();
        for (block, (least, most)) in (0..BLOCKS).zip(flushed.into_iter().zip(issued)) {
            let mut bytes = vec![0; BLOCK as usize * sector];
            platters.medium().read(range(block * BLOCK, BLOCK), &mut bytes).unwrap();
            prop_assert!(
                bytes.iter().all(|byte| (least..=most).contains(byte)),
                "block {block}: {least} was flushed, and the medium holds {}", bytes[0]
            );
        }
    }
}

//! The cost of generating requests: each benchmark generates 10,000, and returns a checksum of them.

use divan::{Bencher, black_box, counter::ItemsCount};
use freeblock_workload::random::{StandardNormal, Stream};
use freeblock_workload::{Arrival, Issuer, Oltp, OltpConfig, Random, RandomConfig, Share, Source, trace};
use units::{Bytes, Duration, Instant, Sectors};

const N: usize = 10_000;

fn main() {
    divan::main();
}

fn random(local: u64) -> Random {
    let config = RandomConfig::new(Sectors::new(17_938_986), Bytes::new(512));
    let local = Share::new(local, 10).unwrap_or(Share::NONE);
    Random::new(RandomConfig { local, ..config }, 1).expect("the configuration is right")
}

fn oltp() -> Oltp {
    let config = OltpConfig::new(Sectors::new(17_938_986), Bytes::new(512));
    Oltp::new(config, 1).expect("the configuration is right")
}

fn generate(mut source: impl Source) -> u64 {
    (0..N).filter_map(|_| source.next_request()).fold(0, |sum, r| sum ^ r.range.start().get())
}

#[divan::bench]
fn next_u64(bencher: Bencher) {
    let mut stream = Stream::new(1, "bench");
    bencher.counter(ItemsCount::new(N)).bench_local(|| (0..N).fold(0, |sum, _| sum ^ stream.next_u64()));
}

#[divan::bench]
fn exponential(bencher: Bencher) {
    let mut stream = Stream::new(1, "bench");
    bencher.counter(ItemsCount::new(N)).bench_local(|| (0..N).map(|_| stream.exponential()).sum::<f64>());
}

#[divan::bench]
fn standard_normal(bencher: Bencher) {
    let (mut stream, mut normal) = (Stream::new(1, "bench"), StandardNormal::default());
    bencher
        .counter(ItemsCount::new(N))
        .bench_local(|| (0..N).map(|_| normal.sample(&mut stream)).sum::<f64>());
}

#[divan::bench(args = [0, 7])]
fn random_requests(bencher: Bencher, local: u64) {
    let load = random(local);
    assert_eq!(generate(load.clone()), generate(load.clone()));
    bencher.counter(ItemsCount::new(N)).bench_local(|| generate(black_box(load.clone())));
}

#[divan::bench]
fn oltp_requests(bencher: Bencher) {
    let load = oltp();
    bencher.counter(ItemsCount::new(N)).bench_local(|| generate(black_box(load.clone())));
}

/// Simulates the whole foreground without a drive: takes a request, serves it for 5 us, completes it.
#[divan::bench(args = [1, 20])]
fn closed_loop(bencher: Bencher, tasks: u32) {
    let arrival = Arrival::outstanding(tasks);
    let issuer = Issuer::new(random(0), arrival, Instant::ZERO, 1).expect("the configuration is right");
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        let mut issuer = black_box(issuer.clone());
        let mut now = Instant::ZERO;
        let mut sum = 0;
        for _ in 0..N {
            let Some(issued) = issuer.issue(now) else { break };
            now += Duration::from_micros(5);
            sum ^= issued.request.range.start().get();
            issuer.complete(issued.task, now);
        }
        sum
    });
}

#[divan::bench]
fn read_validate(bencher: Bencher) {
    let mut load = random(0);
    let records: Vec<_> = std::iter::from_fn(|| load.next_request())
        .take(N)
        .map(|r| trace::TraceRecord::new(r.op, r.range))
        .collect();
    let mut text = String::new();
    trace::validate::write(&records, &mut text).expect("a string takes everything");
    bencher
        .counter(ItemsCount::new(N))
        .bench_local(|| trace::read(black_box(text.as_bytes())).map(|t| t.records.len()));
}

//! The example `embed`, run over a file.

#[path = "../../examples/embed.rs"]
#[allow(dead_code, reason = "its `main` is not called")]
mod example;

use example::embed;

#[test]
fn the_embedded_core_reads_each_byte_of_a_file_once_beside_the_foreground() {
    if let Err(error) = device::Ring::new() {
        return testing::missing(&format!("io_uring ({error})"));
    }
    let path = std::env::temp_dir().join(format!("freeblock-embed-{}", std::process::id()));
    let bytes: Vec<u8> = (0..256 * 1024).map(|at: u32| (at / 512 * 31 + at % 251) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let sums = embed(std::fs::File::open(&path).unwrap(), None, &[7, 60, 7, 0]);
    std::fs::remove_file(&path).unwrap();
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let foreground = [7, 60, 7, 0].iter().map(|block| sum(&bytes[block * 4096..][..4096])).sum();
    assert_eq!(sums.unwrap(), [foreground, sum(&bytes)]);
}

#[test]
fn the_example_has_no_more_than_sixty_lines() {
    let lines = include_str!("../../examples/embed.rs").lines().count();
    assert!(
        lines <= 60,
        "{lines} lines; the README and the documentation of `freeblock` promise a short program"
    );
}

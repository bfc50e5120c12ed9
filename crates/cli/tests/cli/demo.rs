//! `freeblock demo`.

use crate::support::run;

#[test]
fn the_demo_compares_every_completion() {
    let page = run("demo --seed 3").worked();
    let line = page.lines().find(|line| line.contains("completion times identical")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    // "N of N completion times identical to the nanosecond", N some 200,000.
    assert_eq!((words[0], words[1]), (words[2], "of"), "{line}");
    assert!(words[0].replace(',', "").parse::<u64>().unwrap() > 100_000, "{line}");
    assert_eq!(page.matches("identical").count(), 5, "{page}");
    assert!(!page.contains("DIFFERENT"), "{page}");
    for word in
        ["free bandwidth", "scans a day", "potential used", "last 5% of blocks", "seed 3", "free_transfer"]
    {
        assert!(page.contains(word), "no {word:?} in:\n{page}");
    }
}

//! The page of `freeblock lab report` in a browser: nothing leaves the window or its figure, and every text is legible.

use freeblock_lab::ledger::Ledger;
use freeblock_lab::plot::svg;
use freeblock_lab::report::{Entry, Page, html};
use freeblock_lab::{Axis, Bar, Figure, Kind, Line, Outcome, experiments};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A script that replaces the page with the list of its faults: an element that extends past the window or its
/// figure, a table that must be scrolled (except the numbers of a figure), two texts of a figure that overlap, and
/// letters smaller than 10 pixels.
const LOOK: &str = r#"<script>
const found = [];
const width = document.documentElement.clientWidth;
document.querySelectorAll('details').forEach(details => details.open = true);
if (document.documentElement.scrollWidth > width) found.push('the page is ' + document.documentElement.scrollWidth + ' wide');
for (const e of document.querySelectorAll('h1, h2, h3, p, pre, li, figure, .wide, .claims, .claims th, .claims td')) {
  const box = e.getBoundingClientRect();
  const scrolls = e.scrollWidth > e.clientWidth + 1 && !e.matches('details .wide');
  if (box.left < 0 || box.right > width || scrolls)
    found.push('past the window: ' + e.tagName + ' ' + e.textContent.slice(0, 60));
}
for (const svg of document.querySelectorAll('svg')) {
  const frame = svg.getBoundingClientRect(), scale = frame.width / svg.viewBox.baseVal.width;
  const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent.trim(), text.getBoundingClientRect(), text]);
  texts.forEach(([said, box, text], n) => {
    if (box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom)
      found.push('past its figure: ' + said);
    if (parseFloat(text.getAttribute('font-size')) * scale < 10) found.push('small: ' + said);
    for (const [other, of] of texts.slice(n + 1))
      if (box.left + 1 < of.right && of.left + 1 < box.right && box.top + 3 < of.bottom && of.top + 3 < box.bottom)
        found.push('on each other: ' + said + ' and ' + other);
  });
}
const seen = [innerWidth, document.querySelectorAll('svg text').length, document.querySelectorAll('.claims tr').length];
document.body.innerHTML = '<pre id="looked"></pre>';
document.getElementById('looked').textContent = seen.join(' ') + '\n' + found.join('\n') + '\n';
</script>
"#;

fn figure(title: &str, x: Axis, kind: Kind) -> Figure {
    Figure { id: "x".into(), title: title.into(), x, y: Axis::new("% of the in-drive free bandwidth"), kind }
}

fn bars(labels: &[&str], parts: usize) -> Kind {
    let bar = |(n, label): (usize, &&str)| Bar {
        label: (*label).to_owned(),
        values: [20.0 + n as f64, 30.0][..parts].to_vec(),
    };
    let names = ["free bandwidth", "rotational latency that no wanted sector filled"].map(str::to_owned);
    Kind::Stacked { parts: names[..parts].to_vec(), bars: labels.iter().enumerate().map(bar).collect() }
}

fn curves(labels: &[&str], points: usize) -> Kind {
    let line = |(n, label): (usize, &&str)| {
        Line::new(label, (0..points).map(|x| (x as f64, (n * 7 % 5) as f64 + x as f64 * 0.1)))
    };
    Kind::Lines(labels.iter().enumerate().map(line).collect())
}

/// Returns curves with most points at small values and a single point at the right edge.
fn rivals() -> Kind {
    let curve = |label: &str, last: f64| Line::new(label, [(0.0, 1.0), (last / 40.0, 80.0), (last, 120.0)]);
    let single = |label: &str, x: f64| Line::new(label, [(x, 110.0)]);
    Kind::Lines(vec![
        curve("ours, bounds of 1 to 100%", 1.0),
        curve("paced: 182%, at the edge", 150.0),
        single("always, 1 MiB: 1087%, at the edge", 150.0),
        single("idle, 64 KiB after 0 ms", 49.0),
        single("idle, 64 KiB after 5 ms", 18.0),
        single("idle, 64 KiB after 20 ms", 14.0),
        single("idle, 1 MiB after 0 ms", 84.0),
        single("idle, 1 MiB after 5 ms", 25.0),
        single("idle, 1 MiB after 20 ms", 15.0),
    ])
}

/// The longest labels of the experiments' figures.
fn outcomes() -> Vec<Figure> {
    let many: Vec<String> = (0..42)
        .map(|n| {
            let words = [
                "paper, 0.3 ms",
                "read_ahead,eager_read_ahead",
                "both sides of a track's end, ahead of writes too",
            ];
            format!("SPTF-SW60%: {}", words[n % 3])
        })
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let eight = [
        "Quantum Atlas 10K, true profile",
        "Quantum Atlas 10K, probed over the same black box",
        "Seagate Cheetah 18LP (synthetic), true profile",
        "Seagate Cheetah 18LP (synthetic), probed",
        "nearline drive of 4 TB, true profile",
        "nearline drive of 4 TB, probed with its noise",
        "drive 7",
        "drive 8",
    ];
    let long = "Ours outside a drive of today against the disk without us, the drive itself, and rivals of every kind";
    vec![
        figure(long, Axis::new("each idea on top of those before"), bars(&many, 1)),
        figure(
            "Bars with room",
            Axis::new("drive"),
            bars(&["Cheetah 9LP", "Atlas 10K", "HP C3323A", "no name"], 2),
        ),
        figure(long, Axis::new("observed less predicted head time (ms)"), curves(&eight, 60)),
        figure(
            long,
            Axis::new("observed less predicted head time (ms)"),
            match curves(&eight, 321) {
                Kind::Lines(lines) => Kind::Distributions(lines),
                other => other,
            },
        ),
        figure(
            "Categories",
            Axis::named("foreground policy", ["SPTF", "SPTF-SW60%", "SSTF"]),
            curves(&["Atlas 10K", "Atlas 10K, all ideas"], 3),
        ),
        // The duel: its table, and a figure with most of its points at the left edge.
        table(
            long,
            "drive, rate: contestant|mean ms|against alone, %|at most (95%), %|p99 ms|p99 against alone, %|MB/s",
            "nearline-20tb, 80/s: idle, 64 KiB after 20 ms|193.76|+2117.10|+2217.27|714.7|+2835.32|233.0",
        ),
        figure("Rivals", Axis::new("mean response above that of the drive alone (%)"), rivals()),
    ]
}

/// Returns a table like that of the drives compared with traces, with long names.
fn validation() -> Figure {
    let columns =
        "drive|requests|demerit, ms|% of the mean|mean, drive / model, ms|50%, drive / model|90%|99%";
    let row = "Seagate Cheetah 9LP ST39102LW (9 GB, 1997)|10000|0.072|1.7|4.273 / 4.271|11.90 / 11.76|10.61 / 10.66|14.24 / 14.41";
    table("Drives held against traces of real ones", columns, row)
}

fn table(title: &str, columns: &str, row: &str) -> Figure {
    let cells = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
    figure(title, Axis::default(), Kind::Table { columns: cells(columns), rows: vec![cells(row); 3] })
}

/// Returns the page of all experiments, with the claims of the last runs and figures with long labels.
fn page() -> String {
    let ledger = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/claims.json");
    let ledger = Ledger::from_json(&std::fs::read_to_string(ledger).unwrap()).unwrap();
    let figures = outcomes();
    let outcomes: Vec<Outcome> = experiments()
        .iter()
        .enumerate()
        .map(|(n, experiment)| Outcome {
            claims: ledger.claims(experiment.id).to_vec(),
            figures: figures.iter().skip(n).take(1).cloned().collect(),
            notes: Vec::new(),
        })
        .collect();
    let entries = experiments()
        .iter()
        .zip(&outcomes)
        .map(|(experiment, outcome)| Entry {
            experiment,
            command: "freeblock lab run --quick --seed 42",
            outcome,
        })
        .collect();
    html(&Page {
        version: "0.1.0",
        command: "freeblock lab report --quick --seed 42",
        entries,
        tables: vec![validation()],
    })
    .unwrap()
}

/// Returns what [`LOOK`] finds in a window of this width.
fn looked(chromium: &Path, directory: &Path, page: &str, width: u32) -> String {
    let file = directory.join("page.html");
    std::fs::write(&file, page.replace("</body>", &format!("{LOOK}</body>"))).unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom"])
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let text = dom.split_once("<pre id=\"looked\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    text.map(|(text, _)| text.to_owned())
        .unwrap_or_else(|| panic!("{dom}\n{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn nothing_of_the_page_overflows_and_every_text_is_legible() {
    if !testing::needs_program("chromium") {
        return;
    }
    let chromium = testing::program("chromium").unwrap();
    let directory: PathBuf = std::env::temp_dir().join(format!("freeblock-page-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let page = page();
    for width in [1_000, 1_600] {
        let text = looked(&chromium, &directory, &page, width);
        let (seen, found) = text.split_once('\n').unwrap();
        let seen: Vec<u32> = seen.split(' ').map(|number| number.parse().unwrap()).collect();
        assert_eq!(seen[0], width);
        assert!(seen[1] > 80 && seen[2] > 60, "the page is there: {seen:?}");
        assert_eq!(found.trim(), "", "at {width} pixels");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn distributions_that_are_equal_have_rows_of_their_own() {
    let line = |label: &str| Line::new(label, [(-1.0, 0.1), (0.0, 99.0), (1.0, 0.1)]);
    let of = |kind| figure("Errors", Axis::new("ms"), kind);
    let lines = || vec![line("a"), line("b")];
    let curves = |kind| {
        let text = svg(&of(kind)).unwrap().unwrap();
        // A curve is a polyline that does not have the colour of the axes.
        let drawn = text.lines().filter(|line| line.contains("<polyline") && !line.contains("#222222"));
        let points =
            drawn.filter_map(|line| line.split_once("points=\"")).map(|(_, points)| points.to_owned());
        points.collect::<Vec<String>>()
    };
    let rows = curves(Kind::Distributions(lines()));
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_ne!(rows[0], rows[1]);
    let on_each_other = curves(Kind::Lines(lines()));
    assert!(on_each_other.iter().any(|of| on_each_other.iter().filter(|other| *other == of).count() > 1));
}

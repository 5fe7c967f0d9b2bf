//! The HTML report in a real browser: every number against result.json, no script error, no request,
//! no overlap, on a screen and on a phone, light and dark. `make report-check` runs it; `cargo test`
//! does not, since it needs Chromium and asserts a time.
#![expect(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

#[path = "../suite/synthetic.rs"]
mod synthetic;

mod browser;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ackmark::report::html::{self, Source};
use ackmark::report::numbers;
use ackmark::results::folder;
use ackmark::results::schema::RunResult;
use serde_json::Value;

use browser::{Page, Scheme};

/// From the request for the page to its second frame.
const RENDERED_WITHIN: Duration = Duration::from_secs(2);

/// WCAG AA for text.
const CONTRAST_MIN: f64 = 4.5;

/// Narrow phone, and a desktop.
const WIDTHS: [u32; 2] = [360, 1280];

struct Written {
    result: RunResult,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

fn written(result: RunResult) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    fs::write(&file, html::render(&[Source { name: "result.json", result: &result }])).unwrap();
    Written { result, file, _folder: folder }
}

fn large() -> Written {
    written(synthetic::cells_200())
}

fn real() -> Written {
    let baseline = Path::new("results/baselines/epyc-2cpu-virtio-ext4/default");
    written(folder::load(baseline).unwrap())
}

/// Pointer, stored number, shown text of every figure in the document.
const FIGURES: &str = "[...document.querySelectorAll('[data-of]')].map(e => \
    [e.closest('[data-at]').dataset.at + '/' + e.dataset.of, e.dataset.value, e.textContent])";

#[test]
fn every_number_is_that_of_the_result() {
    for written in [large(), real()] {
        let json = serde_json::to_value(&written.result).unwrap();
        let mut page = Page::open(&written.file, 1280, Scheme::Light);
        let figures = page.evaluate(FIGURES);
        let figures = figures.as_array().unwrap();
        assert!(figures.len() >= 30 * written.result.cells.len(), "{}", figures.len());
        for figure in figures {
            let [pointer, value, text] = [0, 1, 2].map(|index| figure[index].as_str().unwrap());
            let stored = json.pointer(pointer).and_then(Value::as_f64);
            assert_eq!(stored, value.parse().ok(), "{pointer}");
            let shown = text.replace('\u{a0}', " ").replace('µ', "u");
            let expected = expected(pointer, stored.unwrap());
            assert!(shown.contains(&expected), "{pointer}: {stored:?} is shown as {shown}");
        }
    }
}

/// What a reader should see for the number at `pointer`.
fn expected(pointer: &str, stored: f64) -> String {
    let key = pointer.rsplit('/').next().unwrap();
    let latency = pointer.contains("percentiles_ns") || pointer.contains("mean_ns");
    match key {
        _ if latency || key.ends_with("_ns") => numbers::latency(stored as u64),
        "asked_per_s" | "achieved_per_s" => numbers::count(stored),
        "ratio" | "acknowledged_p50_to_page_cache" => format!("{stored:.2}"),
        "steal_percent" => format!("{stored:.1} %"),
        "at_us" => format!("{:.3}", stored / 1e6),
        _ => format!("{stored}"),
    }
}

#[test]
fn two_hundred_cells_render_in_time_and_in_silence() {
    let written = large();
    let began = Instant::now();
    let mut page = Page::open(&written.file, 1280, Scheme::Light);
    let rendered = page.rendered_in();
    println!(
        "200 cells, {} bytes: rendered in {rendered:?} (with the browser's start {:?})",
        fs::metadata(&written.file).unwrap().len(),
        began.elapsed()
    );
    assert!(rendered < RENDERED_WITHIN, "{rendered:?}");
    // Unfolding everything is the worst a reader can do.
    page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)");
    page.evaluate("document.body.getBoundingClientRect().height");
    assert_eq!(page.complaints(), Vec::<String>::new());
    let own = format!("file://{}", written.file.display());
    let foreign: Vec<&String> =
        page.requests().iter().filter(|url| **url != own && !url.starts_with("data:")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

/// Label boxes of each plot that overlap, and everything that sticks out of the window.
const OVERLAPS: &str = "(() => { const bad = []; \
    document.querySelectorAll('details').forEach(e => e.open = true); \
    for (const plot of document.querySelectorAll('.plot')) { \
      for (const kind of ['.x', '.y', '.flag']) { \
        const boxes = [...plot.querySelectorAll(kind)].map(e => [e.textContent, e.getBoundingClientRect()]); \
        boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => { \
          if (p.left < q.right && q.left < p.right && p.top < q.bottom && q.top < p.bottom) \
            bad.push(a + ' and ' + b); })); \
        boxes.forEach(([a, p]) => { if (p.left < 0 || p.right > innerWidth) bad.push(a + ' is cut'); }); \
      } } \
    if (document.documentElement.scrollWidth > innerWidth) \
      bad.push('the page is ' + document.documentElement.scrollWidth + ' wide'); \
    return bad; })()";

#[test]
fn nothing_overlaps_or_sticks_out_on_phone_and_desktop() {
    for written in [real(), written(synthetic::with_events())] {
        for width in WIDTHS {
            let mut page = Page::open(&written.file, width, Scheme::Light);
            assert_eq!(page.evaluate(OVERLAPS), Value::Array(Vec::new()), "at {width} px");
        }
    }
}

/// Texts whose contrast with what lies behind them is below the bar.
const FAINT: &str = "(() => { const bad = new Set(); \
    const rgb = text => text.match(/[\\d.]+/g).map(Number); \
    const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map(v => { v /= 255; \
      return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); \
      return 0.2126 * x + 0.7152 * y + 0.0722 * z; }; \
    const behind = e => { for (; e; e = e.parentElement) { \
      const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } \
      return [255, 255, 255]; }; \
    document.querySelectorAll('details').forEach(e => e.open = true); \
    for (const e of document.querySelectorAll('body *')) { \
      if (![...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim())) continue; \
      const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))]; \
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); \
      if (ratio < BAR) bad.add(e.className + ' ' + e.tagName + ' ' + ratio.toFixed(2)); } \
    return [...bad]; })()";

#[test]
fn text_stands_out_in_light_and_dark() {
    let written = written(synthetic::with_events());
    let mut papers = Vec::new();
    for scheme in [Scheme::Light, Scheme::Dark] {
        let mut page = Page::open(&written.file, 1280, scheme);
        let faint = page.evaluate(&FAINT.replace("BAR", &CONTRAST_MIN.to_string()));
        assert_eq!(faint, Value::Array(Vec::new()), "{scheme:?}");
        papers.push(page.evaluate("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(papers[0], papers[1], "dark is another colour");
}

#[test]
fn a_keyboard_reaches_and_unfolds() {
    let written = real();
    let mut page = Page::open(&written.file, 1280, Scheme::Light);
    page.press("Tab");
    assert_eq!(page.evaluate("document.activeElement.className"), "skip");
    let open = "document.querySelector('.cell').open";
    assert_eq!(page.evaluate(open), false);
    page.evaluate("document.querySelector('.cell summary').focus()");
    page.press("Enter");
    assert_eq!(page.evaluate(open), true);
    let unreachable =
        "[...document.querySelectorAll('.scroll, pre')].filter(e => e.tabIndex != 0).length";
    assert_eq!(page.evaluate(unreachable), 0, "what scrolls can be focused");
}

/// `REPORT_SHOTS=FOLDER make report-check` leaves pictures to look at.
#[test]
fn pictures_on_request() {
    let Some(folder) = std::env::var_os("REPORT_SHOTS") else { return };
    let folder = PathBuf::from(folder);
    fs::create_dir_all(&folder).unwrap();
    let extra =
        std::env::var_os("REPORT_RESULT").map(|path| folder::load(Path::new(&path)).unwrap());
    let pages = [
        ("real", written(extra.unwrap_or_else(|| real().result))),
        ("large", large()),
        ("events", written(synthetic::with_events())),
    ];
    for (name, written) in &pages {
        fs::copy(&written.file, folder.join(format!("{name}.html"))).unwrap();
        for (width, scheme) in [(1280, Scheme::Light), (360, Scheme::Light), (1280, Scheme::Dark)] {
            let mut page = Page::open(&written.file, width, scheme);
            if *name == "events" {
                page.evaluate(
                    "document.querySelectorAll('.cell').forEach((e, i) => e.open = i < 2)",
                );
            }
            for (tile, picture) in page.screenshots().into_iter().enumerate() {
                let file = format!("{name}-{width}-{scheme:?}-{tile}.png");
                fs::write(folder.join(file), picture).unwrap();
            }
        }
    }
}

use super::*;

fn side(iops: f64, p99_ns: u64) -> Side {
    Side { iops, p50_ns: 100_000, p99_ns: Some(p99_ns) }
}

fn bench(iops_ratio: f64, p99_ratio: Option<f64>) -> BenchFloor {
    let cell = BenchCell {
        mode: DurabilityMode::DirectDsync,
        write_bytes: 4096,
        route: CommitRoute::AsyncDsync,
        uring: side(9_500.0, 125_000),
        fio: side(10_000.0, 100_000),
        glommio: Some(side(8_000.0, 200_000)),
        iops_ratio,
        p99_ratio,
    };
    BenchFloor {
        cells: vec![cell],
        pairs: 5,
        fio_version: "fio-3.33".to_owned(),
        contamination: HostSample::sample().since(&HostSample::sample()),
    }
}

#[test]
fn the_verdict_is_the_last_line_and_names_what_falls_short() {
    let last = |bench: &BenchFloor| render(bench).lines().last().unwrap().to_owned();
    assert_eq!(last(&bench(0.95, Some(1.25))), "floor: PASS");
    assert_eq!(
        last(&bench(0.94, Some(1.26))),
        "floor: SHORT (direct-dsync 4 KiB by async-dsync: IOPS 0.94x, at least 0.95x; \
         direct-dsync 4 KiB by async-dsync: p99 1.26x, at most 1.25x)"
    );
    assert_eq!(
        last(&bench(1.0, None)),
        "floor: SHORT (direct-dsync 4 KiB by async-dsync: too few writes for a p99)"
    );
    let text = render(&bench(1.0, Some(1.0)));
    assert!(text.contains("async-dsync"), "{text}");
    assert!(text.contains("0.80"), "glommio's ratio stands without a bar: {text}");
}

#[test]
fn the_better_of_two_routes_counts() {
    let mut both = bench(0.5, None);
    let inline = BenchCell { route: CommitRoute::Inline, ..bench(1.0, Some(1.0)).cells[0] };
    both.cells.push(inline);
    assert_eq!(both.shortfalls(), Vec::<String>::new());
    both.cells[1].write_bytes = 65_536;
    assert_eq!(both.shortfalls().len(), 2, "another length is no rival");
}

#[test]
fn medians_of_even_and_odd_numbers() {
    assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    assert_eq!(median([4.0, 1.0].into_iter()), 2.5);
}

#[test]
fn the_log_writer_measures_a_buffered_log_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for engine in [EngineKind::Uring, EngineKind::Glommio] {
        for mode in [DurabilityMode::PageCache, DurabilityMode::Direct] {
            if mode.is_direct() && direct_io(directory.path()).is_err() {
                println!("skipped: no O_DIRECT in {}", directory.path().display());
                continue;
            }
            let milliseconds = if mode.is_direct() { 200 } else { 10 };
            let job = writer::Job {
                folder: &directory.path().join("log"),
                engine,
                mode,
                route: default_route(mode),
                write_bytes: 4096,
                pass_bytes: 8 << 20,
                duration: Duration::from_millis(milliseconds),
            };
            let side = writer::measure(&job).unwrap();
            assert!(side.iops > 0.0 && side.p50_ns > 0, "{engine:?} {mode}: {side:?}");
            assert!(side.p99_ns.is_none_or(|p99_ns| p99_ns >= side.p50_ns), "{side:?}");
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }
}

#[test]
fn nothing_to_compare_is_refused() {
    let error = run(Path::new("."), 0).unwrap_err();
    assert!(error.to_string().starts_with("pairs = 0: "), "{error}");
}

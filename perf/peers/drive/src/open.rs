//! The open loop: see `perf/load/open.go`, whose rules these are.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::corpus::{File, Kind, Op};
use crate::{BATCH, Metrics, Peer, latencies};

const VALID_BY: f64 = 1.01;
const KEPT_BY: f64 = 1.10;
const WARMUP: usize = 128;

#[derive(Default)]
struct Lane {
    deadlines: Vec<u64>,
    issued: AtomicUsize,
    closed: AtomicBool,
    server: OnceLock<Thread>,
    parked: AtomicBool,
}

const TRIES: usize = 20;
const TICK: u64 = 150_000;

impl Lane {
    /// Waits until operation i is issued, or the end; how many are issued.
    fn next(&self, i: usize) -> usize {
        let mut tries = 0;
        loop {
            let n = self.issued.load(Ordering::SeqCst);
            if n > i {
                return n;
            }
            if self.closed.load(Ordering::SeqCst) && self.issued.load(Ordering::SeqCst) <= i {
                return i;
            }
            tries += 1;
            if tries <= TRIES {
                thread::yield_now();
                continue;
            }
            self.server.get_or_init(thread::current);
            self.parked.store(true, Ordering::SeqCst);
            if self.issued.load(Ordering::SeqCst) <= i && !self.closed.load(Ordering::SeqCst) {
                thread::park();
            }
            self.parked.store(false, Ordering::SeqCst);
        }
    }

    fn issue(&self, n: usize) {
        self.issued.store(n, Ordering::SeqCst);
        self.rouse();
    }

    fn end(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.rouse();
    }

    fn rouse(&self) {
        if self.parked.load(Ordering::SeqCst) && let Some(server) = self.server.get() {
            server.unpark();
        }
    }
}

pub fn run<P: Peer>(file: &File, ops: &[Op], window: Duration) -> Metrics {
    let (mut writer, mut reader) = P::new(&file.header);
    let scale = window.as_nanos() as f64 / file.totals.nanos.max(1) as f64;
    let (mut asks, mut tells) = (Lane::default(), Lane::default());
    let (mut queries, mut events) = (Vec::new(), Vec::new());
    for op in ops {
        let due = (op.nanos as f64 * scale) as u64;
        if op.kind == Kind::Query {
            queries.push(P::query(op));
            asks.deadlines.push(due);
        } else {
            events.push(P::event(op));
            tells.deadlines.push(due);
        }
    }
    for q in queries.iter().take(WARMUP) {
        P::find(&mut reader, q);
    }
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    let (asks, tells) = (&asks, &tells);
    let spins = thread::available_parallelism().is_ok_and(|n| n.get() > 3);
    let (issued, asked, told, service, sojourn, visible) = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (mut service, mut sojourn, mut last) = (Vec::new(), Vec::new(), 0);
            for (i, q) in queries.iter().enumerate() {
                if asks.next(i) <= i {
                    break;
                }
                let from = now();
                std::hint::black_box(P::find(&mut reader, q));
                last = now();
                service.push(last - from);
                sojourn.push(last.saturating_sub(asks.deadlines[i]));
            }
            (service, sojourn, last)
        });
        let telling = scope.spawn(|| {
            let (mut visible, mut last, mut i) = (Vec::new(), 0, 0);
            loop {
                let to = tells.next(i).min(i + BATCH);
                if to <= i {
                    break;
                }
                P::apply(&mut writer, &mut events[i..to]);
                P::sync(&mut writer);
                last = now();
                for due in &tells.deadlines[i..to] {
                    visible.push(last.saturating_sub(*due));
                }
                i = to;
            }
            (visible, last)
        });
        let (mut a, mut t) = (0, 0);
        while a < asks.deadlines.len() || t < tells.deadlines.len() {
            let query = a < asks.deadlines.len()
                && (t == tells.deadlines.len() || asks.deadlines[a] <= tells.deadlines[t]);
            let (lane, i) = if query { (asks, &mut a) } else { (tells, &mut t) };
            let due = lane.deadlines[*i];
            loop {
                let wait = due.saturating_sub(now());
                if wait == 0 {
                    break;
                }
                if wait > 2 * TICK {
                    thread::sleep(Duration::from_nanos(wait - TICK));
                } else if spins {
                    thread::yield_now();
                } else {
                    thread::sleep(Duration::from_nanos(TICK));
                }
            }
            *i += 1;
            lane.issue(*i);
        }
        let issued = now();
        asks.end();
        tells.end();
        let (service, sojourn, asked) = asking.join().expect("the reader");
        let (visible, told) = telling.join().expect("the writer");
        (issued, asked, told, service, sojourn, visible)
    });
    P::end(writer);
    let window = window.as_nanos() as f64;
    let took = asked.max(told) as f64;
    let mut m = Metrics::from([
        ("window-ms".into(), window / 1e6),
        ("took-ms".into(), took / 1e6),
        ("valid".into(), f64::from(u8::from(issued as f64 <= VALID_BY * window))),
        ("kept-up".into(), f64::from(u8::from(took <= KEPT_BY * window))),
        ("Mblocks/s".into(), file.totals.blocks as f64 / took * 1e3),
        ("ops/s".into(), file.totals.ops as f64 / took * 1e9),
    ]);
    latencies(&mut m, "match", service);
    latencies(&mut m, "answered", sojourn);
    latencies(&mut m, "visible", visible);
    m
}

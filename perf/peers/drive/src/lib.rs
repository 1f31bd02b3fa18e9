//! The program of a driver: it plays a corpus on an index and prints the figures
//! as one line of JSON. `perf/load` does the same in Go; its package comment says
//! what every figure is.

pub mod corpus;
mod heap;
mod open;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use corpus::{Answer, Header, Kind, Op};

/// An index as a driver adapts it. Events and queries are put into the index's
/// own form before any clock starts, and handed over fresh, as a decoder would.
pub trait Peer {
    const NAME: &'static str;
    const ABOUT: &'static str;
    /// Readers may work beside the writer.
    const CONCURRENT: bool;
    /// Events are applied by threads of its own, so a call says nothing about
    /// what an event costs.
    const ASYNC: bool = false;
    /// Factors a corpus may have.
    const FACTORS: u64;
    /// The most holders it takes.
    const HOLDERS: u32;

    type Event: Clone + Send + Sync;
    type Query: Send + Sync;
    type Writer: Send;
    type Reader: Send;

    fn new(header: &Header) -> (Self::Writer, Self::Reader);
    fn event(op: &Op) -> Self::Event;
    fn query(op: &Op) -> Self::Query;
    /// Takes events in, in order. It may return before they can be seen, and may
    /// take what they own.
    fn apply(writer: &mut Self::Writer, events: &mut [Self::Event]);
    /// Returns once everything applied can be seen.
    fn sync(writer: &mut Self::Writer);
    /// Finds the leading blocks every holder has; how many have one at least.
    fn find(reader: &mut Self::Reader, query: &Self::Query) -> usize;
    /// The digest of the last answer.
    fn digest(reader: &Self::Reader) -> u64;
    /// Reads a query, so that it is in the cache.
    fn touch(query: &Self::Query) -> u64;
    /// Ends threads of its own.
    fn end(_writer: Self::Writer) {}
}

type Metrics = BTreeMap<String, f64>;

const STRETCH_OPS: usize = 256;
const STRETCH_WORDS: usize = 1 << 16;
const ENOUGH: f64 = 200e6;
const MOST_PLAYS: usize = 8;
const NEAR: u64 = 64;
const BATCH: usize = 64;

/// One operation in the index's own form.
enum Ready<P: Peer> {
    Event(P::Event),
    Query(P::Query),
}

struct Step<P: Peer> {
    ready: Ready<P>,
    what: &'static str,
    blocks: usize,
    words: usize,
}

fn what(op: &Op) -> &'static str {
    match op.kind {
        Kind::Query => "match",
        Kind::Remove => "remove",
        Kind::Clear => "clear",
        Kind::Store if op.blocks() == 1 => "store-one",
        Kind::Store => ["store", "store-new", "store-known", "store-mixed"][usize::from(op.class)],
    }
}

fn ready<P: Peer>(ops: &[Op]) -> Vec<Step<P>> {
    ops.iter()
        .map(|op| Step {
            ready: if op.kind == Kind::Query { Ready::Query(P::query(op)) } else { Ready::Event(P::event(op)) },
            what: what(op),
            blocks: op.blocks(),
            words: op.words.len(),
        })
        .collect()
}

/// CPU time of all threads of the process, ns.
fn process_cpu() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: t is a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

fn median_of(f: impl Fn() -> f64) -> f64 {
    let mut all: Vec<f64> = (0..199).map(|_| f()).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn clock_cost() -> f64 {
    median_of(|| Instant::now().elapsed().as_nanos() as f64)
}

fn cpu_cost() -> f64 {
    median_of(|| {
        let from = process_cpu();
        process_cpu() - from
    })
}

pub(crate) fn latencies(m: &mut Metrics, name: &str, mut times: Vec<u64>) {
    if times.is_empty() {
        return;
    }
    times.sort_unstable();
    let rank = |q: f64| {
        let i = (q * times.len() as f64).ceil() as usize;
        times[i.clamp(1, times.len()) - 1] as f64
    };
    m.insert(format!("{name}-p50-ns"), rank(0.5));
    m.insert(format!("{name}-p99-ns"), rank(0.99));
    m.insert(format!("{name}-p999-ns"), rank(0.999));
    m.insert(format!("{name}-max-ns"), rank(1.0));
}

#[derive(Default, Clone, Copy)]
struct Tally {
    took: f64,
    blocks: usize,
    calls: usize,
}

impl Tally {
    fn add(&mut self, took: f64, blocks: usize) {
        self.took += took;
        self.blocks += blocks;
        self.calls += 1;
    }
    fn per_block(&self) -> f64 {
        self.took / self.blocks as f64
    }
}

#[derive(Default)]
struct Probe {
    every: usize,
    clock: f64,
    cpu: f64,
    mixed: Tally,
    sums: BTreeMap<&'static str, Tally>,
    all: BTreeMap<&'static str, Tally>,
    matches: Vec<u64>,
    asked: usize,
}

/// Events of a stretch, fresh, in the order of its steps.
fn fresh<P: Peer>(steps: &[Step<P>]) -> Vec<P::Event> {
    steps
        .iter()
        .filter_map(|s| match &s.ready {
            Ready::Event(e) => Some(e.clone()),
            Ready::Query(_) => None,
        })
        .collect()
}

fn touch<P: Peer>(steps: &[Step<P>]) {
    let mut sum = 0u64;
    for s in steps {
        if let Ready::Query(q) = &s.ready {
            sum = sum.wrapping_add(P::touch(q));
        }
    }
    std::hint::black_box(sum);
}

impl Probe {
    fn play<P: Peer>(&mut self, header: &Header, steps: &[Step<P>]) {
        let (mut writer, mut reader) = P::new(header);
        let warm = steps.len() / 2;
        for s in &steps[..warm] {
            match &s.ready {
                Ready::Event(e) => P::apply(&mut writer, &mut [e.clone()]),
                Ready::Query(q) if self.every <= 1 => {
                    P::find(&mut reader, q);
                }
                Ready::Query(_) => {}
            }
        }
        P::sync(&mut writer);
        let mut rest = &steps[warm..];
        let mut timed = false;
        while !rest.is_empty() {
            let mut n = 0;
            let mut words = 0;
            while n < rest.len() && (n == 0 || n < STRETCH_OPS && words + rest[n].words <= STRETCH_WORDS) {
                words += rest[n].words;
                n += 1;
            }
            let (now, later) = rest.split_at(n);
            let mut events = fresh(now);
            touch(now);
            if timed || self.every > 1 {
                self.each(now, &mut events, &mut writer, &mut reader);
            } else {
                self.whole(now, &mut events, &mut writer, &mut reader);
            }
            timed = !timed;
            rest = later;
        }
        P::end(writer);
    }

    fn whole<P: Peer>(&mut self, steps: &[Step<P>], events: &mut [P::Event], writer: &mut P::Writer, reader: &mut P::Reader) {
        let from = process_cpu();
        let (mut first, mut next) = (0, 0);
        for s in steps {
            match &s.ready {
                Ready::Event(_) => next += 1,
                Ready::Query(q) => {
                    if first < next {
                        P::apply(writer, &mut events[first..next]);
                        first = next;
                    }
                    std::hint::black_box(P::find(reader, q));
                }
            }
        }
        if first < next {
            P::apply(writer, &mut events[first..next]);
        }
        P::sync(writer);
        self.mixed.took += process_cpu() - from - self.cpu;
        self.mixed.blocks += steps.iter().map(|s| s.blocks).sum::<usize>();
    }

    fn each<P: Peer>(&mut self, steps: &[Step<P>], events: &mut [P::Event], writer: &mut P::Writer, reader: &mut P::Reader) {
        let mut next = 0; // event
        for s in steps {
            self.all.entry(s.what).or_default().add(0.0, s.blocks);
            let took = match &s.ready {
                Ready::Query(q) => {
                    self.asked += 1;
                    if self.every > 1 && !self.asked.is_multiple_of(self.every) {
                        continue;
                    }
                    if P::ASYNC {
                        P::sync(writer);
                    }
                    let from = Instant::now();
                    std::hint::black_box(P::find(reader, q));
                    let took = from.elapsed().as_nanos() as u64;
                    self.matches.push(took);
                    took
                }
                Ready::Event(_) if P::ASYNC => {
                    P::apply(writer, &mut events[next..=next]);
                    next += 1;
                    continue;
                }
                Ready::Event(_) => {
                    let from = Instant::now();
                    P::apply(writer, &mut events[next..=next]);
                    P::sync(writer);
                    let took = from.elapsed().as_nanos() as u64;
                    next += 1;
                    took
                }
            };
            if took > 300_000 + 3_000 * s.blocks as u64 && self.every <= 1 {
                continue;
            }
            if s.what != "clear" {
                self.sums.entry(s.what).or_default().add(took as f64 - self.clock, s.blocks);
            }
        }
    }
}

fn closed<P: Peer>(header: &Header, ops: &[Op], every: usize) -> Metrics {
    let steps = ready::<P>(ops);
    let mut p = Probe { every, clock: clock_cost(), cpu: cpu_cost(), ..Default::default() };
    for plays in 0..MOST_PLAYS {
        let sampled: f64 = p.sums.values().map(|t| t.took).sum();
        if plays > 0 && (if every > 1 { sampled } else { p.mixed.took }) >= ENOUGH {
            break;
        }
        p.play(header, &steps);
    }
    let mut m = Metrics::new();
    for (name, t) in &p.sums {
        m.insert(format!("{name}-ns/block"), t.per_block());
    }
    if let Some(t) = p.sums.get("match") {
        m.insert("match-ns".into(), t.took / t.calls as f64);
    }
    let mut mixed = p.mixed.per_block();
    if every > 1 {
        let (mut took, mut blocks) = (0.0, 0);
        for (name, t) in &p.all {
            if let Some(s) = p.sums.get(name) {
                took += s.per_block() * t.blocks as f64;
                blocks += t.blocks;
            }
        }
        mixed = took / blocks as f64;
    }
    latencies(&mut m, "match", p.matches);
    m.insert("mixed-ns/block".into(), mixed);
    m.insert("mixed-Mblocks/s".into(), 1e3 / mixed);
    m
}

fn verify<P: Peer>(header: &Header, ops: &[Op], answers: &[Answer], every: usize) -> Metrics {
    let (mut writer, mut reader) = P::new(header);
    let (mut asked, mut wrong, mut query) = (0, 0, 0);
    for op in ops {
        if op.kind != Kind::Query {
            P::apply(&mut writer, &mut [P::event(op)]);
            continue;
        }
        query += 1;
        if every > 1 && query % every != 0 {
            continue;
        }
        P::sync(&mut writer);
        P::find(&mut reader, &P::query(op));
        asked += 1;
        wrong += usize::from(P::digest(&reader) != answers[query - 1].digest);
    }
    P::end(writer);
    Metrics::from([("answers".into(), asked as f64), ("wrong".into(), wrong as f64)])
}

fn memory<P: Peer>(header: &Header, ops: &[Op], left: u64) -> Metrics {
    // Whatever a driver remembers for its translations is there before.
    ops.iter().filter(|op| op.kind != Kind::Query).for_each(|op| drop(P::event(op)));
    heap::start();
    let (mut writer, reader) = P::new(header);
    for op in ops.iter().filter(|op| op.kind != Kind::Query) {
        P::apply(&mut writer, &mut [P::event(op)]);
    }
    P::sync(&mut writer);
    let used = heap::used();
    drop(reader);
    P::end(writer);
    Metrics::from([("bytes/membership".into(), used as f64 / left as f64)])
}

fn beside<P: Peer>(header: &Header, ops: &[Op], window: Duration) -> Metrics {
    let (mut writer, mut reader) = P::new(header);
    let mut queries = Vec::new();
    let (mut events, mut blocks, mut at) = (Vec::new(), Vec::new(), Vec::new());
    for op in ops {
        if op.kind == Kind::Query {
            queries.push(P::query(op));
        } else {
            events.push(P::event(op));
            blocks.push(op.blocks());
            at.push(queries.len());
        }
    }
    let clears: Vec<P::Event> = (0..header.holders)
        .map(|holder| {
            P::event(&Op { nanos: 0, holder, kind: Kind::Clear, tier: 0, class: 0, parent: None, words: &[] })
        })
        .collect();
    let warm = events.len() / 2;
    for e in &events[..warm] {
        P::apply(&mut writer, &mut [e.clone()]);
    }
    P::sync(&mut writer);

    let place = AtomicUsize::new(warm);
    let stop = AtomicBool::new(false);
    let from = Instant::now();
    let mut times = Vec::with_capacity(1 << 20);
    let (written, took) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut written = 0;
            let mut i = warm;
            while !stop.load(Relaxed) {
                if i == events.len() {
                    i = 0;
                    P::apply(&mut writer, &mut clears.clone());
                }
                let to = (i + BATCH).min(events.len());
                place.store(i, Relaxed);
                P::apply(&mut writer, &mut events[i..to].to_vec());
                P::sync(&mut writer);
                written += blocks[i..to].iter().sum::<usize>();
                i = to;
            }
            written
        });
        let mut random = 1u64;
        while times.is_empty() || from.elapsed() < window && times.len() < times.capacity() {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let q = at[place.load(Relaxed)].saturating_sub(((random >> 33) % NEAR) as usize);
            let query = &queries[q.min(queries.len() - 1)];
            std::hint::black_box(P::touch(query));
            let asked = Instant::now();
            std::hint::black_box(P::find(&mut reader, query));
            times.push(asked.elapsed().as_nanos() as u64);
        }
        let took = from.elapsed().as_secs_f64();
        stop.store(true, Relaxed);
        (writing.join().expect("the writer"), took)
    });
    P::end(writer);
    let mut m = Metrics::from([
        ("written-Mblocks/s".into(), written as f64 / 1e6 / took),
        ("matches/s".into(), times.len() as f64 / took),
    ]);
    latencies(&mut m, "match", times);
    m
}

/// The whole program: arguments are `-mode closed|beside|open|memory|verify`,
/// `-every N`, `-window SECONDS` and the file.
pub fn main<P: Peer>(args: impl Iterator<Item = String>) {
    if let Err(e) = run::<P>(args) {
        eprintln!("{}: {e}", P::NAME);
        std::process::exit(1);
    }
}

fn run<P: Peer>(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let (mut mode, mut every, mut window, mut name) = ("closed".to_owned(), 1, 1.0, None);
    while let Some(a) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{a} wants a value"));
        match a.as_str() {
            "-mode" => mode = value()?,
            "-every" => every = value()?.parse().map_err(|e| format!("-every: {e}"))?,
            "-window" => window = value()?.parse().map_err(|e| format!("-window: {e}"))?,
            _ => name = Some(a),
        }
    }
    let name = name.ok_or("want: [-mode closed|beside|open|memory|verify] [-every N] [-window SECONDS] CORPUS")?;
    let file = corpus::read(&name)?;
    let (ops, answers) = file.ops();
    let header = &file.header;
    let window = Duration::from_secs_f64(window);
    let other = header.factors & !(P::FACTORS | corpus::EQUAL | corpus::HOLES);
    let mut skipped = None;
    let mut metrics = Metrics::new();
    if other != 0 {
        skipped = Some(format!("does not know {}", corpus::names(other)));
    } else if header.holders > P::HOLDERS {
        skipped = Some(format!("takes at most {} holders", P::HOLDERS));
    } else if !P::CONCURRENT && (mode == "beside" || mode == "open") {
        skipped = Some("readers and writer do not work beside each other".to_owned());
    } else {
        metrics = match mode.as_str() {
            "closed" => closed::<P>(header, &ops, every),
            "verify" => verify::<P>(header, &ops, &answers, every),
            "memory" => memory::<P>(header, &ops, file.totals.left),
            "beside" => beside::<P>(header, &ops, window),
            "open" => open::run::<P>(&file, &ops, window),
            other => return Err(format!("mode {other:?}; want closed, beside, open, memory or verify")),
        };
    }
    let list: Vec<String> = metrics.iter().map(|(k, v)| format!("{k:?}:{v}")).collect();
    let skipped = skipped.map_or(String::new(), |s| format!(",\"skipped\":{s:?}"));
    println!(
        "{{\"contestant\":{:?},\"about\":{:?},\"corpus\":{:?},\"checksum\":\"{:016x}\",\"mode\":{mode:?}{skipped},\"metrics\":{{{}}}}}",
        P::NAME,
        P::ABOUT,
        header.name,
        file.totals.checksum,
        list.join(",")
    );
    Ok(())
}

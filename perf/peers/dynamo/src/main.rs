//! A driver for NVIDIA Dynamo's indexers, dynamo-kv-router 1.6.1. `crtc` is
//! ConcurrentRadixTreeCompressed behind ThreadPoolIndexer, its default, with one
//! event thread: there are two processors, and one of them asks. `positional` is
//! PositionalIndexer, called directly.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use drive::Peer;
use drive::corpus::{CLEARS, COPIES, Header, Kind, Op, PRIVATE, digest};
use dynamo_kv_router::indexer::{KvIndexerInterface, SyncIndexer, ThreadPoolIndexer};
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, OverlapScores, RouterEvent, compute_next_seq_hash,
};
use dynamo_kv_router::{ConcurrentRadixTreeCompressed, PositionalIndexer};

/// The jump that Dynamo's documentation gives as an example.
const JUMP: usize = 32;

/// What the positional index has to be told instead of a name: it computes names
/// from contents itself, and finds nothing under others. Translation is done
/// before any clock starts.
static CHAINED: LazyLock<Mutex<HashMap<u64, u64>>> = LazyLock::new(Mutex::default);

/// A store with the names that the positional index computes.
fn chained(op: &Op) -> Vec<u64> {
    let mut names = CHAINED.lock().expect("one thread");
    let mut last = op.parent.map(|p| names[&p]);
    let mut words = Vec::with_capacity(op.words.len());
    for w in op.words.chunks_exact(2) {
        let name = last.map_or(w[1], |p| compute_next_seq_hash(p, LocalBlockHash(w[1])));
        names.insert(w[0], name);
        words.extend([name, w[1]]);
        last = Some(name);
    }
    words
}

fn rename(op: &Op) -> Option<RouterEvent> {
    if op.kind == Kind::Clear {
        return event(op);
    }
    let words = if op.kind == Kind::Store {
        chained(op)
    } else {
        let names = CHAINED.lock().expect("one thread");
        op.words.iter().map(|w| names[w]).collect()
    };
    let parent = op.parent.map(|p| CHAINED.lock().expect("one thread")[&p]);
    event(&Op { words: &words, parent, ..*op })
}

fn event(op: &Op) -> Option<RouterEvent> {
    let data = match op.kind {
        Kind::Store => KvCacheEventData::Stored(KvCacheStoreData {
            parent_hash: op.parent.map(ExternalSequenceBlockHash),
            start_position: None,
            blocks: op
                .words
                .chunks_exact(2)
                .map(|w| KvCacheStoredBlockData {
                    block_hash: ExternalSequenceBlockHash(w[0]),
                    tokens_hash: LocalBlockHash(w[1]),
                    mm_extra_info: None,
                })
                .collect(),
        }),
        Kind::Remove => KvCacheEventData::Removed(KvCacheRemoveData {
            block_hashes: op.words.iter().copied().map(ExternalSequenceBlockHash).collect(),
        }),
        _ => KvCacheEventData::Cleared,
    };
    Some(RouterEvent::new(op.holder.into(), KvCacheEvent { event_id: 0, data, dp_rank: 0 }))
}

fn query(op: &Op) -> Vec<LocalBlockHash> {
    op.words.iter().copied().map(LocalBlockHash).collect()
}

fn touch(query: &[LocalBlockHash]) -> u64 {
    query.iter().fold(0, |a, w| a.wrapping_add(w.0))
}

fn sum(scores: &OverlapScores) -> u64 {
    scores
        .scores
        .iter()
        .filter(|(_, depth)| **depth > 0)
        .fold(0, |sum, (worker, depth)| sum.wrapping_add(digest(worker.worker_id as u32, *depth)))
}

struct Crtc;

struct Pool {
    indexer: Arc<ThreadPoolIndexer<ConcurrentRadixTreeCompressed>>,
    runtime: tokio::runtime::Runtime,
}

struct Reader<T> {
    index: T,
    answer: OverlapScores,
}

impl Peer for Crtc {
    const NAME: &'static str = "dynamo-crtc";
    const ABOUT: &'static str =
        "Dynamo, crate dynamo-kv-router 1.6.1, ThreadPoolIndexer over ConcurrentRadixTreeCompressed, one event thread; lto, mimalloc";
    const CONCURRENT: bool = true;
    const ASYNC: bool = true;
    const FACTORS: u64 = PRIVATE | COPIES | CLEARS;
    const HOLDERS: u32 = u32::MAX;

    type Event = Option<RouterEvent>;
    type Query = Vec<LocalBlockHash>;
    type Writer = Pool;
    type Reader = Reader<Arc<ConcurrentRadixTreeCompressed>>;

    fn new(header: &Header) -> (Self::Writer, Self::Reader) {
        let indexer = Arc::new(ThreadPoolIndexer::new(ConcurrentRadixTreeCompressed::new(), 1, header.unit as u32));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let index = indexer.backend_arc();
        (Pool { indexer, runtime }, Reader { index, answer: OverlapScores::new() })
    }

    fn event(op: &Op) -> Self::Event {
        event(op)
    }

    fn query(op: &Op) -> Self::Query {
        query(op)
    }

    fn apply(w: &mut Pool, events: &mut [Self::Event]) {
        for e in events {
            w.indexer.enqueue_event(e.take().expect("an event is applied once")).expect("the event thread");
        }
    }

    fn sync(w: &mut Pool) {
        w.runtime.block_on(w.indexer.flush_and_wait()).expect("the event thread");
    }

    fn find(r: &mut Self::Reader, query: &Self::Query) -> usize {
        r.answer = r.index.find_matches(query, false);
        r.answer.scores.len()
    }

    fn digest(r: &Self::Reader) -> u64 {
        sum(&r.answer)
    }

    fn touch(query: &Self::Query) -> u64 {
        touch(query)
    }

    fn end(w: Pool) {
        w.indexer.shutdown();
    }
}

struct Positional;

struct Direct {
    index: Arc<PositionalIndexer>,
    apply: Box<dyn FnMut(RouterEvent) + Send>,
}

impl Peer for Positional {
    const NAME: &'static str = "dynamo-positional";
    const ABOUT: &'static str = "Dynamo, crate dynamo-kv-router 1.6.1, PositionalIndexer, jump 32, called directly, with the names it computes itself; lto, mimalloc";
    const CONCURRENT: bool = true;
    const FACTORS: u64 = COPIES | CLEARS;
    const HOLDERS: u32 = u32::MAX;

    type Event = Option<RouterEvent>;
    type Query = Vec<LocalBlockHash>;
    type Writer = Direct;
    type Reader = Reader<Arc<PositionalIndexer>>;

    fn new(_: &Header) -> (Self::Writer, Self::Reader) {
        let index = Arc::new(PositionalIndexer::new(JUMP));
        let own = index.clone();
        let mut blocks = rustc_hash::FxHashMap::default();
        let apply = Box::new(move |e| {
            // A refused event shows as a wrong answer.
            let _ = own.apply_event(&mut blocks, e, None);
        });
        (Direct { index: index.clone(), apply }, Reader { index, answer: OverlapScores::new() })
    }

    fn event(op: &Op) -> Self::Event {
        rename(op)
    }

    fn query(op: &Op) -> Self::Query {
        query(op)
    }

    fn apply(w: &mut Direct, events: &mut [Self::Event]) {
        for e in events {
            (w.apply)(e.take().expect("an event is applied once"));
        }
    }

    fn sync(w: &mut Direct) {
        std::hint::black_box(&w.index);
    }

    fn find(r: &mut Self::Reader, query: &Self::Query) -> usize {
        r.answer = r.index.find_matches(query, false);
        r.answer.scores.len()
    }

    fn digest(r: &Self::Reader) -> u64 {
        sum(&r.answer)
    }

    fn touch(query: &Self::Query) -> u64 {
        touch(query)
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("crtc") => drive::main::<Crtc>(args),
        Some("positional") => drive::main::<Positional>(args),
        _ => {
            eprintln!("dynamo-driver: want crtc or positional, then the arguments of a driver");
            std::process::exit(2);
        }
    }
}

//! A driver for SMG's radix tree, smg-radix-tree 0.1.0: RadixTree, which one
//! thread both writes and reads.

use std::cell::RefCell;
use std::rc::Rc;

use drive::Peer;
use drive::corpus::{CLEARS, COPIES, Header, Kind, Op, PRIVATE, digest};
use radix_tree::{Config, HolderId, Overlap, OverlapScratch, RadixTree};

struct Radix;

#[derive(Clone)]
enum Event {
    Store(u32, Option<u64>, Vec<(u64, u64)>),
    Remove(u32, Vec<u64>),
    Clear(u32),
}

/// The tree and its holders. Writer and reader are on one thread, as CONCURRENT
/// says, and never at work together.
struct Shared(Rc<RefCell<RadixTree>>);

// SAFETY: the driver moves a reader or writer to another thread only for peers
// that are concurrent.
unsafe impl Send for Shared {}

struct Writer {
    tree: Shared,
    holders: Vec<HolderId>,
}

struct Reader {
    tree: Shared,
    /// By the index of a holder's id: the holder.
    holders: Vec<u32>,
    scratch: OverlapScratch,
    answer: Vec<Overlap>,
}

impl Peer for Radix {
    const NAME: &'static str = "smg-radix-tree";
    const ABOUT: &'static str = "SMG, crate smg-radix-tree 0.1.0, RadixTree; lto, mimalloc";
    const CONCURRENT: bool = false;
    const FACTORS: u64 = PRIVATE | COPIES | CLEARS;
    const HOLDERS: u32 = u32::MAX;

    type Event = Event;
    type Query = Vec<u64>;
    type Writer = Writer;
    type Reader = Reader;

    fn new(header: &Header) -> (Writer, Reader) {
        let mut tree = RadixTree::new(Config::default());
        let ids: Vec<HolderId> = (0..header.holders).map(|h| tree.create_holder(&h.to_string())).collect();
        let mut holders = vec![0; ids.len()];
        for (h, id) in ids.iter().enumerate() {
            holders[id.parts().0 as usize] = h as u32;
        }
        let tree = Rc::new(RefCell::new(tree));
        let reader =
            Reader { tree: Shared(tree.clone()), holders, scratch: OverlapScratch::default(), answer: Vec::new() };
        (Writer { tree: Shared(tree), holders: ids }, reader)
    }

    fn event(op: &Op) -> Event {
        match op.kind {
            Kind::Store => {
                Event::Store(op.holder, op.parent, op.words.chunks_exact(2).map(|w| (w[0], w[1])).collect())
            }
            Kind::Remove => Event::Remove(op.holder, op.words.to_vec()),
            _ => Event::Clear(op.holder),
        }
    }

    fn query(op: &Op) -> Vec<u64> {
        op.words.to_vec()
    }

    fn apply(w: &mut Writer, events: &mut [Event]) {
        let mut tree = w.tree.0.borrow_mut();
        for e in events {
            match e {
                Event::Store(holder, parent, blocks) => {
                    // A refused event shows as a wrong answer.
                    let _ = tree.store(w.holders[*holder as usize], *parent, blocks);
                }
                Event::Remove(holder, names) => {
                    tree.remove(w.holders[*holder as usize], names);
                }
                Event::Clear(holder) => {
                    tree.clear(w.holders[*holder as usize]);
                }
            }
        }
    }

    fn sync(_: &mut Writer) {}

    fn find(r: &mut Reader, query: &Vec<u64>) -> usize {
        r.answer.clear();
        r.tree.0.borrow().overlap(query, &mut r.scratch, &mut r.answer);
        r.answer.len()
    }

    fn digest(r: &Reader) -> u64 {
        r.answer
            .iter()
            .filter(|a| a.depth > 0)
            .fold(0, |sum, a| sum.wrapping_add(digest(r.holders[a.holder.parts().0 as usize], a.depth)))
    }

    fn touch(query: &Vec<u64>) -> u64 {
        query.iter().fold(0, |a, w| a.wrapping_add(*w))
    }
}

fn main() {
    drive::main::<Radix>(std::env::args().skip(1));
}

//! An allocator that can tell how much is in use, slack of its size classes
//! included, as the heap figure of Go does. It counts only while it is told to.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use mimalloc::MiMalloc;

struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static USED: AtomicI64 = AtomicI64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(pointer: *mut u8, sign: i64) {
    if COUNTS.load(Relaxed) && !pointer.is_null() {
        // SAFETY: the pointer is one of the allocator's own, not yet freed.
        USED.fetch_add(sign * unsafe { MiMalloc.usable_size(pointer) } as i64, Relaxed);
    }
}

// SAFETY: every call is handed on to mimalloc as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let p = unsafe { MiMalloc.alloc(layout) };
        count(p, 1);
        p
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let p = unsafe { MiMalloc.alloc_zeroed(layout) };
        count(p, 1);
        p
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(pointer, -1);
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(pointer, -1);
        let p = unsafe { MiMalloc.realloc(pointer, layout, size) };
        count(p, 1);
        p
    }
}

/// Starts counting from zero.
pub fn start() {
    USED.store(0, Relaxed);
    COUNTS.store(true, Relaxed);
}

/// Bytes in use since start.
pub fn used() -> i64 {
    USED.load(Relaxed)
}

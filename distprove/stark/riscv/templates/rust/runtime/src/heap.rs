//! A heap that takes memory back. Blocks have a power of two of bytes, and lie at a multiple of the smaller of their size
//! and `PAGE`. Each size has a list of free blocks; without one, a block comes from the end of the used memory. Both
//! operations take constant time, and blocks are never joined or split.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{addr_of, null_mut};

const LEAST: usize = 16;
const PAGE: usize = 4096;
const CLASSES: usize = 32;

extern "C" {
    static __heap_start: u8;
    static __heap_end: u8;
}

struct State {
    /// First free address behind all blocks; 0 before the first.
    end: usize,
    /// Address of the first free block of 2^k bytes, whose first word has that of the next.
    free: [usize; CLASSES],
}

struct Heap(UnsafeCell<State>);

unsafe impl Sync for Heap {} // a guest has one thread

/// Bytes of the block for a layout; None above 2^30, or for an alignment above a page.
fn block(layout: &Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(LEAST);
    (size <= 1 << 30 && layout.align() <= PAGE).then(|| size.next_power_of_two())
}

unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(size) = block(&layout) else {
            return null_mut();
        };
        let state = &mut *self.0.get();
        let class = size.trailing_zeros() as usize;
        let found = state.free[class];
        if found != 0 {
            state.free[class] = *(found as *const usize);
            return found as *mut u8;
        }
        let align = size.min(PAGE);
        let start = (state.end.max(addr_of!(__heap_start) as usize) + align - 1) & !(align - 1);
        if size > (addr_of!(__heap_end) as usize).saturating_sub(start) {
            return null_mut();
        }
        state.end = start + size;
        start as *mut u8
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let Some(size) = block(&layout) else {
            return;
        };
        let first = &mut (*self.0.get()).free[size.trailing_zeros() as usize];
        *(pointer as *mut usize) = *first;
        *first = pointer as usize;
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let wanted = Layout::from_size_align_unchecked(size, layout.align());
        if block(&wanted) == block(&layout) {
            return pointer;
        }
        let moved = self.alloc(wanted);
        if !moved.is_null() {
            core::ptr::copy_nonoverlapping(pointer, moved, size.min(layout.size()));
            self.dealloc(pointer, layout);
        }
        moved
    }
}

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new(State { end: 0, free: [0; CLASSES] }));

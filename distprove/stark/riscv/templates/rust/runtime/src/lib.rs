//! The runtime of a guest: start-up code, a heap, typed input and output, and a debug stream.
#![no_std]

extern crate alloc;

mod debug;
mod guest;
mod hash;
mod heap;
mod values;

pub use debug::debug_print;
pub use guest::*;
pub use hash::{keccak256, sha256};
pub use values::{commit, read, read_public_value, write_bytes};

/// Names the function with which the guest starts: `entry!(main)`. It takes nothing and returns nothing; `exit` ends the
/// guest with another exit code than 0.
#[macro_export]
macro_rules! entry {
    ($start:path) => {
        #[export_name = "main"]
        extern "C" fn distprove_start() -> u32 {
            $start();
            0
        }
    };
}

//! The debug stream: a ring in memory that `distprove run` finds by its symbol and prints. It is neither input nor output,
//! so no statement and no proof has it. A panic writes its message there, and exits with code 254.

use core::cell::UnsafeCell;
use core::fmt::{self, Write};

const SIZE: usize = 1 << 16;

/// `written` counts all bytes modulo 2^32; byte k lies at k modulo `SIZE`.
#[repr(C)]
pub struct Ring {
    written: u32,
    bytes: [u8; SIZE],
}

#[repr(transparent)]
pub struct Shared(UnsafeCell<Ring>);

unsafe impl Sync for Shared {} // a guest has one thread

#[export_name = "__guest_debug"]
#[used]
static RING: Shared = Shared(UnsafeCell::new(Ring { written: 0, bytes: [0; SIZE] }));

struct Stream;

impl Write for Stream {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let ring = unsafe { &mut *RING.0.get() };
        for byte in text.bytes() {
            ring.bytes[ring.written as usize % SIZE] = byte;
            ring.written = ring.written.wrapping_add(1);
        }
        Ok(())
    }
}

#[doc(hidden)]
pub fn debug_print(arguments: fmt::Arguments) {
    let _ = Stream.write_fmt(arguments);
}

/// Prints to the debug stream.
#[macro_export]
macro_rules! print {
    ($($part:tt)*) => { $crate::debug_print(format_args!($($part)*)) };
}

/// Prints a line to the debug stream.
#[macro_export]
macro_rules! println {
    () => { $crate::debug_print(format_args!("\n")) };
    ($($part:tt)*) => { $crate::debug_print(format_args!("{}\n", format_args!($($part)*))) };
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    println!("{info}");
    crate::guest::exit(254)
}

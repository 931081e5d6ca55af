// Host calls of the machine, for guests in Rust without std: docs/riscv.md, "Host calls". A guest has
//
//     #![no_std]
//     #![no_main]
//     #[path = ".../guest.rs"]
//     mod guest;
//     #[no_mangle]
//     extern "C" fn main() -> u32 { ... }
//
// and is linked with start.S and guest.ld. A panic exits with code 254. Memory is never given back: see `Heap`.
// A project of `distprove new guest` has another heap and another panic handler, by its feature `project`.
#![allow(dead_code)]

extern crate alloc;

use alloc::vec::Vec;
#[cfg(not(feature = "project"))]
use core::alloc::{GlobalAlloc, Layout};
use core::arch::{asm, global_asm};
#[cfg(not(feature = "project"))]
use core::cell::UnsafeCell;

global_asm!(".set .Lxlen, {bits}", include_str!("start.S"), bits = const usize::BITS);

const EXIT: u32 = 1;
const WRITE: u32 = 2;
const READ_PRIVATE: u32 = 3;
const READ_PUBLIC: u32 = 4;
const CYCLES: u32 = 5;
const KECCAK_F: u32 = 6;
const SHA256_BLOCK: u32 = 7;
const SHA256_EXTEND: u32 = 8;
const SHA256_COMPRESS: u32 = 9;
const MULTIPLY_MODULO: u32 = 10;
const MULTIPLY_ADD_MODULO: u32 = 11;
const MULTIPLY_MODULO_384: u32 = 12;
const MULTIPLY_ADD_MODULO_384: u32 = 13;
const SECP256K1_ADD: u32 = 14;
const SECP256R1_ADD: u32 = 16;
const BN254_ADD: u32 = 18;
const BLS12_381_ADD: u32 = 20;
const ED25519_ADD: u32 = 22;

fn call(number: u32, argument: u32) -> u32 {
    let result;
    unsafe { asm!("ecall", in("a7") number as usize, inlateout("a0") argument => result) };
    result
}

pub fn exit(code: u32) -> ! {
    call(EXIT, code);
    loop {}
}

pub fn write_word(word: u32) {
    call(WRITE, word);
}

/// Cycles of the run so far, modulo 2^32.
pub fn cycle_count() -> u32 {
    call(CYCLES, 0)
}

/// The address of an operand of a host call, which has 32 bits in a guest of RV64IM, too. Panics if it has more.
fn address<T>(operand: *const T) -> u32 {
    let address = operand as usize;
    assert!(address as u64 >> 32 == 0, "the operands of host calls lie below 2^32");
    address as u32
}

/// Permute a state by Keccak-f[1600]: lane x + 5 y is state[x + 5 y].
pub fn keccak_f(state: &mut [u64; 25]) {
    unsafe { asm!("ecall", in("a7") KECCAK_F as usize, inlateout("a0") address(state) as usize => _) };
}

/// The calls from 7 on are answered only to programs with an instruction that loads their number, `li a7, NUMBER`.
fn compute<const NUMBER: u32, T>(on: *mut T) {
    unsafe { asm!("li a7, {number}", "ecall", number = const NUMBER, inout("a0") address(on) as usize => _, out("a7") _) };
}

/// A state of SHA-256.
#[repr(C)]
pub struct Sha256 {
    message: u32,
    pub state: [u32; 8],
}

impl Sha256 {
    pub const fn new() -> Self {
        let state = [
            0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
        ];
        Sha256 { message: 0, state }
    }

    /// Compress a block of 64 bytes, four in each word as they lie in memory.
    pub fn block(&mut self, block: &[u32; 16]) {
        self.message = address(block);
        compute::<SHA256_BLOCK, _>(self);
    }

    /// Compress a message schedule of 64 words.
    pub fn compress(&mut self, schedule: &[u32; 64]) {
        self.message = address(schedule);
        compute::<SHA256_COMPRESS, _>(self);
    }
}

/// Make words 16 to 63 of a message schedule of SHA-256 from the first 16.
pub fn sha256_extend(schedule: &mut [u32; 64]) {
    compute::<SHA256_EXTEND, _>(schedule);
}

/// Products modulo a number of N words, the lowest first: 8 or 12, for 256 or 384 bits. 0 stands for 2^256 or 2^384.
#[repr(C)]
pub struct Modulus<const N: usize> {
    result: u32,
    x: u32,
    y: u32,
    addend: u32,
    modulus: [u32; N],
}

impl<const N: usize> Modulus<N> {
    pub const fn new(modulus: [u32; N]) -> Self {
        const { assert!(N == 8 || N == 12) };
        Modulus { result: 0, x: 0, y: 0, addend: 0, modulus }
    }

    /// x y modulo the modulus, and so below it. x or y must be below the modulus.
    pub fn multiply(&mut self, x: &[u32; N], y: &[u32; N]) -> [u32; N] {
        let mut result = [0; N];
        (self.result, self.x, self.y) = (address(&raw mut result), address(x), address(y));
        if N == 8 {
            compute::<MULTIPLY_MODULO, _>(self);
        } else {
            compute::<MULTIPLY_MODULO_384, _>(self);
        }
        result
    }

    /// x y + addend modulo the modulus, as `multiply`.
    pub fn multiply_add(&mut self, x: &[u32; N], y: &[u32; N], addend: &[u32; N]) -> [u32; N] {
        let mut result = [0; N];
        (self.result, self.x) = (address(&raw mut result), address(x));
        (self.y, self.addend) = (address(y), address(addend));
        if N == 8 {
            compute::<MULTIPLY_ADD_MODULO, _>(self);
        } else {
            compute::<MULTIPLY_ADD_MODULO_384, _>(self);
        }
        result
    }
}

/// A point of a curve: x and then y, the lowest word of each first.
pub type Point<const N: usize> = [[u32; N]; 2];

/// Sums of affine points of a curve with coordinates of N words. `ADD` is the number of its host call; the next one doubles, but
/// for `Ed25519`, which adds equal points, too. Of the other curves a coordinate that is not below the field's modulus is a trap;
/// so are two points with one x, and a double with y = 0. Of `Ed25519` points off the curve without a sum are one.
pub struct Curve<const ADD: u32, const N: usize>;

pub type Secp256k1 = Curve<SECP256K1_ADD, 8>;
pub type Secp256r1 = Curve<SECP256R1_ADD, 8>;
pub type Bn254 = Curve<BN254_ADD, 8>;
pub type Bls12381 = Curve<BLS12_381_ADD, 12>;
pub type Ed25519 = Curve<ED25519_ADD, 8>;

#[repr(C)]
struct PointSum {
    p: u32,
    q: u32,
}

macro_rules! add {
    ($add:ident, $words:literal) => {
        impl Curve<$add, $words> {
            /// p += q.
            pub fn add(p: &mut Point<$words>, q: &Point<$words>) {
                let mut sum = PointSum { p: address(p), q: address(q) };
                compute::<$add, _>(&mut sum);
            }
        }
    };
}

macro_rules! double {
    ($add:ident, $words:literal) => {
        impl Curve<$add, $words> {
            /// p += p.
            pub fn double(p: &mut Point<$words>) {
                compute::<{ $add + 1 }, _>(p);
            }
        }
    };
}

add!(SECP256K1_ADD, 8);
add!(SECP256R1_ADD, 8);
add!(BN254_ADD, 8);
add!(BLS12_381_ADD, 12);
add!(ED25519_ADD, 8);
double!(SECP256K1_ADD, 8);
double!(SECP256R1_ADD, 8);
double!(BN254_ADD, 8);
double!(BLS12_381_ADD, 12);

/// The private input, which must be read once.
pub fn read_private() -> Vec<u8> {
    read(READ_PRIVATE)
}

/// The public input, which must be read once.
pub fn read_public() -> Vec<u8> {
    read(READ_PUBLIC)
}

fn read(number: u32) -> Vec<u8> {
    let size = call(number, 0) as usize;
    let mut bytes = Vec::with_capacity(size.saturating_add(3)); // a prover chooses the size
    while bytes.len() < size {
        bytes.extend_from_slice(&call(number, 0).to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

#[cfg(not(feature = "project"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    exit(254)
}

#[cfg(not(feature = "project"))]
/// Gives out memory from the end of the program upwards, and takes none back. The machine's memory is zero at the start.
struct Heap(UnsafeCell<usize>);

#[cfg(not(feature = "project"))]
unsafe impl Sync for Heap {}

#[cfg(not(feature = "project"))]
extern "C" {
    static __heap_start: u8;
}

#[cfg(not(feature = "project"))]
const HEAP_END: usize = 0x3000_0000;

#[cfg(not(feature = "project"))]
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let next = self.0.get();
        let free = (*next).max(core::ptr::addr_of!(__heap_start) as usize);
        let start = (free + layout.align() - 1) & !(layout.align() - 1);
        if layout.size() > HEAP_END - start {
            return core::ptr::null_mut();
        }
        *next = start + layout.size();
        start as *mut u8
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[cfg(not(feature = "project"))]
#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new(0));

// Sums of points by host calls, in Rust. Private input, in words: a curve (0 secp256k1, 1 P-256, 2 BN254,
// 3 Ed25519, 4 BLS12-381), and the points p and q. Public output: p + q, and p + p. What has no sum by the formula traps.
#![no_std]
#![no_main]

#[path = "../../../../distprove/stark/riscv/runtime/guest.rs"]
mod guest;

extern crate alloc;

use core::convert::TryInto;
use guest::{read_private, write_word, Bls12381, Bn254, Ed25519, Point, Secp256k1, Secp256r1};

fn point<const N: usize>(bytes: &[u8]) -> Point<N> {
    let word = |k: usize| u32::from_le_bytes(bytes[4 * k..4 * k + 4].try_into().unwrap());
    [core::array::from_fn(word), core::array::from_fn(|k| word(N + k))]
}

fn show<const N: usize>(sums: [Point<N>; 2]) {
    for word in sums.iter().flatten().flatten() {
        write_word(*word);
    }
}

macro_rules! show_sums {
    ($curve:ty, $points:expr, $words:literal, $double:expr) => {{
        let (mut sum, q) = (point::<$words>($points), point(&$points[8 * $words..]));
        let mut twice = sum;
        <$curve>::add(&mut sum, &q);
        $double(&mut twice);
        show([sum, twice]);
    }};
    ($curve:ty, $points:expr, $words:literal) => {
        show_sums!($curve, $points, $words, <$curve>::double)
    };
}

fn double_edwards(p: &mut Point<8>) {
    let q = *p;
    Ed25519::add(p, &q);
}

#[no_mangle]
extern "C" fn main() -> u32 {
    let input = read_private();
    let points = &input[4..];
    match input[0] {
        0 => show_sums!(Secp256k1, points, 8),
        1 => show_sums!(Secp256r1, points, 8),
        2 => show_sums!(Bn254, points, 8),
        3 => show_sums!(Ed25519, points, 8, double_edwards),
        _ => show_sums!(Bls12381, points, 12),
    }
    0
}

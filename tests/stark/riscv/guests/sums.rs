// Sums of points by the host calls for products, in Rust. Private input, in words: a curve (0 secp256k1, 1 P-256, 2 BN254,
// 3 Ed25519, 4 BLS12-381), and the points p and q. Public output: p + q, and p + p. The exit code is 1 where one of them is not
// a sum by the formula.
#![no_std]
#![no_main]

#[path = "../../../../distprove/stark/riscv/runtime/guest.rs"]
mod guest;
#[path = "../../../../distprove/stark/riscv/runtime/curves.rs"]
mod curves;

extern crate alloc;

use core::convert::TryInto;
use curves::{Field, Point, BLS12_381, BN254, ED25519, SECP256K1, SECP256R1, SECP256R1_A};
use guest::{read_private, write_word};

fn point<const N: usize>(bytes: &[u8]) -> Point<N> {
    let word = |k: usize| u32::from_le_bytes(bytes[4 * k..4 * k + 4].try_into().unwrap());
    [core::array::from_fn(word), core::array::from_fn(|k| word(N + k))]
}

fn show<const N: usize>(sums: [Option<Point<N>>; 2]) -> u32 {
    let [Some(sum), Some(twice)] = sums else {
        return 1;
    };
    for word in sum.iter().chain(&twice).flatten() {
        write_word(*word);
    }
    0
}

fn sums<const N: usize>(mut field: Field<N>, a: [u32; N], points: &[u8]) -> u32 {
    let (p, q) = (point(points), point(&points[8 * N..]));
    show([field.add_points(&p, &q), field.double_point(&p, &a)])
}

#[no_mangle]
extern "C" fn main() -> u32 {
    let input = read_private();
    let points = &input[4..];
    match input[0] {
        0 => sums(SECP256K1, [0; 8], points),
        1 => sums(SECP256R1, SECP256R1_A, points),
        2 => sums(BN254, [0; 8], points),
        3 => {
            let (mut field, p, q) = (ED25519, point(points), point(&points[64..]));
            show([field.add_edwards(&p, &q), field.add_edwards(&p, &p)])
        }
        _ => sums(BLS12_381, [0; 12], points),
    }
}

// Fields of 256 or 384 bits and the group of Ed25519, for guests in Rust, by the host calls for products: numbers have 8 words, or
// 12 over BLS12-381, the lowest first. A guest has this beside `mod guest`, as `mod curves`. `guest` has sums of the other curves.
#![allow(dead_code)]

use crate::guest::{Modulus, Point};

/// A field whose modulus is an odd prime.
pub struct Field<const N: usize> {
    products: Modulus<N>,
    modulus: [u32; N],
}

pub const SECP256K1: Field<8> = Field::new([
    0xfffffc2f, 0xfffffffe, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
]);
pub const SECP256R1: Field<8> = Field::new([0xffffffff, 0xffffffff, 0xffffffff, 0, 0, 0, 1, 0xffffffff]);
pub const ED25519: Field<8> = Field::new([
    0xffffffed, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x7fffffff,
]);
pub const BN254: Field<8> = Field::new([
    0xd87cfd47, 0x3c208c16, 0x6871ca8d, 0x97816a91, 0x8181585d, 0xb85045b6, 0xe131a029, 0x30644e72,
]);
pub const BLS12_381: Field<12> = Field::new([
    0xffffaaab, 0xb9feffff, 0xb153ffff, 0x1eabfffe, 0xf6b0f624, 0x6730d2a0, 0xf38512bf, 0x64774b84, 0x434bacd7,
    0x4b1ba7b6, 0x397fe69a, 0x1a0111ea,
]);

/// d of the curve -x^2 + y^2 = 1 + d x^2 y^2 of Ed25519.
const EDWARDS_D: [u32; 8] = [
    0x135978a3, 0x75eb4dca, 0x4141d8ab, 0x00700a4d, 0x7779e898, 0x8cc74079, 0x2b6ffe73, 0x52036cee,
];

const fn small<const N: usize>(value: u32) -> [u32; N] {
    let mut out = [0; N];
    out[0] = value;
    out
}

impl<const N: usize> Field<N> {
    pub const fn new(modulus: [u32; N]) -> Self {
        Field { products: Modulus::new(modulus), modulus }
    }

    fn minus_one(&self) -> [u32; N] {
        let mut out = self.modulus;
        out[0] -= 1;
        out
    }

    /// Of any numbers of so many words, as the difference and the product.
    pub fn add(&mut self, x: &[u32; N], y: &[u32; N]) -> [u32; N] {
        self.products.multiply_add(x, &small(1), y)
    }

    pub fn subtract(&mut self, x: &[u32; N], y: &[u32; N]) -> [u32; N] {
        self.products.multiply_add(y, &self.minus_one(), x)
    }

    pub fn multiply(&mut self, x: &[u32; N], y: &[u32; N]) -> [u32; N] {
        let reduced = self.reduce(x);
        self.products.multiply(&reduced, y)
    }

    pub fn reduce(&mut self, x: &[u32; N]) -> [u32; N] {
        self.products.multiply(x, &small(1))
    }

    /// 1 / x by Fermat, four bits of the exponent at a time; 0 for 0.
    pub fn invert(&mut self, x: &[u32; N]) -> [u32; N] {
        let mut powers = [small(1); 16];
        powers[1] = self.reduce(x);
        for i in 2..16 {
            powers[i] = self.products.multiply(&powers[i - 1], &powers[1]);
        }
        let mut exponent = self.modulus;
        let mut taken = 2;
        for word in exponent.iter_mut() {
            let (rest, under) = word.overflowing_sub(taken);
            *word = rest;
            taken = under as u32;
        }
        let mut out = small(1);
        for i in (0..8 * N).rev() {
            for _ in 0..4 {
                out = self.products.multiply(&out, &out);
            }
            out = self.products.multiply(&out, &powers[(exponent[i / 8] >> (4 * (i % 8)) & 15) as usize]);
        }
        out
    }
}

impl Field<8> {
    /// The sum of two points of Ed25519's curve, whose field this is; None only for points that are not on it.
    pub fn add_edwards(&mut self, p: &Point<8>, q: &Point<8>) -> Option<Point<8>> {
        let (first, second) = (self.multiply(&p[0], &q[1]), self.multiply(&q[0], &p[1]));
        let x = self.add(&first, &second);
        let (first_y, second_y) = (self.multiply(&p[1], &q[1]), self.multiply(&p[0], &q[0]));
        let y = self.add(&first_y, &second_y);
        let all = self.products.multiply(&first, &second);
        let product = self.products.multiply(&all, &EDWARDS_D);
        let (over, under) = (self.add(&small(1), &product), self.subtract(&small(1), &product));
        let both = self.products.multiply(&over, &under);
        if both == [0; 8] {
            return None;
        }
        let inverse = self.invert(&both);
        let (x, y) = (self.products.multiply(&x, &under), self.products.multiply(&y, &over));
        Some([self.products.multiply(&x, &inverse), self.products.multiply(&y, &inverse)])
    }
}

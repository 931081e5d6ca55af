//! Synthesises Filecoin's circuits as storage-proofs makes them, blank, and prints each one's sizes, and of those in ROWS
//! the digest of the rows up to an order of private wires and of rows: that of tests/support/row_digest.py.

use std::collections::HashMap;

use bellperson::{Circuit, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};
use blstrs::Scalar as Fr;
use ff::{Field, PrimeField};
use filecoin_hashers::{poseidon::PoseidonHasher, sha256::Sha256Hasher};
use generic_array::typenum::{U0, U2, U4, U8};
use sha2::{Digest, Sha256};
use storage_proofs_core::{
    api_version::ApiVersion,
    compound_proof::CompoundProof,
    drgraph::BASE_DEGREE,
    merkle::{LCTree, MerkleTreeTrait},
    proof::ProofScheme,
};
use storage_proofs_porep::stacked::{Challenges, SetupParams, StackedCompound, StackedDrg, EXP_DEGREE};
use storage_proofs_post::fallback::{self, FallbackPoStCompound};
use storage_proofs_update::{poseidon, EmptySectorUpdateCircuit, PublicParams};

/// One matrix of the system: the entries of each row, and private wires from PRIVATE on.
#[derive(Default)]
struct Matrix {
    ends: Vec<usize>,
    wires: Vec<u32>,
    values: Vec<u32>,
}

const PRIVATE: u32 = 1 << 31;

/// Counts wires, rows and entries, and keeps the rows if it is asked to; nothing of values.
struct Recorded {
    keep: bool,
    inputs: u32,
    aux: u32,
    rows: usize,
    entries: [usize; 3],
    /// Which private wires occur in A, and in B.
    occurring: [Vec<bool>; 2],
    matrices: [Matrix; 3],
    index: HashMap<[u8; 32], u32>,
}

impl Recorded {
    fn of(circuit: impl Circuit<Fr>, keep: bool) -> Self {
        let mut made = Recorded {
            keep,
            inputs: 1,
            aux: 0,
            rows: 0,
            entries: [0; 3],
            occurring: Default::default(),
            matrices: Default::default(),
            index: HashMap::new(),
        };
        circuit.synthesize(&mut made).expect("synthesis");
        made
    }

    fn row(&mut self, side: usize, sum: LinearCombination<Fr>) {
        for (variable, value) in sum.iter() {
            if bool::from(value.is_zero()) {
                continue;
            }
            let wire = match variable.0 {
                Index::Input(i) => i as u32,
                Index::Aux(i) => PRIVATE | i as u32,
            };
            self.entries[side] += 1;
            if let (Index::Aux(i), true) = (variable.0, side < 2) {
                self.occurring[side][i] = true;
            }
            if !self.keep {
                continue;
            }
            let next = self.index.len() as u32;
            let number = *self.index.entry(value.to_repr()).or_insert(next);
            self.matrices[side].wires.push(wire);
            self.matrices[side].values.push(number);
        }
        if self.keep {
            let end = self.matrices[side].wires.len();
            self.matrices[side].ends.push(end);
        }
    }
}

impl ConstraintSystem<Fr> for Recorded {
    type Root = Self;

    fn alloc<F, A, AR>(&mut self, _: A, _: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Fr, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.aux += 1;
        self.occurring.iter_mut().for_each(|side| side.push(false));
        Ok(Variable::new_unchecked(Index::Aux(self.aux as usize - 1)))
    }

    fn alloc_input<F, A, AR>(&mut self, _: A, _: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Fr, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.inputs += 1;
        Ok(Variable::new_unchecked(Index::Input(self.inputs as usize - 1)))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<Fr>) -> LinearCombination<Fr>,
        LB: FnOnce(LinearCombination<Fr>) -> LinearCombination<Fr>,
        LC: FnOnce(LinearCombination<Fr>) -> LinearCombination<Fr>,
    {
        self.rows += 1;
        self.row(0, a(LinearCombination::zero()));
        self.row(1, b(LinearCombination::zero()));
        self.row(2, c(LinearCombination::zero()));
    }

    fn push_namespace<NR, N>(&mut self, _: N)
    where
        NR: Into<String>,
        N: FnOnce() -> NR,
    {
    }

    fn pop_namespace(&mut self) {}

    fn get_root(&mut self) -> &mut Self::Root {
        self
    }
}

/// The last step of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// Distinguishes A, B and C.
const SIDES: [u64; 3] = [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9];

fn distinct(colours: &[u64]) -> usize {
    let mut sorted = colours.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len()
}

/// Colours wires and rows by each other until all wires differ, or no more do: a row's colour is made of its entries'
/// coefficients and wires' colours, in any order; a wire's of its own, and its entries' coefficients and rows' colours.
fn print_digest(name: &str, system: Recorded) {
    let public = system.inputs as usize;
    let wires = public + system.aux as usize;
    let rows = system.matrices[0].ends.len();
    let mut values = vec![0u64; system.index.len()];
    for (bytes, &number) in &system.index {
        values[number as usize] = u64::from_le_bytes(Sha256::digest(bytes)[..8].try_into().unwrap()) | 1;
    }
    let place = |wire: u32| {
        if wire & PRIVATE != 0 {
            public + (wire ^ PRIVATE) as usize
        } else {
            wire as usize
        }
    };
    let mut colours: Vec<u64> = (0..wires)
        .map(|w| mix(if w < public { w as u64 + 2 } else { 1 }))
        .collect();
    let mut found = public + 1;
    let mut rounds = 0;
    let row_colours = loop {
        let mut of_rows = vec![0u64; rows];
        for (matrix, side) in system.matrices.iter().zip(SIDES) {
            let mut entry = 0;
            for (colour, &end) in of_rows.iter_mut().zip(&matrix.ends) {
                let mut sum = 0u64;
                while entry < end {
                    let value = values[matrix.values[entry] as usize];
                    sum = sum.wrapping_add(colours[place(matrix.wires[entry])].wrapping_mul(value));
                    entry += 1;
                }
                *colour = mix(colour.wrapping_add(sum ^ side));
            }
        }
        if found == wires {
            break of_rows;
        }
        let mut next = colours.clone();
        for (matrix, side) in system.matrices.iter().zip(SIDES) {
            let mut entry = 0;
            for (&colour, &end) in of_rows.iter().zip(&matrix.ends) {
                let of_row = mix(colour.wrapping_add(side));
                while entry < end {
                    let value = values[matrix.values[entry] as usize];
                    let wire = &mut next[place(matrix.wires[entry])];
                    *wire = wire.wrapping_add(of_row.wrapping_mul(value));
                    entry += 1;
                }
            }
        }
        next.iter_mut().for_each(|colour| *colour = mix(*colour));
        let now = distinct(&next);
        rounds += 1;
        if now <= found {
            break of_rows;
        }
        colours = next;
        found = now;
    };
    let mut sorted = row_colours;
    sorted.sort_unstable();
    let mut hash = Sha256::new();
    for count in [rows, public, wires - public] {
        hash.update((count as u64).to_le_bytes());
    }
    for colour in &sorted {
        hash.update(colour.to_le_bytes());
    }
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{name}: {digest}, of {wires} wires {found} distinct after {rounds} rounds");
}

fn print_sizes(name: &str, system: &Recorded) {
    let [a, b] = [0, 1].map(|side| system.occurring[side].iter().filter(|&&occurs| occurs).count());
    println!(
        "{name}: {} constraints, {} private, {} public, {:?} entries, {a} private in A, {b} in B",
        system.rows, system.aux, system.inputs, system.entries
    );
}

type Tree<B, S, T> = LCTree<PoseidonHasher, B, S, T>;

fn porep<T: 'static + MerkleTreeTrait<Hasher = PoseidonHasher>>(
    nodes: usize,
    challenges: usize,
    num_layers: usize,
    keep: bool,
) -> Recorded {
    let parameters = StackedDrg::<T, Sha256Hasher>::setup(&SetupParams {
        nodes,
        degree: BASE_DEGREE,
        expansion_degree: EXP_DEGREE,
        porep_id: [7; 32],
        challenges: Challenges::new_interactive(challenges),
        num_layers,
        api_version: ApiVersion::V1_2_0,
        api_features: vec![],
    })
    .expect("setup");
    Recorded::of(
        <StackedCompound<T, Sha256Hasher> as CompoundProof<StackedDrg<T, Sha256Hasher>, _>>::blank_circuit(&parameters),
        keep,
    )
}

fn post<T: 'static + MerkleTreeTrait<Hasher = PoseidonHasher>>(
    nodes: u64,
    sector_count: usize,
    challenge_count: usize,
    keep: bool,
) -> Recorded {
    let parameters = fallback::PublicParams {
        sector_size: nodes * 32,
        challenge_count,
        sector_count,
        api_version: ApiVersion::V1_2_0,
    };
    Recorded::of(
        <FallbackPoStCompound<T> as CompoundProof<fallback::FallbackPoSt<T>, _>>::blank_circuit(&parameters),
        keep,
    )
}

fn snap<T: 'static + MerkleTreeTrait<Hasher = PoseidonHasher>>(nodes: u64, keep: bool) -> Recorded {
    Recorded::of(
        EmptySectorUpdateCircuit::<T>::blank(PublicParams::from_sector_size(nodes * 32)),
        keep,
    )
}

fn snap_poseidon<T: 'static + MerkleTreeTrait<Hasher = PoseidonHasher>>(nodes: u64, keep: bool) -> Recorded {
    Recorded::of(
        poseidon::EmptySectorUpdateCircuit::<T>::blank(PublicParams::from_sector_size_poseidon(nodes * 32)),
        keep,
    )
}

type Base = Tree<U8, U0, U0>;
type Sub8 = Tree<U8, U8, U0>;
type Top42 = Tree<U8, U4, U2>;
type Top82 = Tree<U8, U8, U2>;

type Made = fn(bool) -> Recorded;

/// Circuits whose rows are compared.
const ROWS: &[(&str, Made)] = &[
    ("winning-post-2KiB", |keep| post::<Base>(1 << 6, 66, 1, keep)),
    ("winning-post-32KiB", |keep| post::<Top82>(1 << 10, 66, 1, keep)),
    ("winning-post-32GiB", |keep| post::<Sub8>(1 << 30, 66, 1, keep)),
    ("window-post-2KiB", |keep| post::<Base>(1 << 6, 2, 10, keep)),
    ("window-post-32KiB", |keep| post::<Top82>(1 << 10, 2, 10, keep)),
    ("snap-deals-poseidon-2KiB", |keep| snap_poseidon::<Base>(1 << 6, keep)),
    ("snap-deals-poseidon-32KiB", |keep| {
        snap_poseidon::<Top82>(1 << 10, keep)
    }),
    ("snap-deals-poseidon-8MiB", |keep| snap_poseidon::<Base>(1 << 18, keep)),
    ("snap-deals-2KiB", |keep| snap::<Base>(1 << 6, keep)),
    ("snap-deals-32KiB", |keep| snap::<Top82>(1 << 10, keep)),
    ("snap-deals-8MiB", |keep| snap::<Base>(1 << 18, keep)),
    ("porep-2KiB", |keep| porep::<Base>(1 << 6, 2, 2, keep)),
    ("porep-1-2-8.4.2", |keep| porep::<Top42>(1 << 6, 1, 2, keep)),
    ("porep-1-11-8.8.2", |keep| porep::<Top82>(1 << 7, 1, 11, keep)),
];

/// Circuits whose sizes are compared: too large for their rows, or like another one.
const SIZES: &[(&str, Made)] = &[
    ("winning-post-64GiB", |keep| post::<Top82>(1 << 31, 66, 1, keep)),
    ("porep-8MiB", |keep| porep::<Base>(1 << 18, 2, 2, keep)),
    ("porep-512MiB", |keep| porep::<Base>(1 << 24, 2, 2, keep)),
    ("snap-deals-poseidon-32GiB", |keep| snap_poseidon::<Sub8>(1 << 30, keep)),
    ("snap-deals-32GiB", |keep| snap::<Sub8>(1 << 30, keep)),
    ("snap-deals-64GiB", |keep| snap::<Top82>(1 << 31, keep)),
    ("porep-32GiB", |keep| porep::<Sub8>(1 << 30, 18, 11, keep)),
    ("window-post-32GiB", |keep| post::<Sub8>(1 << 30, 2349, 10, keep)),
    ("porep-64GiB", |keep| porep::<Top82>(1 << 31, 18, 11, keep)),
    ("window-post-64GiB", |keep| post::<Top82>(1 << 31, 2300, 10, keep)),
];

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    for (circuits, keep) in [(ROWS, true), (SIZES, false)] {
        for (name, make) in circuits {
            if asked.is_empty() || asked.iter().any(|one| one == name) {
                let system = make(keep);
                print_sizes(name, &system);
                if keep {
                    print_digest(name, system);
                }
            }
        }
    }
}

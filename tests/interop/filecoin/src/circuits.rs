//! Filecoin's circuits as storage-proofs makes them, blank, by name.

use bellperson::Circuit;
use blstrs::Scalar as Fr;
use filecoin_hashers::{poseidon::PoseidonHasher, sha256::Sha256Hasher};
use generic_array::typenum::{U0, U2, U4, U8};
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

type Tree<B, S, T> = LCTree<PoseidonHasher, B, S, T>;
type Base = Tree<U8, U0, U0>;
type Sub8 = Tree<U8, U8, U0>;
type Top42 = Tree<U8, U4, U2>;
type Top82 = Tree<U8, U8, U2>;

/// What is done with a circuit, whose type its name decides.
pub trait Use {
    type Made;
    fn of(self, circuit: impl Circuit<Fr> + Send) -> Self::Made;
}

/// Small circuits first.
pub const NAMES: &[&str] = &[
    "winning-post-2KiB",
    "winning-post-32KiB",
    "winning-post-32GiB",
    "winning-post-64GiB",
    "window-post-2KiB",
    "window-post-32KiB",
    "snap-deals-poseidon-2KiB",
    "snap-deals-poseidon-32KiB",
    "snap-deals-poseidon-8MiB",
    "snap-deals-2KiB",
    "snap-deals-32KiB",
    "snap-deals-8MiB",
    "porep-2KiB",
    "porep-8MiB",
    "porep-512MiB",
    "porep-1-2-8.4.2",
    "porep-1-11-8.8.2",
    "snap-deals-poseidon-32GiB",
    "snap-deals-32GiB",
    "snap-deals-64GiB",
    "porep-32GiB",
    "porep-64GiB",
    "window-post-32GiB",
    "window-post-64GiB",
];

pub fn with<U: Use>(name: &str, what: U) -> U::Made {
    match name {
        "winning-post-2KiB" => what.of(post::<Base>(1 << 6, 66, 1)),
        "winning-post-32KiB" => what.of(post::<Top82>(1 << 10, 66, 1)),
        "winning-post-32GiB" => what.of(post::<Sub8>(1 << 30, 66, 1)),
        "winning-post-64GiB" => what.of(post::<Top82>(1 << 31, 66, 1)),
        "window-post-2KiB" => what.of(post::<Base>(1 << 6, 2, 10)),
        "window-post-32KiB" => what.of(post::<Top82>(1 << 10, 2, 10)),
        "window-post-32GiB" => what.of(post::<Sub8>(1 << 30, 2349, 10)),
        "window-post-64GiB" => what.of(post::<Top82>(1 << 31, 2300, 10)),
        "snap-deals-poseidon-2KiB" => what.of(snap_poseidon::<Base>(1 << 6)),
        "snap-deals-poseidon-32KiB" => what.of(snap_poseidon::<Top82>(1 << 10)),
        "snap-deals-poseidon-8MiB" => what.of(snap_poseidon::<Base>(1 << 18)),
        "snap-deals-poseidon-32GiB" => what.of(snap_poseidon::<Sub8>(1 << 30)),
        "snap-deals-2KiB" => what.of(snap::<Base>(1 << 6)),
        "snap-deals-32KiB" => what.of(snap::<Top82>(1 << 10)),
        "snap-deals-8MiB" => what.of(snap::<Base>(1 << 18)),
        "snap-deals-32GiB" => what.of(snap::<Sub8>(1 << 30)),
        "snap-deals-64GiB" => what.of(snap::<Top82>(1 << 31)),
        "porep-2KiB" => what.of(porep::<Base>(1 << 6, 2, 2)),
        "porep-8MiB" => what.of(porep::<Base>(1 << 18, 2, 2)),
        "porep-512MiB" => what.of(porep::<Base>(1 << 24, 2, 2)),
        "porep-1-2-8.4.2" => what.of(porep::<Top42>(1 << 6, 1, 2)),
        "porep-1-11-8.8.2" => what.of(porep::<Top82>(1 << 7, 1, 11)),
        "porep-32GiB" => what.of(porep::<Sub8>(1 << 30, 18, 11)),
        "porep-64GiB" => what.of(porep::<Top82>(1 << 31, 18, 11)),
        _ => panic!("no circuit {name}: there are {}", NAMES.join(", ")),
    }
}

fn porep<T: 'static + MerkleTreeTrait<Hasher = PoseidonHasher>>(
    nodes: usize,
    challenges: usize,
    num_layers: usize,
) -> impl Circuit<Fr> + Send {
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
    <StackedCompound<T, Sha256Hasher> as CompoundProof<StackedDrg<T, Sha256Hasher>, _>>::blank_circuit(&parameters)
}

fn post<T: 'static + MerkleTreeTrait<Hasher = PoseidonHasher>>(
    nodes: u64,
    sector_count: usize,
    challenge_count: usize,
) -> impl Circuit<Fr> + Send {
    let parameters = fallback::PublicParams {
        sector_size: nodes * 32,
        challenge_count,
        sector_count,
        api_version: ApiVersion::V1_2_0,
    };
    <FallbackPoStCompound<T> as CompoundProof<fallback::FallbackPoSt<T>, _>>::blank_circuit(&parameters)
}

fn snap<T: 'static + MerkleTreeTrait<Hasher = PoseidonHasher>>(nodes: u64) -> impl Circuit<Fr> + Send {
    EmptySectorUpdateCircuit::<T>::blank(PublicParams::from_sector_size(nodes * 32))
}

fn snap_poseidon<T: 'static + MerkleTreeTrait<Hasher = PoseidonHasher>>(nodes: u64) -> impl Circuit<Fr> + Send {
    poseidon::EmptySectorUpdateCircuit::<T>::blank(PublicParams::from_sector_size_poseidon(nodes * 32))
}

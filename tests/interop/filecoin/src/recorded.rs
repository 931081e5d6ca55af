//! A constraint system that counts what a circuit allocates and constrains, and hashes its rows as they come.

use bellperson::{Circuit, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};
use blstrs::Scalar as Fr;
use ff::{Field, PrimeField};
use sha2::{Digest, Sha256};

/// Sizes of a system, and the digest of its rows in their order; the rows themselves are not kept.
pub struct Recorded {
    inputs: u32,
    aux: u32,
    rows: u64,
    entries: [u64; 3],
    /// Which private wires occur in A, and in B.
    occurring: [Vec<bool>; 2],
    hash: Sha256,
}

/// Private wires are numbered from here on, each by bellperson's number.
const PRIVATE: u32 = 1 << 31;

impl Recorded {
    pub fn of(circuit: impl Circuit<Fr>) -> Self {
        let mut made = Recorded {
            inputs: 1,
            aux: 0,
            rows: 0,
            entries: [0; 3],
            occurring: Default::default(),
            hash: Sha256::new(),
        };
        circuit.synthesize(&mut made).expect("synthesis");
        made
    }

    /// A row of A, B or C: how many entries it has, and the wire and the coefficient of each, by ascending wires.
    fn row(&mut self, side: usize, sum: LinearCombination<Fr>) {
        let mut entries: Vec<(u32, [u8; 32])> = Vec::new();
        for (variable, value) in sum.iter() {
            if bool::from(value.is_zero()) {
                continue;
            }
            let wire = match variable.0 {
                Index::Input(i) => i as u32,
                Index::Aux(i) => PRIVATE | i as u32,
            };
            if let (Index::Aux(i), true) = (variable.0, side < 2) {
                self.occurring[side][i] = true;
            }
            entries.push((wire, value.to_repr()));
        }
        entries.sort_unstable();
        self.entries[side] += entries.len() as u64;
        self.hash.update((entries.len() as u32).to_le_bytes());
        for (wire, value) in &entries {
            self.hash.update(wire.to_le_bytes());
            self.hash.update(value);
        }
    }

    pub fn sizes(&self) -> String {
        let [a, b] = [0, 1].map(|side| self.occurring[side].iter().filter(|&&occurs| occurs).count());
        format!(
            "{} constraints, {} private, {} public, {:?} entries, {a} private in A, {b} in B",
            self.rows, self.aux, self.inputs, self.entries
        )
    }

    /// The digest of the rows, each with A, B and C, and of the numbers of rows, public and private wires at the end.
    pub fn digest(mut self) -> String {
        for count in [self.rows, self.inputs as u64, self.aux as u64] {
            self.hash.update(count.to_le_bytes());
        }
        self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
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

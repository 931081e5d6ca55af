//! Named sets of AIRs with their traces, and the parameters that they are proven with.

use std::sync::Arc;

use anyhow::{bail, Result};
use openvm_judge::traces::Trace;
use openvm_stark_backend::{
    interaction::LogUpSecurityParameters,
    p3_field::{Field, PrimeCharacteristicRing},
    prover::ColMajorMatrix,
    AirRef, SystemParams, WhirConfig, WhirParams, WhirProximityStrategy,
};
use openvm_stark_sdk::config::{
    app_params_with_100_bits_security,
    baby_bear_poseidon2::{BabyBearPoseidon2Config as Config, F},
};

use crate::{
    airs::{Cached, Fibonacci, Fourth, Message, Queries, Selected, Squares, Wide},
    random,
};

pub const NAMES: [&str; 8] = [
    "fibonacci",
    "interactions",
    "preprocessed",
    "cached",
    "short",
    "degree",
    "stacked",
    "mixed",
];

/// AIRs by id, each with the word whether a proof needs its trace, and the traces of the present ones.
#[derive(Default)]
pub struct Set {
    pub airs: Vec<(AirRef<Config>, bool)>,
    pub traces: Vec<Trace>,
}

impl Set {
    pub fn add_absent(&mut self, air: AirRef<Config>) {
        self.airs.push((air, false));
    }

    /// Adds an AIR with its trace: cached parts and common columns.
    pub fn add(
        &mut self,
        air: AirRef<Config>,
        required: bool,
        cached: Vec<Vec<Vec<F>>>,
        columns: Vec<Vec<F>>,
        public_values: Vec<F>,
    ) {
        let cached_mains = cached.into_iter().map(matrix).collect();
        self.traces.push(Trace {
            air: self.airs.len(),
            common_main: matrix(columns),
            cached_mains,
            public_values,
        });
        self.airs.push((air, required));
    }

    fn absent(mut self, air: AirRef<Config>) -> Self {
        self.add_absent(air);
        self
    }

    fn with(self, air: AirRef<Config>, columns: Vec<Vec<F>>) -> Self {
        self.public(air, columns, vec![])
    }

    fn public(mut self, air: AirRef<Config>, columns: Vec<Vec<F>>, public_values: Vec<F>) -> Self {
        self.add(air, false, vec![], columns, public_values);
        self
    }

    fn required(mut self) -> Self {
        self.airs.last_mut().expect("an AIR").1 = true;
        self
    }

    fn and(mut self, other: Set) -> Self {
        let first = self.airs.len();
        self.traces.extend(other.traces.into_iter().map(|trace| Trace {
            air: first + trace.air,
            ..trace
        }));
        self.airs.extend(other.airs);
        self
    }
}

/// A set by name: one of `NAMES`, or `random-SEED`.
pub fn set(name: &str, params: &SystemParams) -> Result<Set> {
    if let Some(seed) = name.strip_prefix("random-") {
        return Ok(random::set(seed.parse()?, params));
    }
    Ok(match name {
        "fibonacci" => fibonacci(Set::default(), 4),
        "interactions" => interactions(0).absent(Arc::new(Fibonacci)),
        "preprocessed" => selected(4),
        "cached" => cached(5),
        "short" => short(1),
        "degree" => fourth(3, 2),
        "stacked" => stacked(),
        "mixed" => fibonacci(interactions(0), 0)
            .and(selected(1))
            .and(fourth(6, 2))
            .and(short(1))
            .absent(Arc::new(Fibonacci))
            .and(cached(0))
            .and(cached(9))
            .and(interactions(7)),
        _ => bail!("no set {name}; there are random-SEED, {}", NAMES.join(", ")),
    })
}

/// Parameters by name: `small`, `skip-4` and `random-SEED` without security; `app` and `app-LOG` those of the
/// app layer, 100 bits, for stacks of height 2^24 and 2^LOG.
pub fn params(name: &str) -> Result<SystemParams> {
    if let Some(rest) = name.strip_prefix("app") {
        let log_stacked_height = match rest.strip_prefix('-') {
            Some(number) => number.parse()?,
            None if rest.is_empty() => 24,
            None => bail!("no parameters {name}"),
        };
        return Ok(app_params_with_100_bits_security(log_stacked_height));
    }
    if let Some(seed) = name.strip_prefix("random-") {
        return Ok(random::params(seed.parse()?));
    }
    let (l_skip, n_stack, log_blowup, k) = match name {
        "small" => (2, 8, 1, 3),
        "skip-4" => (4, 6, 2, 4),
        _ => bail!("no parameters {name}; there are small, skip-4, app, app-LOG and random-SEED"),
    };
    let whir = WhirParams {
        k,
        log_final_poly_len: (l_skip + n_stack) % k,
        query_phase_pow_bits: 1,
        proximity: WhirProximityStrategy::SplitUniqueList {
            m: 3,
            list_start_round: 1,
        },
        folding_pow_bits: 2,
        mu_pow_bits: 3,
    };
    Ok(SystemParams {
        l_skip,
        n_stack,
        w_stack: 1 << 12,
        log_blowup,
        whir: WhirConfig::new(log_blowup, l_skip + n_stack, whir, 5),
        logup: LogUpSecurityParameters {
            max_interaction_count: 1 << 30,
            log_max_message_length: 7,
            pow_bits: 2,
        },
        max_constraint_degree: 4,
    })
}

fn matrix(columns: Vec<Vec<F>>) -> ColMajorMatrix<F> {
    let width = columns.len();
    ColMajorMatrix::new(columns.concat(), width)
}

/// `count` elements that look random: the powers of a generator times a seed.
pub fn elements(seed: u32, count: usize) -> Vec<F> {
    let start = F::from_u32(seed + 2).exp_u64(1_000_003);
    F::GENERATOR.shifted_powers(start).take(count).collect()
}

fn small(values: impl IntoIterator<Item = u32>) -> Vec<F> {
    values.into_iter().map(F::from_u32).collect()
}

fn fibonacci(set: Set, log_height: usize) -> Set {
    let rows = std::iter::successors(Some((F::ZERO, F::ONE)), |&(left, right)| Some((right, left + right)));
    let (left, right): (Vec<F>, Vec<F>) = rows.take(1 << log_height).unzip();
    let public = vec![left[0], right[0], *right.last().expect("a row")];
    set.public(Arc::new(Fibonacci), vec![left, right], public)
}

/// Eight queries, five of them enabled, and a table of four squares; the queries are required.
fn interactions(bus: u16) -> Set {
    let asked = [3, 1, 3, 9, 0, 2, 3, 5];
    let enabled = [1, 1, 0, 1, 0, 1, 1, 0];
    let table = [1, 2, 3, 9];
    let times = table.map(|x| {
        asked
            .iter()
            .zip(enabled)
            .filter(|(&other, on)| *on == 1 && other == x)
            .count() as u32
    });
    let queries = vec![small(asked), small(asked.map(|x| x * x)), small(enabled)];
    let squares = vec![small(table), small(table.map(|x| x * x)), small(times)];
    Set::default()
        .with(Arc::new(Queries { bus }), queries)
        .required()
        .with(Arc::new(Squares { bus }), squares)
}

fn selected(log_height: usize) -> Set {
    let height = 1 << log_height;
    let selectors = (0..height as u32)
        .map(|index| u32::from(index % 3 == 0))
        .collect::<Vec<_>>();
    let values = elements(1, height);
    let mut sums = vec![F::ZERO];
    for index in 0..height - 1 {
        sums.push(sums[index] + values[index] * F::from_u32(selectors[index]));
    }
    let last = vec![sums[height - 1]];
    Set::default().public(Arc::new(Selected { selectors }), vec![sums, values], last)
}

fn cached(log_height: usize) -> Set {
    let height = 1 << log_height;
    let values = elements(2, height + 1);
    let (x, next) = (values[..height].to_vec(), values[1..].to_vec());
    let y = x.iter().map(|&value| value * value).collect::<Vec<_>>();
    let sum = (0..height).map(|index| x[index] + y[index] + next[index]).collect();
    let mut set = Set::default();
    set.add(Arc::new(Cached), false, vec![vec![x], vec![y, next]], vec![sum], vec![]);
    set
}

/// Heights 1 and 2, below 2^l_skip, with one of 8: what two senders send, one receiver takes.
fn short(bus: u16) -> Set {
    let sent = [small([5]), small([6, 7]), small([8]), small([9, 5, 11, 12])];
    let received = small([5, 6, 7, 8, 9, 5, 11, 12]);
    let mut set = Set::default();
    for values in sent {
        set = set.with(Arc::new(Message { bus, sends: true }), vec![values]);
    }
    set.with(Arc::new(Message { bus, sends: false }), vec![received])
}

fn fourth(log_height: usize, bus: u16) -> Set {
    let x = elements(3, 1 << log_height);
    let y = x.iter().map(|value| value.exp_u64(4)).collect();
    Set::default().with(Arc::new(Fourth { bus }), vec![x, y])
}

fn wide(log_height: usize, width: usize) -> Set {
    let mut columns = vec![small(0..1 << log_height)];
    for index in 1..width {
        columns.push(columns[index - 1].iter().map(|&value| value * value).collect());
    }
    Set::default().with(Arc::new(Wide { width }), columns)
}

/// Three stacked columns of 2^10: nine columns of 2^8, five of 2^6, and the queries.
fn stacked() -> Set {
    wide(8, 9).and(wide(6, 5)).and(interactions(3))
}

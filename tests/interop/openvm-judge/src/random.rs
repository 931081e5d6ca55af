//! Sets of AIRs at random: expressions over every kind of variable, parts of every kind, buses within and between AIRs.

use std::sync::Arc;

use openvm_stark_backend::{
    air_builders::PartitionedAirBuilder,
    interaction::{InteractionBuilder, LogUpSecurityParameters},
    p3_air::{Air, AirBuilderWithPublicValues, BaseAir, BaseAirWithPublicValues, PairBuilder},
    p3_field::{Field, PrimeCharacteristicRing, PrimeField32},
    p3_matrix::dense::RowMajorMatrix,
    PartitionedBaseAir, SystemParams, WhirConfig, WhirParams, WhirProximityStrategy,
};
use openvm_stark_sdk::config::baby_bear_poseidon2::F;

use crate::{airs::row, sets::Set};

/// Numbers that a seed determines: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_of(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn element(&mut self) -> F {
        match self.below(4) {
            0 => F::from_u64(self.next() % 3),
            1 => -F::ONE,
            _ => F::from_u64(self.next()),
        }
    }

    fn elements(&mut self, count: usize) -> Vec<F> {
        (0..count).map(|_| self.element()).collect()
    }
}

#[derive(Clone)]
enum Expression {
    Preprocessed { column: usize, next: usize },
    Main { part: usize, column: usize, next: usize },
    Public(usize),
    First,
    Last,
    Transition,
    Constant(F),
    Add(Box<[Expression; 2]>),
    Sub(Box<[Expression; 2]>),
    Mul(Box<[Expression; 2]>),
    Neg(Box<Expression>),
}

use Expression::{Add, Constant, First, Last, Main, Mul, Neg, Preprocessed, Public, Sub, Transition};

/// The columns of an AIR, and its public values.
struct Columns {
    preprocessed: Vec<Vec<F>>,
    /// Part, column, row. The last part is the common main.
    main: Vec<Vec<Vec<F>>>,
    public: Vec<F>,
    height: usize,
}

impl Expression {
    fn value(&self, columns: &Columns, row: usize) -> F {
        let at = |column: &[F], next: usize| column[(row + next) % columns.height];
        match self {
            Preprocessed { column, next } => at(&columns.preprocessed[*column], *next),
            Main { part, column, next } => at(&columns.main[*part][*column], *next),
            Public(index) => columns.public[*index],
            First => F::from_bool(row == 0),
            Last => F::from_bool(row == columns.height - 1),
            Transition => F::from_bool(row != columns.height - 1),
            Constant(value) => *value,
            Add(pair) => pair[0].value(columns, row) + pair[1].value(columns, row),
            Sub(pair) => pair[0].value(columns, row) - pair[1].value(columns, row),
            Mul(pair) => pair[0].value(columns, row) * pair[1].value(columns, row),
            Neg(one) => -one.value(columns, row),
        }
    }

    fn values(&self, columns: &Columns) -> Vec<F> {
        (0..columns.height).map(|row| self.value(columns, row)).collect()
    }

    fn build<AB: Builder>(&self, window: &Window<AB>) -> AB::Expr
    where
        AB::Var: Copy,
        AB::PublicVar: Copy,
    {
        match self {
            Preprocessed { column, next } => window.preprocessed[*next][*column].into(),
            Main { part, column, next } => window.main[*part][*next][*column].into(),
            Public(index) => window.public[*index].into(),
            First => window.first.clone(),
            Last => window.last.clone(),
            Transition => window.transition.clone(),
            Constant(value) => AB::Expr::from_u32(value.as_canonical_u32()),
            Add(pair) => pair[0].build(window) + pair[1].build(window),
            Sub(pair) => pair[0].build(window) - pair[1].build(window),
            Mul(pair) => pair[0].build(window) * pair[1].build(window),
            Neg(one) => -one.build(window),
        }
    }

    /// An expression of at most this degree over `leaves`, constants and selectors.
    fn random(random: &mut Random, leaves: &[Expression], degree: usize, depth: usize) -> Self {
        let one = |random: &mut Random, degree| Self::random(random, leaves, degree, depth - 1);
        match if depth == 0 { 0 } else { random.below(6) } {
            1 => Add(Box::new([one(random, degree), one(random, degree)])),
            2 => Sub(Box::new([one(random, degree), one(random, degree)])),
            3 => Neg(Box::new(one(random, degree))),
            4 | 5 if degree > 1 => {
                let left = 1 + random.below(degree - 1);
                Mul(Box::new([one(random, left), one(random, degree - left)]))
            }
            _ if leaves.is_empty() || random.one_of(8) => Constant(random.element()),
            _ if random.one_of(8) => [First, Last, Transition][random.below(3)].clone(),
            _ => leaves[random.below(leaves.len())].clone(),
        }
    }
}

struct Interaction {
    bus: u16,
    message: Vec<Expression>,
    count: Expression,
    weight: u32,
}

struct RandomAir {
    /// Columns.
    preprocessed: Vec<Vec<F>>,
    /// Widths of the parts; the last one is the common main.
    parts: Vec<usize>,
    public: usize,
    /// What its expressions are made of.
    leaves: Vec<Expression>,
    constraints: Vec<Expression>,
    interactions: Vec<Interaction>,
}

trait Builder: AirBuilderWithPublicValues + PairBuilder + PartitionedAirBuilder + InteractionBuilder {}
impl<AB: AirBuilderWithPublicValues + PairBuilder + PartitionedAirBuilder + InteractionBuilder> Builder for AB {}

/// The variables of two rows, and the selectors.
struct Window<AB: Builder> {
    preprocessed: Vec<Vec<AB::Var>>,
    main: Vec<Vec<Vec<AB::Var>>>,
    public: Vec<AB::PublicVar>,
    first: AB::Expr,
    last: AB::Expr,
    transition: AB::Expr,
}

impl<G: Field> BaseAir<G> for RandomAir {
    fn width(&self) -> usize {
        self.parts.iter().sum()
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<G>> {
        let width = self.preprocessed.len();
        let height = self.preprocessed.first()?.len();
        let cell = |index: usize| G::from_u32(self.preprocessed[index % width][index / width].as_canonical_u32());
        Some(RowMajorMatrix::new((0..width * height).map(cell).collect(), width))
    }
}

impl<G: Field> BaseAirWithPublicValues<G> for RandomAir {
    fn num_public_values(&self) -> usize {
        self.public
    }
}

impl<G: Field> PartitionedBaseAir<G> for RandomAir {
    fn cached_main_widths(&self) -> Vec<usize> {
        self.parts[..self.parts.len() - 1].to_vec()
    }

    fn common_main_width(&self) -> usize {
        self.parts[self.parts.len() - 1]
    }
}

impl<AB: Builder> Air<AB> for RandomAir
where
    AB::Var: Copy,
    AB::PublicVar: Copy,
{
    fn eval(&self, builder: &mut AB) {
        let preprocessed = match self.preprocessed.is_empty() {
            true => vec![],
            false => vec![row(&builder.preprocessed(), 0), row(&builder.preprocessed(), 1)],
        };
        let parts = builder.cached_mains().iter().chain([builder.common_main()]);
        let window = Window::<AB> {
            preprocessed,
            main: parts.map(|part| vec![row(part, 0), row(part, 1)]).collect(),
            public: builder.public_values().to_vec(),
            first: builder.is_first_row(),
            last: builder.is_last_row(),
            transition: builder.is_transition(),
        };
        for constraint in &self.constraints {
            builder.assert_zero(constraint.build(&window));
        }
        for Interaction {
            bus,
            message,
            count,
            weight,
        } in &self.interactions
        {
            let message = message.iter().map(|each| each.build(&window)).collect::<Vec<_>>();
            builder.push_interaction(*bus, message, count.build(&window), *weight);
        }
    }
}

/// Parameters without security, with every choice that their prover takes.
pub fn params(seed: u64) -> SystemParams {
    let random = &mut Random(seed ^ 0x7061_7261_6d73);
    let l_skip = 1 + random.below(4);
    let log_stacked_height = 6 + random.below(5);
    let (k, log_blowup) = (1 + random.below(4), 1 + random.below(3));
    let remainder = log_stacked_height % k;
    let longer = random.one_of(2) && remainder + k < log_stacked_height;
    let log_final_poly_len = remainder + if longer { k } else { 0 };
    // With m = 1 and a blow-up of 2 a query of list decoding gives no bit.
    let proximity = match random.below(3) {
        0 => WhirProximityStrategy::UniqueDecoding,
        1 => WhirProximityStrategy::SplitUniqueList {
            m: 2 + random.below(3),
            list_start_round: random.below(3),
        },
        _ => WhirProximityStrategy::ListDecoding { m: 2 + random.below(3) },
    };
    let mut bits = || random.below(4);
    let (query_phase_pow_bits, folding_pow_bits, mu_pow_bits, pow_bits) = (bits(), bits(), bits(), bits());
    let whir = WhirParams {
        k,
        log_final_poly_len,
        query_phase_pow_bits,
        proximity,
        folding_pow_bits,
        mu_pow_bits,
    };
    SystemParams {
        l_skip,
        n_stack: log_stacked_height - l_skip,
        w_stack: 1 << 12,
        log_blowup,
        whir: WhirConfig::new(log_blowup, log_stacked_height, whir, 4 + random.below(8)),
        logup: LogUpSecurityParameters {
            max_interaction_count: 1 << 30,
            log_max_message_length: 5,
            pow_bits,
        },
        max_constraint_degree: 2 + random.below(3),
    }
}

/// AIRs and traces that these parameters allow; some AIRs are absent.
pub fn set(seed: u64, params: &SystemParams) -> Set {
    let random = &mut Random(seed);
    let mut set = Set::default();
    let count = 1 + random.below(5);
    for index in 0..count {
        let present = !random.one_of(5) || (index == count - 1 && set.traces.is_empty());
        let log_height = random.below(1 + params.log_stacked_height().min(7));
        let (mut air, columns) = air(random, 1 << log_height, params.max_constraint_degree);
        if random.one_of(2) {
            let bus = 100 + index as u16;
            let (receiver, received) = receiver(random, &mut air, &columns, bus, params);
            add(random, &mut set, receiver, &received, present);
        }
        add(random, &mut set, air, &columns, present);
    }
    set
}

fn add(random: &mut Random, set: &mut Set, air: RandomAir, columns: &Columns, present: bool) {
    if present {
        let required = random.one_of(4);
        let (common, cached) = columns.main.split_last().expect("a common main");
        set.add(
            Arc::new(air),
            required,
            cached.to_vec(),
            common.clone(),
            columns.public.clone(),
        );
    } else {
        set.add_absent(Arc::new(air));
    }
}

/// An AIR whose columns are free, or follow from those before them, with a constraint for each of the latter.
fn air(random: &mut Random, height: usize, degree: usize) -> (RandomAir, Columns) {
    let mut parts = (0..random.below(3)).map(|_| 1 + random.below(3)).collect::<Vec<_>>();
    parts.push(1 + random.below(5));
    let fixed = if random.one_of(3) { 1 + random.below(2) } else { 0 };
    let public = random.below(4);
    let mut columns = Columns {
        preprocessed: (0..fixed).map(|_| random.elements(height)).collect(),
        main: parts.iter().map(|&width| vec![vec![]; width]).collect(),
        public: random.elements(public),
        height,
    };
    let rotations = if random.one_of(3) { 1 } else { 2 };
    let mut leaves = (0..public).map(Public).collect::<Vec<_>>();
    for next in 0..rotations {
        leaves.extend((0..fixed).map(|column| Preprocessed { column, next }));
    }
    let mut free = (0..parts.len())
        .flat_map(|part| (0..parts[part]).map(move |column| (part, column)))
        .collect::<Vec<_>>();
    let mut constraints = vec![];
    while !free.is_empty() {
        let (part, column) = free.swap_remove(random.below(free.len()));
        let mut values = random.elements(height);
        if random.one_of(2) {
            let selector = random
                .one_of(3)
                .then(|| [First, Last, Transition][random.below(3)].clone());
            let value = Expression::random(random, &leaves, degree - usize::from(selector.is_some()), 3);
            let difference = Sub(Box::new([Main { part, column, next: 0 }, value.clone()]));
            for (row, cell) in values.iter_mut().enumerate() {
                if selector
                    .as_ref()
                    .is_none_or(|selector| selector.value(&columns, row) == F::ONE)
                {
                    *cell = value.value(&columns, row);
                }
            }
            constraints.push(match selector {
                Some(selector) => Mul(Box::new([selector, difference])),
                None => difference,
            });
        }
        columns.main[part][column] = values;
        leaves.extend((0..rotations).map(|next| Main { part, column, next }));
    }
    let mut interactions = vec![];
    for _ in 0..random.below(3) {
        let (message, count) = message(random, &leaves, degree);
        let (bus, weight) = (random.below(3) as u16, random.below(3) as u32);
        let back = Neg(Box::new(count.clone()));
        interactions.push(Interaction {
            bus,
            message: message.clone(),
            count,
            weight,
        });
        interactions.push(Interaction {
            bus,
            message,
            count: back,
            weight,
        });
    }
    if constraints.is_empty() && interactions.is_empty() {
        let leaf = leaves[leaves.len() - 1].clone();
        constraints.push(Sub(Box::new([leaf.clone(), leaf])));
    }
    let preprocessed = columns.preprocessed.clone();
    (
        RandomAir {
            preprocessed,
            parts,
            public,
            leaves,
            constraints,
            interactions,
        },
        columns,
    )
}

fn message(random: &mut Random, leaves: &[Expression], degree: usize) -> (Vec<Expression>, Expression) {
    let length = 1 + random.below(4);
    let message = (0..length)
        .map(|_| Expression::random(random, leaves, degree, 2))
        .collect();
    (message, Expression::random(random, leaves, degree, 2))
}

/// Has `air` send a message on the bus, and makes the AIR that receives it: rows in another order, perhaps some more.
fn receiver(
    random: &mut Random,
    air: &mut RandomAir,
    columns: &Columns,
    bus: u16,
    params: &SystemParams,
) -> (RandomAir, Columns) {
    let (message, count) = message(random, &air.leaves, params.max_constraint_degree);
    let mut sent = message.iter().map(|each| each.values(columns)).collect::<Vec<_>>();
    let mut counts = count.values(columns);
    if random.one_of(2) && 2 * columns.height <= 1 << params.log_stacked_height() {
        sent.iter_mut()
            .for_each(|column| column.extend(random.elements(columns.height)));
        counts.resize(2 * columns.height, F::ZERO);
    }
    let height = counts.len();
    for row in 1..height {
        let other = random.below(row + 1);
        sent.iter_mut()
            .chain([&mut counts])
            .for_each(|column| column.swap(row, other));
    }
    air.interactions.push(Interaction {
        bus,
        message,
        count,
        weight: 1,
    });
    let width = sent.len();
    let leaves = (0..width)
        .map(|column| Main {
            part: 0,
            column,
            next: 0,
        })
        .collect::<Vec<_>>();
    let (parts, main, count) = if random.one_of(2) {
        (
            vec![width, 1],
            vec![sent, vec![counts]],
            Main {
                part: 1,
                column: 0,
                next: 0,
            },
        )
    } else {
        sent.push(counts);
        (
            vec![width + 1],
            vec![sent],
            Main {
                part: 0,
                column: width,
                next: 0,
            },
        )
    };
    let received = Interaction {
        bus,
        message: leaves.clone(),
        count: Neg(Box::new(count)),
        weight: 1,
    };
    let interactions = vec![received];
    let air = RandomAir {
        preprocessed: vec![],
        parts,
        public: 0,
        leaves,
        constraints: vec![],
        interactions,
    };
    (
        air,
        Columns {
            preprocessed: vec![],
            main,
            public: vec![],
            height,
        },
    )
}

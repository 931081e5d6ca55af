//! AIRs that together use each feature of a key: public values, interactions, preprocessed and cached columns, degrees.

use openvm_stark_backend::{
    air_builders::PartitionedAirBuilder,
    interaction::{InteractionBuilder, LookupBus, PermutationCheckBus},
    p3_air::{Air, AirBuilder, AirBuilderWithPublicValues, BaseAir, BaseAirWithPublicValues, PairBuilder},
    p3_field::{Field, PrimeCharacteristicRing},
    p3_matrix::{dense::RowMajorMatrix, Matrix},
    PartitionedBaseAir,
};

/// The variables of row 0 or 1 of a window.
pub fn row<M: Matrix<V>, V: Copy + Send + Sync>(window: &M, index: usize) -> Vec<V> {
    window.row_slice(index).expect("a window of two rows").to_vec()
}

/// Two columns (a, b): each row adds up the one before. Public values: the first a, the first b, the last b.
pub struct Fibonacci;

impl<F> BaseAir<F> for Fibonacci {
    fn width(&self) -> usize {
        2
    }
}

impl<F> BaseAirWithPublicValues<F> for Fibonacci {
    fn num_public_values(&self) -> usize {
        3
    }
}

impl<F> PartitionedBaseAir<F> for Fibonacci {}

impl<AB: AirBuilderWithPublicValues> Air<AB> for Fibonacci
where
    AB::Var: Copy,
    AB::PublicVar: Copy,
{
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        let (now, next) = (row(&main, 0), row(&main, 1));
        let public = builder.public_values().to_vec();
        builder.when_first_row().assert_eq(now[0], public[0]);
        builder.when_first_row().assert_eq(now[1], public[1]);
        builder.when_transition().assert_eq(next[0], now[1]);
        builder.when_transition().assert_eq(next[1], now[0] + now[1]);
        builder.when_last_row().assert_eq(now[1], public[2]);
    }
}

/// Three columns (x, y, enabled): an enabled row looks (x, y) up in the table of the bus.
pub struct Queries {
    pub bus: u16,
}

impl<F> BaseAir<F> for Queries {
    fn width(&self) -> usize {
        3
    }
}

impl<F> BaseAirWithPublicValues<F> for Queries {}
impl<F> PartitionedBaseAir<F> for Queries {}

impl<AB: InteractionBuilder> Air<AB> for Queries {
    fn eval(&self, builder: &mut AB) {
        let now = row(&builder.main(), 0);
        builder.assert_bool(now[2]);
        LookupBus::new(self.bus).lookup_key(builder, [now[0], now[1]], now[2]);
    }
}

/// Three columns (x, y, times): y = x^2, and the table of the bus has (x, y), looked up as often as `times`.
pub struct Squares {
    pub bus: u16,
}

impl<F> BaseAir<F> for Squares {
    fn width(&self) -> usize {
        3
    }
}

impl<F> BaseAirWithPublicValues<F> for Squares {}
impl<F> PartitionedBaseAir<F> for Squares {}

impl<AB: InteractionBuilder> Air<AB> for Squares {
    fn eval(&self, builder: &mut AB) {
        let now = row(&builder.main(), 0);
        builder.assert_eq(now[1], now[0] * now[0]);
        LookupBus::new(self.bus).add_key_with_lookups(builder, [now[0], now[1]], now[2]);
    }
}

/// One column without a constraint of its own: each row receives, or sends, 3x + 1 on the bus. No rotation.
pub struct Message {
    pub bus: u16,
    pub sends: bool,
}

impl<F> BaseAir<F> for Message {
    fn width(&self) -> usize {
        1
    }
}

impl<F> BaseAirWithPublicValues<F> for Message {}
impl<F> PartitionedBaseAir<F> for Message {}

impl<AB: InteractionBuilder> Air<AB> for Message {
    fn eval(&self, builder: &mut AB) {
        let now = row(&builder.main(), 0);
        let message = now[0] * AB::Expr::from_u32(3) + AB::Expr::ONE;
        let bus = PermutationCheckBus::new(self.bus);
        if self.sends {
            bus.send(builder, [message], AB::Expr::ONE);
        } else {
            bus.receive(builder, [message], AB::Expr::ONE);
        }
    }
}

/// A preprocessed column of selectors s and two columns (sum, x): no two neighbours are both 1,
/// sum starts at 0, and the next one is sum + s * x. Public value: the last sum.
pub struct Selected {
    pub selectors: Vec<u32>,
}

impl<F: Field> BaseAir<F> for Selected {
    fn width(&self) -> usize {
        2
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<F>> {
        Some(RowMajorMatrix::new_col(
            self.selectors.iter().map(|&value| F::from_u32(value)).collect(),
        ))
    }
}

impl<F: Field> BaseAirWithPublicValues<F> for Selected {
    fn num_public_values(&self) -> usize {
        1
    }
}

impl<F: Field> PartitionedBaseAir<F> for Selected {}

impl<AB: AirBuilderWithPublicValues + PairBuilder> Air<AB> for Selected
where
    AB::F: Field,
    AB::Var: Copy,
    AB::PublicVar: Copy,
{
    fn eval(&self, builder: &mut AB) {
        let (main, preprocessed) = (builder.main(), builder.preprocessed());
        let (now, next) = (row(&main, 0), row(&main, 1));
        let (selector, next_selector) = (row(&preprocessed, 0)[0], row(&preprocessed, 1)[0]);
        let last = builder.public_values()[0];
        builder.assert_bool(selector);
        builder.when_first_row().assert_zero(now[0]);
        builder.when_transition().assert_eq(next[0], now[0] + selector * now[1]);
        builder.when_transition().assert_zero(selector * next_selector);
        builder.when_last_row().assert_eq(now[0], last);
    }
}

/// Two cached parts (x), (y, z) and one common column t: y = x^2, z the next x, t = x + y + z.
pub struct Cached;

impl<F> BaseAir<F> for Cached {
    fn width(&self) -> usize {
        4
    }
}

impl<F> BaseAirWithPublicValues<F> for Cached {}

impl<F> PartitionedBaseAir<F> for Cached {
    fn cached_main_widths(&self) -> Vec<usize> {
        vec![1, 2]
    }

    fn common_main_width(&self) -> usize {
        1
    }
}

impl<AB: PartitionedAirBuilder> Air<AB> for Cached
where
    AB::Var: Copy,
{
    fn eval(&self, builder: &mut AB) {
        let (first, second) = (&builder.cached_mains()[0], &builder.cached_mains()[1]);
        let (x, next_x, yz) = (row(first, 0)[0], row(first, 1)[0], row(second, 0));
        let t = row(builder.common_main(), 0)[0];
        builder.assert_eq(yz[0], x * x);
        builder.when_transition().assert_eq(yz[1], next_x);
        builder.assert_eq(t, yz[0] + yz[1] + x);
    }
}

/// Two columns (x, y): y = x^4, degree 4; sends (x^3, 7) and receives (x * x * x, 7), each x^2 times: degrees 3 and 2.
pub struct Fourth {
    pub bus: u16,
}

impl<F> BaseAir<F> for Fourth {
    fn width(&self) -> usize {
        2
    }
}

impl<F> BaseAirWithPublicValues<F> for Fourth {}
impl<F> PartitionedBaseAir<F> for Fourth {}

impl<AB: InteractionBuilder> Air<AB> for Fourth {
    fn eval(&self, builder: &mut AB) {
        let now = row(&builder.main(), 0);
        let square = now[0] * now[0];
        let cube = square.clone() * now[0];
        builder.assert_eq(square.clone() * square.clone(), now[1]);
        let message = [cube, AB::Expr::from_u32(7)];
        builder.push_interaction(self.bus, message.clone(), square.clone(), 1);
        builder.push_interaction(self.bus, message, -square, 1);
    }
}

/// `width` columns: each is the square of the one before it, and the first counts rows.
pub struct Wide {
    pub width: usize,
}

impl<F> BaseAir<F> for Wide {
    fn width(&self) -> usize {
        self.width
    }
}

impl<F> BaseAirWithPublicValues<F> for Wide {}
impl<F> PartitionedBaseAir<F> for Wide {}

impl<AB: AirBuilder> Air<AB> for Wide
where
    AB::Var: Copy,
{
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        let (now, next) = (row(&main, 0), row(&main, 1));
        builder.when_first_row().assert_zero(now[0]);
        builder.when_transition().assert_eq(next[0], now[0] + AB::Expr::ONE);
        for pair in now.windows(2) {
            builder.assert_eq(pair[1], pair[0] * pair[0]);
        }
    }
}

// The columns of wires from the values of all wires, four words each. `numbers` are preprocessed columns: the wire of each
// operand. Rows beyond the last operation have wire 0, which is zero.
constexpr u64 WORDS = 4;

DP_ROW u64 word(const Inputs& in, u64 operand, u64 row, u64 number) {
  return in.values[WORDS * in.numbers(operand, row) + number];
}

// Four operands, three words of each.
DP_ROW void elements(const Inputs& in, u64 i, Row& out) {
#pragma unroll
  for (u64 column = 0; column < 12; ++column) out[column] = word(in, column / 3, i, column % 3);
}

// Four operands, one word of each.
DP_ROW void scalars(const Inputs& in, u64 i, Row& out) {
#pragma unroll
  for (u64 column = 0; column < 4; ++column) out[column] = word(in, column, i, 0);
}

DP_ROW void scalar(const Inputs& in, u64 i, Row& out) { out[0] = word(in, 0, i, 0); }

// A row program (kernels/interface/row_program.py) prepared for the interpreter: values that are the same on every row are set
// apart, unused values are dropped, and every other value gets a slot for as long as it lives.
#pragma once
#include <cstdint>
#include <vector>

#include "goldilocks_rows_kernels.h"

namespace dp {
namespace rows {

// A row program; `code`, `outputs` and `fold` mean what they mean in row_program.py.
struct ProgramText {
  std::vector<u32> widths;
  const std::int32_t* code;  // (instructions, 4)
  size_t instructions;
  std::vector<u64> constants;
  size_t scalars;
  std::vector<u32> outputs;
  bool folds;
  size_t fold;
};

class RowCode {
 public:
  // Throws std::invalid_argument for a program that is not well formed.
  explicit RowCode(const ProgramText& text);

  const std::vector<u32>& widths() const { return widths_; }
  size_t scalars() const { return scalars_; }
  size_t output_columns() const { return output_columns_; }
  bool folds() const { return folds_; }
  // Slots that a block needs, of one word per row each.
  size_t slots() const { return slots_; }
  const std::vector<Step>& steps() const { return steps_; }
  // Slots that are folded, in order.
  const std::vector<u32>& folded() const { return folded_; }

  // What depends on the scalars only, worked out once per evaluation.
  struct Bound {
    std::vector<Ext> uniforms;      // for Step::a and ::b
    std::vector<u64> fold_weights;  // (folded, 3)
    Ext fold_start;                 // the sum of the folded values that are the same in every row
    std::vector<Ext> fixed;         // per fixed output: its value
  };
  Bound bind(const Ext* scalars) const;

  // Outputs that are the same in every row (when the program does not fold): first column and width.
  struct FixedOutput {
    u32 column, width;
  };
  const std::vector<FixedOutput>& fixed_outputs() const { return fixed_; }

 private:
  struct Uniform {
    u32 op;  // of row_program.py
    u32 a, b;
  };
  struct Folded {
    u32 scalar;
    u32 power;  // of x: which coordinate of the value
  };
  struct FoldedUniform {
    u32 scalar, uniform;
  };

  class Builder;

  std::vector<u32> widths_;
  std::vector<u64> constants_;
  size_t scalars_ = 0, output_columns_ = 0, slots_ = 0;
  bool folds_ = false;
  std::vector<Uniform> uniforms_;
  std::vector<Step> steps_;
  std::vector<u32> folded_;
  std::vector<Folded> folded_weights_;
  std::vector<FoldedUniform> folded_uniforms_;
  std::vector<FixedOutput> fixed_;
  std::vector<u32> fixed_uniforms_;
};

}  // namespace rows
}  // namespace dp

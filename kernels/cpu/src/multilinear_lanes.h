// The steps of multilinear_steps.h on lanes, by the loops of multilinear_kernels.h. Each function does what it can of a step, by any
// threads of a pool, and returns the items that are left to do one by one: those that do not fill the lanes. Steps without such a
// function leave all of them. Sums are added to.
#pragma once
#include <vector>

#include "multilinear_kernels.h"
#include "multilinear_steps.h"
#include "threads.h"

namespace dp {

struct Range {
  size_t begin, end;
};
using Ranges = std::vector<Range>;

// What works on lanes.
struct Lanes {
  Pool& pool;
  const rows::MultilinearKernels* kernels;  // null on a CPU without vectors

  template <class Step>
  Ranges each(const Step&, size_t items) const {
    return {{0, items}};
  }
  template <class Step>
  Ranges sums(const Step&, size_t items, int, std::vector<gl::Ext>&) const {
    return {{0, items}};
  }

  Ranges each(const gl::steps::Tabulate&, size_t items) const;
  Ranges each(const gl::steps::Layer&, size_t items) const;
  Ranges each(const gl::steps::Leaves&, size_t items) const;
  Ranges each(const gl::steps::FurtherCells&, size_t items) const;
  Ranges each(const gl::steps::RowFold&, size_t items) const;
  Ranges each(const gl::steps::Fold&, size_t items) const;
  Ranges each(const gl::steps::OpenedWeights&, size_t items) const;
  Ranges each(const gl::steps::Expand&, size_t items) const;
  Ranges each(const gl::steps::Between&, size_t items) const;
  Ranges sums(const gl::steps::Dot&, size_t items, int, std::vector<gl::Ext>& total) const;
  Ranges sums(const gl::steps::RunSums&, size_t items, int log_classes, std::vector<gl::Ext>& total) const;
  Ranges sums(const gl::steps::PointSums&, size_t items, int, std::vector<gl::Ext>& total) const;
  Ranges sums(const gl::steps::PairRounds&, size_t items, int, std::vector<gl::Ext>& total) const;
  Ranges sums(const gl::steps::LayerRound&, size_t items, int, std::vector<gl::Ext>& total) const;
};

// The loops of an instruction set, by its name in goldilocks_ops.h; null if it has none.
const rows::MultilinearKernels* multilinear_kernels(const std::string& set);

}  // namespace dp

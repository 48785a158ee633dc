// What adapters add to a stage's products: see reference/kernels.h for the sums. Rows of a step are grouped by adapter,
// so the matrices of each are read once for all of its rows; and matrices a of the products of one input lie together,
// so their sums are one product. Where each row of a step has an adapter of its own, their matrices are most of what is
// read. So beside matrices in groups they have 8 bits a number, as near to the floats as such matrices are to theirs;
// beside others, numbers that are BF16 exactly are kept so.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "core/adapter.h"
#include "core/aligned_vector.h"
#include "core/thread_pool.h"
#include "infer/cpu/cpu_weights.h"
#include "infer/forward/machine.h"

namespace folio::infer {

class CpuAdapters {
 public:
  /// Copies what the adapter adds to the layers' matrices: of each b the rows that `weights` have of the matrix.
  void load(int32_t number, const core::Adapter& adapter, LayerRange layers, const CpuWeights& weights);
  void unload(int32_t number) { adapters_.erase(number); }

  /// The step's rows, whose adapters are there.
  void begin(std::span<const StepRow> rows);
  /// Computes the rows' t for products of x (rows, k). Until the next call, add() adds what comes of it.
  void project(core::ThreadPool& pool, const kernels::Kernels& kernels, std::span<const Projection> projections,
               const float* x, size_t k);
  /// To the outputs [begin, end), counted from the first that the stage has of the matrix, begin a multiple of 16;
  /// `out` is where that one's are in the first row, and `stride` leads to the next row.
  void add(const kernels::Kernels& kernels, WeightId weight, size_t begin, size_t end, float* out, size_t stride) const;

 private:
  using Numbers =
      std::variant<core::AlignedVector<float>, core::AlignedVector<kernels::BF16>, core::AlignedVector<kernels::Q8>>;

  // Of one matrix.
  struct Part {
    int32_t weight;  ///< WeightId's
    size_t rank;
    size_t first;  ///< its first t, of the input's
    Numbers b;     ///< of the outputs that the stage has, as Kernels::add_low_rank has it
  };
  // Of all matrices of one layer that an input is multiplied by.
  struct Input {
    Numbers a;                  ///< (n_t, k)
    std::vector<float> scales;  ///< (n_t): the adapter's, times those of the quants that t comes from and goes into
    std::vector<Part> parts;
    [[nodiscard]] size_t n_t() const { return scales.size(); }
  };
  struct Loaded {
    std::vector<std::unique_ptr<Input>> inputs;
    std::vector<const Input*> of;  ///< by WeightId; null: nothing is added
  };
  // Rows of one adapter in the step in hand.
  struct Group {
    const Loaded* adapter;
    std::vector<size_t> rows;
    bool adjacent = true;  ///< each is the one after the last
    // In the product in hand.
    const Input* input = nullptr;  ///< null: it adds nothing
    const float* x = nullptr;
    size_t first_t = 0;  ///< its t in t_: (rows, n_t)
  };

  std::map<int32_t, Loaded> adapters_;
  std::vector<Group> groups_;
  core::AlignedVector<float> gathered_;  ///< rows that are not adjacent, (rows, k)
  std::vector<float> t_;
};

}  // namespace folio::infer

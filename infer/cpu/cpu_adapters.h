// Applies LoRA adapters to a stage's products. reference/kernels.h defines the order of the sums. A step's rows are
// grouped by adapter, so each adapter's matrices are read once per step. The matrices a of all products of one input
// are stored together and multiplied as one. To save memory traffic, adapters of group-quantized matrices are stored in
// 8 bits, with an error like that of the matrix's own quantization. Other adapters are stored in BF16 if that is exact.
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
  /// Loads the matrices of `layers` as adapter `number`. Stores only those rows of each matrix b whose outputs this
  /// rank computes, as `weights` specifies.
  void load(int32_t number, const core::Adapter& adapter, LayerRange layers, const CpuWeights& weights);
  void unload(int32_t number) { adapters_.erase(number); }

  /// Groups the step's rows by adapter. All of their adapters must be loaded.
  void begin(std::span<const StepRow> rows);
  /// Computes t = scale · x · aᵀ for rows with an adapter, and stores it for add(). x (rows, k) is the input of all
  /// `projections`.
  void project(core::ThreadPool& pool, const kernels::Kernels& kernels, std::span<const Projection> projections,
               const float* x, size_t k);
  /// Adds t · bᵀ, with t of the last project(), to outputs [begin, end) of matrix `weight`. Output 0 is the first that
  /// this rank computes, and begin is a multiple of 16. `out` points to output 0 of row 0; rows are `stride` elements
  /// apart.
  void add(const kernels::Kernels& kernels, WeightId weight, size_t begin, size_t end, float* out, size_t stride) const;

 private:
  using Numbers =
      std::variant<core::AlignedVector<float>, core::AlignedVector<kernels::BF16>, core::AlignedVector<kernels::Q8>>;

  // An adapter's update of one matrix.
  struct Part {
    int32_t weight;  ///< WeightId::index of the matrix
    size_t rank;
    size_t first;  ///< index of the part's first column in its Input's t = scale · x · aᵀ
    Numbers b;     ///< rows of b for the stage's outputs, in tiles of 16: (ceil(n_out / 16), rank, 16)
  };
  // An adapter's updates of all matrices of a layer that share an input.
  struct Input {
    Numbers a;                  ///< (n_t, k): the matrices a of all parts, one after another
    std::vector<float> scales;  ///< (n_t): the adapter's scale, divided by the 8-bit factors of a and b
    std::vector<Part> parts;
    [[nodiscard]] size_t n_t() const { return scales.size(); }
  };
  struct Loaded {
    std::vector<std::unique_ptr<Input>> inputs;
    std::vector<const Input*> of;  ///< by WeightId::index: the Input with the matrix's update; null: no update
  };
  // Rows of the current step that use the same adapter.
  struct Group {
    const Loaded* adapter;
    std::vector<size_t> rows;
    bool adjacent = true;  ///< the rows are consecutive
    // State of the current product.
    const Input* input = nullptr;  ///< null: the adapter does not change this product
    const float* x = nullptr;
    size_t first_t = 0;  ///< offset in t_ of the group's t = scale · x · aᵀ, (rows, n_t)
  };

  std::map<int32_t, Loaded> adapters_;
  std::vector<Group> groups_;
  core::AlignedVector<float> gathered_;  ///< copies of non-consecutive rows, (rows, k)
  std::vector<float> t_;
};

}  // namespace folio::infer

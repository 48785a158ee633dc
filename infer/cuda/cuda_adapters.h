// The adapters of a stage on one GPU: their matrices, and a table that says what each adds to each matrix of the stage.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/adapter.h"
#include "infer/cache/prefix_index.h"
#include "infer/cuda/device.h"
#include "infer/cuda/kernels.h"
#include "infer/forward/stage_weights.h"

namespace folio::infer {

// Where adapters come or go, the table's place and their slots change: no step may be on its way, and what was recorded
// has the old ones.
class CudaAdapters {
 public:
  /// Takes the parts of the layers that the stage has.
  void load(gpu::Stream& stream, int32_t number, const core::Adapter& adapter, const StageWeights& weights,
            LayerRange layers);
  void unload(gpu::Stream& stream, int32_t number);

  /// Of the adapter's parts in the table; -1 for kNoAdapter.
  [[nodiscard]] int32_t slot(int32_t number) const;
  /// For each row, to its product with `matrix`, what the adapter of its slot adds: see gpu::add_adapted().
  void add(gpu::Stream& stream, WeightId matrix, const float* x, size_t n_rows, size_t k, const int32_t* slots,
           float* out, size_t n_out) const;

 private:
  struct Loaded {
    std::vector<std::pair<int32_t, gpu::LowRank>> parts;  ///< with the id of their matrix
    gpu::DeviceMemory memory;
    int32_t slot = 0;
  };

  void place(gpu::Stream& stream);

  std::map<int32_t, Loaded> loaded_;      ///< by number
  std::map<int32_t, size_t> first_slot_;  ///< by the id of a matrix: where its slots begin in the table
  gpu::DeviceMemory table_;               ///< (matrices with parts, adapters)
};

}  // namespace folio::infer

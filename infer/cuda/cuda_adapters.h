// LoRA adapters of a stage on a GPU: their A and B matrices, and a table with an entry per (weight matrix, adapter).
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

// The loaded adapters of a stage. Loading or unloading one moves the table and reassigns slots: no step may be in
// flight, and recorded steps become invalid.
class CudaAdapters {
 public:
  /// Uploads the adapter's updates of `layers` and registers them as adapter `number`. `weights` has the IDs of the
  /// stage's matrices.
  void load(gpu::Stream& stream, int32_t number, const core::Adapter& adapter, const StageWeights& weights,
            LayerRange layers);
  void unload(gpu::Stream& stream, int32_t number);

  /// Returns an adapter's slot, its index among the table entries of a matrix; -1 for kNoAdapter.
  [[nodiscard]] int32_t slot(int32_t number) const;
  /// Adds the updates of the rows' adapters to `out` (n_rows, n_out), the product of x (n_rows, k) and `matrix`.
  /// `slots` (n_rows), in device memory, has slot() of each row's adapter.
  void add(gpu::Stream& stream, WeightId matrix, const float* x, size_t n_rows, size_t k, const int32_t* slots,
           float* out, size_t n_out) const;

 private:
  struct Loaded {
    std::vector<std::pair<int32_t, gpu::AdapterPart>> parts;  ///< updates, each with its matrix's WeightId::index
    gpu::DeviceMemory memory;
    int32_t slot = 0;
  };

  void place(gpu::Stream& stream);

  std::map<int32_t, Loaded> loaded_;      ///< by adapter number
  std::map<int32_t, size_t> first_slot_;  ///< by WeightId::index: index in table_ of the matrix's first entry
  gpu::DeviceMemory table_;               ///< (updated matrices, adapters) gpu::AdapterParts
};

}  // namespace folio::infer

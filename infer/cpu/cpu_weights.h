// A stage's weights in the CPU's memory, once: floats and 16-bit numbers copied to large pages, which are read faster,
// but where the file is mapped if they are few or more than half of the memory (worth_copying); block types repacked
// into groups. The memory of the file's pages is given back behind a copy. What the reader of the file had to copy
// already, such as a Hugging Face directory's Wq and Wk, stays where it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "core/weights.h"
#include "infer/cpu/matrix.h"
#include "infer/forward/machine.h"

namespace folio::infer {

class CpuWeights {
 public:
  struct Options {
    bool fast = false;    ///< 16-bit matrices become BF16 in panels, F16 rounded
    bool copies = false;  ///< no weight stays where the file is mapped, also where that is as fast
  };

  /// Loads what the shard needs: of each matrix its rank's rows. Throws core::Error if a tensor is of a type that
  /// weights don't have.
  CpuWeights(const core::StoredModel& model, const Shard& shard, core::ThreadPool& pool, const Options& options);

  [[nodiscard]] const StageWeights& by_role() const { return by_role_; }
  [[nodiscard]] const LoadReport& report() const { return report_; }

  /// A matrix, or a vector's numbers.
  [[nodiscard]] const Matrix& matrix(WeightId id) const { return matrices_[static_cast<size_t>(id.index)]; }
  /// The n matrices of a stack.
  [[nodiscard]] std::span<const Matrix> stack(WeightId id, size_t n) const {
    return std::span(matrices_).subspan(static_cast<size_t>(id.index), n);
  }
  [[nodiscard]] const float* vector(WeightId id) const { return std::get<const float*>(matrix(id).weights); }

 private:
  struct Free {
    void operator()(uint8_t* p) const;
  };

  StageWeights load(const core::StoredModel& model, const Shard& shard, core::ThreadPool& pool, const Options& options);
  void add_matrix(const core::TensorView& whole, const Shard& shard, core::ThreadPool& pool, const Options& options,
                  uint8_t*& to, const core::StoredModel& model);
  Matrix vector(const core::TensorView& tensor);
  Matrix floats(const core::TensorView& tensor, core::ThreadPool& pool, bool copies, uint8_t*& to);
  Matrix groups(const core::TensorView& tensor, core::ThreadPool& pool, uint8_t* to, const core::StoredModel& model);

  LoadReport report_;
  std::vector<Matrix> matrices_;  ///< by WeightId: of a stack the first matrix, which the others follow
  std::vector<std::vector<std::byte>> copies_;
  std::unique_ptr<uint8_t, Free> memory_;  ///< all groups, and all floats that are copied
  StageWeights by_role_;                   // last: loading fills the members above
};

}  // namespace folio::infer

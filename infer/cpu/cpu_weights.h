// A stage's weights in memory, without duplicates. Float and 16-bit matrices are copied to huge pages, which are faster
// to read. If their total size is small or exceeds half of the memory (worth_copying()), they are read from the mapped
// file instead. Block types are repacked into groups. File pages are released after a copy. Tensors that the
// file's reader had to copy, such as Wq and Wk of a Hugging Face directory, stay in the reader's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "core/weights.h"
#include "infer/cpu/huge_pages.h"
#include "infer/cpu/matrix.h"
#include "infer/forward/machine.h"

namespace folio::infer {

class CpuWeights {
 public:
  struct Options {
    bool fast = false;    ///< packs 16-bit matrices into BF16 panels, rounding F16
    bool copies = false;  ///< copies all weights, even if reading the mapped file is as fast
  };

  /// Loads the shard's weights: its rank's rows of each matrix. Throws core::Error if a tensor's type is unsupported.
  CpuWeights(const core::StoredModel& model, const Shard& shard, core::ThreadPool& pool, const Options& options);

  [[nodiscard]] const StageWeights& by_role() const { return by_role_; }
  [[nodiscard]] const LoadReport& report() const { return report_; }

  /// Returns a matrix; a vector is stored as a matrix of one row.
  [[nodiscard]] const Matrix& matrix(WeightId id) const { return matrices_[static_cast<size_t>(id.index)]; }
  /// Returns the n matrices of a stack, such as a layer's experts.
  [[nodiscard]] std::span<const Matrix> stack(WeightId id, size_t n) const {
    return std::span(matrices_).subspan(static_cast<size_t>(id.index), n);
  }
  [[nodiscard]] const float* vector(WeightId id) const { return std::get<const float*>(matrix(id).weights); }

 private:
  StageWeights load(const core::StoredModel& model, const Shard& shard, core::ThreadPool& pool, const Options& options);
  void add_matrix(const core::TensorView& tensor, core::ThreadPool& pool, const Options& options, uint8_t*& to,
                  const core::StoredModel& model);
  Matrix vector(const core::TensorView& tensor);
  Matrix floats(const core::TensorView& tensor, core::ThreadPool& pool, bool copies, uint8_t*& to);
  Matrix groups(const core::TensorView& tensor, core::ThreadPool& pool, uint8_t* to, const core::StoredModel& model);

  LoadReport report_;
  std::vector<Matrix> matrices_;  ///< by WeightId; the matrices of a stack are adjacent
  std::vector<std::vector<std::byte>> copies_;
  HugePages memory_;      ///< repacked and copied weights
  StageWeights by_role_;  // declared last: constructing it fills the members above
};

}  // namespace folio::infer

// RAII handle of a sequence in the KV cache.
#pragma once

#include "infer/cache/block_manager.h"

namespace folio::infer {

class ScopedSequence {
 public:
  explicit ScopedSequence(BlockManager& cache, int32_t adapter = kNoAdapter)
      : cache_(cache), id_(cache.add_sequence(adapter)) {}
  ~ScopedSequence() { cache_.release(id_); }
  ScopedSequence(const ScopedSequence&) = delete;
  ScopedSequence& operator=(const ScopedSequence&) = delete;

  [[nodiscard]] SequenceId id() const { return id_; }

 private:
  BlockManager& cache_;
  SequenceId id_;
};

}  // namespace folio::infer

// A sequence of the cache for the length of a scope.
#pragma once

#include "infer/cache/kv_cache.h"

namespace folio::infer {

class ScopedSequence {
 public:
  explicit ScopedSequence(KvCache& cache) : cache_(cache), id_(cache.add_sequence()) {}
  ~ScopedSequence() { cache_.release(id_); }
  ScopedSequence(const ScopedSequence&) = delete;
  ScopedSequence& operator=(const ScopedSequence&) = delete;

  [[nodiscard]] SequenceId id() const { return id_; }

 private:
  KvCache& cache_;
  SequenceId id_;
};

}  // namespace folio::infer

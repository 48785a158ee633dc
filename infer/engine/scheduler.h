// Selects the rows of each step, as vLLM's V1 scheduler does (Kwon et al. 2023). A step has a budget of rows. Running
// sequences get rows first, oldest first; then waiting sequences start in order of arrival. When the KV cache is full,
// the youngest sequence is preempted and recomputed later. So the oldest sequence always continues, and no sequence
// starves. With n steps in flight, each step runs 1/n of the sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/cache/block_manager.h"
#include "infer/engine/sequence.h"

namespace folio::infer {

struct SchedulerLimits {
  size_t max_rows = 4096;      ///< maximum rows per step, capped by the machine's maximum
  size_t max_sequences = 256;  ///< maximum number of running sequences
  size_t n_steps = 1;          ///< number of steps in flight; each runs 1 / n_steps of the sequences
};

class Scheduler {
 public:
  /// The decisions of a plan: each sequence's number of rows, and the sequences started and preempted.
  struct Trace {
    struct Share {
      Sequence* sequence;
      size_t n_rows;
    };
    std::vector<Share> shares{};
    std::vector<Sequence*> started{};
    std::vector<Sequence*> preempted{};
  };

  /// `cache` must outlive the scheduler, and no other caller may allocate its blocks while a sequence runs. Throws
  /// core::Error if max_rows or max_sequences is 0.
  Scheduler(BlockManager& cache, const SchedulerLimits& limits);

  /// Adds a waiting sequence, ordered by key: a new one goes to the end, a resumed one returns to its old position.
  /// Throws core::Error if the sequences that must run together exceed max_sequences or can never fit in the cache.
  void add(Sequence& sequence);
  /// Makes `child` a running copy of `parent`, a running sequence of the same request. Releases the child's old blocks.
  void fork(Sequence& child, const Sequence& parent);
  /// Removes a sequence and releases its blocks. Full blocks stay in the prefix cache until they are evicted.
  void remove(Sequence& sequence);

  /// Plans the next step: continues, preempts and starts sequences. `append`(sequence, most) must append at most `most`
  /// of the sequence's next rows to the step and return their number; `most` is at least 1. `on_preempt`, if set, is
  /// called for each preempted sequence before the next append(), which may throw.
  const Trace& plan(const std::function<size_t(Sequence& sequence, size_t most)>& append,
                    const std::function<void(Sequence& sequence)>& on_preempt = {});
  /// Returns true if there are free blocks for one more row of each sequence and no waiting sequence can be started.
  [[nodiscard]] bool can_continue(std::span<Sequence* const> sequences) const;

  [[nodiscard]] size_t max_rows() const { return limits_.max_rows; }
  [[nodiscard]] std::span<Sequence* const> running() const { return std::span(sequences_).first(n_running_); }
  [[nodiscard]] std::span<Sequence* const> waiting() const { return std::span(sequences_).subspan(n_running_); }

 private:
  // A running sequence from which a sequence of the same request can be forked, and the length of their common prefix.
  struct Origin {
    const Sequence* sequence = nullptr;  ///< null: no common prefix
    int64_t length = 0;
  };

  [[nodiscard]] std::vector<Sequence*>::iterator place_of(const Sequence& sequence, size_t first, size_t end);
  [[nodiscard]] std::span<Sequence* const> running_of(RequestId request) const;
  [[nodiscard]] std::span<Sequence* const> unit_at(size_t first, size_t end) const;
  [[nodiscard]] int64_t blocks_needed(std::span<Sequence* const> unit, int64_t rows) const;
  [[nodiscard]] int64_t n_drafts(const Sequence& sequence, int64_t most, int64_t free) const;
  [[nodiscard]] size_t places_taken() const;
  [[nodiscard]] size_t next_waiting() const;
  [[nodiscard]] bool next_fits(int64_t free) const;
  [[nodiscard]] Origin origin_of(const Sequence& sequence) const;
  [[nodiscard]] int64_t copies_by_fork(const Sequence& sequence) const;
  Sequence& start_next();
  void preempt_youngest(const std::function<void(Sequence& sequence)>& on_preempt);

  BlockManager& cache_;
  SchedulerLimits limits_;
  std::vector<Sequence*> sequences_;  ///< running ones first, then waiting ones, each ordered by request and index
  size_t n_running_ = 0;
  Trace trace_;
};

}  // namespace folio::infer

// Which sequences run next, as in vLLM's V1 (Kwon et al. 2023): a step has a budget of rows. Each sequence that runs
// gets its next rows, the oldest first; what is left goes to those that wait, in the order in which they came. When the
// blocks of the cache run out, the youngest is preempted and recomputed later. So those that run are always the oldest,
// none waits forever behind younger ones, and the oldest always continues. Where several steps are in flight, each
// takes its share of the sequences. Uses no model: tests/infer/engine/scheduler_test.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/cache/block_manager.h"
#include "infer/engine/sequence.h"

namespace folio::infer {

struct SchedulerLimits {
  size_t max_rows = 4096;      ///< of a step, if the machine allows so many
  size_t max_sequences = 256;  ///< that run
  size_t max_drafts = 15;      ///< rows of a step that may turn out to be wrong
  size_t n_steps = 1;          ///< under way at once, each with a part of the sequences
};

class Scheduler {
 public:
  /// What happened in a plan.
  struct Trace {
    struct Share {
      Sequence* sequence;
      size_t n_rows;
    };
    std::vector<Share> shares{};
    std::vector<Sequence*> started{};
    std::vector<Sequence*> preempted{};
  };

  /// The cache must outlive the scheduler, and no other caller may take its blocks while a sequence runs. Throws
  /// core::Error if a limit is 0.
  Scheduler(BlockManager& cache, const SchedulerLimits& limits);

  /// Makes the sequence wait, in the order of ids: after all others if it is new, in its old place if it was removed to
  /// be paused. Throws core::Error if it can never run: the cache can't hold it and those that run together with it, or
  /// they are more than may run.
  void add(Sequence& sequence);
  /// Makes `child` run, with the tokens and all blocks of `parent`, which runs and is of the same request. If it ran,
  /// its own blocks are released.
  void fork(Sequence& child, const Sequence& parent);
  /// Releases its blocks, if it runs. Its full blocks stay in the cache for a while.
  void remove(Sequence& sequence);

  /// Plans the rows of the next step: sequences start, and are preempted. `append`(sequence, most) appends at most
  /// `most` of the sequence's next rows to the step, and returns how many; at least one is asked for.
  const Trace& plan(const std::function<size_t(Sequence& sequence, size_t most)>& append);
  /// Drafts that each sequence may try in the next plan.
  [[nodiscard]] size_t n_drafts_each() const;
  /// These sequences can have a row more each, and no other could start instead.
  [[nodiscard]] bool can_continue(std::span<Sequence* const> sequences) const;

  [[nodiscard]] std::span<Sequence* const> running() const { return std::span(sequences_).first(n_running_); }
  [[nodiscard]] std::span<Sequence* const> waiting() const { return std::span(sequences_).subspan(n_running_); }

 private:
  // A running sequence of the same request, and how many first tokens they share.
  struct Origin {
    const Sequence* sequence = nullptr;  ///< null: none shares a token
    int64_t length = 0;
  };

  [[nodiscard]] std::vector<Sequence*>::iterator place_of(const Sequence& sequence, size_t first, size_t end);
  [[nodiscard]] std::span<Sequence* const> running_of(RequestId request) const;
  [[nodiscard]] std::span<Sequence* const> unit_at(size_t first, size_t end) const;
  [[nodiscard]] int64_t blocks_needed(std::span<Sequence* const> unit, int64_t rows) const;
  [[nodiscard]] int64_t n_drafts(const Sequence& sequence, int64_t most, int64_t free) const;
  [[nodiscard]] size_t places_taken() const;
  [[nodiscard]] bool next_fits(int64_t free) const;
  [[nodiscard]] Origin origin_of(const Sequence& sequence) const;
  [[nodiscard]] int64_t copies_by_fork(const Sequence& sequence) const;
  Sequence& start_next();
  void preempt_youngest();

  BlockManager& cache_;
  SchedulerLimits limits_;
  std::vector<Sequence*> sequences_;  ///< first those that run, then those that wait, each by request and index
  size_t n_running_ = 0;
  Trace trace_;
};

}  // namespace folio::infer

// Who runs next, as in vLLM's V1 (Kwon et al. 2023): a step has a budget of rows. Each request that runs gets its next
// rows, the oldest first; what is left goes to those that wait, in the order in which they came. When the blocks of the
// cache run out, the youngest is put back and computed again later. So those that run are always the oldest, nobody
// waits for ever behind younger ones, and the oldest always goes on. Knows no model: tests/infer/engine/scheduler_test.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "infer/cache/block_manager.h"

namespace folio::infer {

class Scheduler {
 public:
  /// What has to be known of a request.
  class Job {
   public:
    virtual ~Job() = default;
    /// Whose keys and values its sequence has to hold, as far as they are known.
    [[nodiscard]] virtual std::span<const int32_t> tokens() const = 0;
    /// So many of the first need not be computed, if the cache knows them; fewer than all.
    [[nodiscard]] virtual size_t shareable() const = 0;
    /// The most positions that its sequence may come to hold.
    [[nodiscard]] virtual int64_t max_positions() const = 0;
    /// Rows behind those that it would try if nothing else wants them: they may turn out to be wrong.
    [[nodiscard]] virtual size_t n_ahead() const { return 0; }
    /// Whether no other takes part in its steps.
    [[nodiscard]] virtual bool alone() const { return false; }

    /// Where its keys and values are, while it runs.
    [[nodiscard]] SequenceId sequence() const { return sequence_; }
    [[nodiscard]] bool runs() const { return sequence_ >= 0; }
    /// How many of its tokens it did not have to compute, when it last started.
    [[nodiscard]] int64_t n_shared() const { return n_shared_; }
    /// Its first shareable() tokens are those of an older job: while that one runs, they are computed once, for both.
    void share_with(const Job& older) { older_ = &older; }

   private:
    friend class Scheduler;
    SequenceId sequence_ = -1;
    int64_t n_shared_ = 0;
    const Job* older_ = nullptr;
  };

  struct Limits {
    size_t max_rows = 4096;      ///< of a step, if the machine allows so many
    size_t max_sequences = 256;  ///< that run
    size_t max_ahead = 15;       ///< rows that may turn out to be wrong, in a step
  };

  /// What happened in a plan.
  struct Trace {
    struct Part {
      const Job* job;
      size_t n_rows;
    };
    std::vector<Part> parts{};
    std::vector<const Job*> started{};
    std::vector<const Job*> put_back{};
    int64_t free_blocks = 0;  ///< before the plan

    /// On one line: "9 blocks free; b starts, knows 96; a 1, b 4 rows".
    [[nodiscard]] std::string text(const std::function<std::string(const Job&)>& name) const;
  };

  /// Appends at most `most` of the job's next rows to the step, and says how many. Asked for at least one.
  using Append = std::function<size_t(Job& job, size_t most)>;

  /// The cache has to outlive the scheduler, and nobody else may take its blocks while a job runs. Throws core::Error
  /// if a limit is 0.
  Scheduler(BlockManager& cache, const Limits& limits);

  /// The job waits from now on. Throws core::Error if the cache can never hold it.
  void add(Job& job);
  /// Gives its blocks back, if it runs. Its full blocks are known for a while.
  void remove(Job& job);

  /// The rows of the next step. Jobs start, and are put back.
  const Trace& plan(const Append& append);
  /// Rows that each job may try in the next plan, beside those that it needs.
  [[nodiscard]] size_t n_ahead_each() const { return limits_.max_ahead / std::max<size_t>(n_running_, 1); }
  /// Whether these jobs can have a row more each, and nobody could start instead.
  [[nodiscard]] bool can_go_on(std::span<Job* const> jobs) const;

  [[nodiscard]] std::span<Job* const> running() const { return std::span(jobs_).first(n_running_); }
  [[nodiscard]] std::span<Job* const> waiting() const { return std::span(jobs_).subspan(n_running_); }

 private:
  [[nodiscard]] int64_t fresh(const Job& job) const;
  [[nodiscard]] int64_t ahead(const Job& job, int64_t most, int64_t free) const;
  [[nodiscard]] bool next_fits(int64_t free) const;
  [[nodiscard]] static bool forks(const Job& job);
  [[nodiscard]] static int64_t copies_by_fork(const Job& job);
  void start_next();
  void put_back_youngest();

  BlockManager& cache_;
  Limits limits_;
  std::vector<Job*> jobs_;  ///< in the order in which they came: first those that run, then those that wait
  size_t n_running_ = 0;
  Trace trace_;
};

}  // namespace folio::infer

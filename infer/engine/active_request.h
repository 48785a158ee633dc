// A request on its way: a group of branches that share the blocks of their prompt. Where it samples, each branch draws
// its own tokens, and is one choice. Where it searches, its branches are beams: what all of them may go on with decides
// which go on, which are forked and which are dropped.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "infer/engine/branch.h"

namespace folio::infer {

class ActiveRequest {
 public:
  /// Throws core::Error if the request cannot run on the model.
  ActiveRequest(RequestId id, Request request, const core::ModelConfig& config, BlockManager& cache);
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

  [[nodiscard]] const Request& request() const { return request_; }
  /// Hands the branches to the scheduler that are there from the beginning. Throws as Scheduler::add does.
  void start(Scheduler<Branch>& scheduler);
  /// All of them; of beams some may not be in use.
  [[nodiscard]] std::deque<Branch>& branches() { return branches_; }
  [[nodiscard]] const std::deque<Branch>& branches() const { return branches_; }

  /// If it searches, and all beams know what they may go on with: they do.
  void follow_beams(Scheduler<Branch>& scheduler);

  /// Its branches are in no scheduler, and hold no blocks. See Request::backlog.
  void set_paused(bool paused) { paused_ = paused; }
  [[nodiscard]] bool paused() const { return paused_; }

  void finish(FinishReason reason);
  /// Whether all of its texts have ended.
  [[nodiscard]] bool done() const;
  /// Of each choice; of beams the best first.
  [[nodiscard]] std::vector<GenerateResult> results() const;

 private:
  [[nodiscard]] GenerateResult result_of(std::span<const int32_t> tokens, FinishReason reason, double score) const;
  void keep_best(std::span<const BeamSearch::Finished> finished);
  void show_results() const;

  Request request_;
  std::deque<Branch> branches_;
  std::optional<BeamSearch> search_;
  std::vector<size_t> beams_;            ///< branches that are in use, the most likely first
  std::vector<GenerateResult> results_;  ///< of a search that is done
  bool paused_ = false;
};

}  // namespace folio::infer

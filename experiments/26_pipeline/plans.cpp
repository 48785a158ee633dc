#include "experiments/26_pipeline/plans.h"

#include <algorithm>
#include <deque>

#include "core/error.h"

namespace folio::experiments {
namespace {

using train::parallel::Action;
using train::parallel::Schedule;
using Kind = Action::Kind;

Plan plan_of(std::string name, const Schedule& schedule, int64_t n_chunks) {
  const auto n_ranks = static_cast<int64_t>(schedule.size());
  Plan plan{.name = std::move(name),
            .ranks = {},
            .n_stages = n_ranks * n_chunks,
            .n_chunks = n_chunks,
            .stage_of = [n_ranks](int64_t rank, int64_t chunk) { return chunk * n_ranks + rank; }};
  for (const auto& actions : schedule) {
    auto& steps = plan.ranks.emplace_back();
    for (const Action& action : actions) steps.push_back({action});
  }
  return plan;
}

// Generates the actions of one rank of DualPipe. Microbatches enter the pipeline at both ends: those of direction
// `near_` at the end closer to this rank, those of `far_` at the opposite end.
class DualPipeRank {
 public:
  DualPipeRank(int64_t rank, int64_t n_ranks, int64_t n_microbatches)
      : half_(n_ranks / 2),
        from_end_(std::min(rank, n_ranks - 1 - rank)),
        n_(n_microbatches / 2),
        near_{.chunk = rank < half_ ? 0 : 1, .first = rank < half_ ? 0 : n_},
        far_{.chunk = 1 - near_.chunk, .first = n_ - near_.first} {}

  std::vector<Together> steps() {
    const int64_t to_middle = half_ - 1 - from_end_;  // ranks between this one and the middle
    // Warm-up: forward passes of the near direction, then also of the far direction when its first microbatch arrives.
    for (int64_t i = 0; i < 2 * to_middle; ++i) alone(forward(near_));
    for (int64_t i = 0; i <= from_end_; ++i) {
      alone(forward(near_));
      alone(forward(far_));
    }
    // The near direction has no gradients yet, so its backward passes can't overlap with far forward passes. Backward
    // passes for weights fill the idle time.
    for (int64_t i = 0; i < to_middle; ++i) {
      alone(backward_input(far_));
      alone(backward_weights());
      alone(forward(far_));
    }
    // Steady state: a forward pass of each direction is overlapped with a backward pass of the other.
    while (near_.n_forward < n_) {
      const bool first_of_all = to_middle == 0 && far_.n_backward == 0;
      if (first_of_all) {  // on the middle ranks, DualPipe doesn't overlap the first two passes
        alone(forward(near_));
        alone(backward(far_));
      } else {
        both(near_, far_);
      }
      both(far_, near_);
    }
    for (int64_t i = 0; i < to_middle; ++i) {
      alone(backward(far_));
      both(far_, near_);
    }
    // Cool-down: only backward passes remain. The second half of this loop postpones weight gradients to later gaps.
    for (int64_t i = 0; i < 2 * (from_end_ + 1); ++i) {
      Direction& direction = i % 2 == 0 ? far_ : near_;
      alone(i > from_end_ ? backward_input(direction) : backward(direction));
    }
    for (int64_t i = 0; i < to_middle; ++i) {
      alone(backward_weights());
      alone(backward_input(near_));
    }
    while (!weights_left_.empty()) alone(backward_weights());
    return std::move(steps_);
  }

 private:
  struct Direction {
    int64_t chunk;
    int64_t first;  // index of the direction's first microbatch
    int64_t n_forward = 0, n_backward = 0;
  };

  static Action forward(Direction& d) { return {Kind::Forward, d.chunk, d.first + d.n_forward++}; }
  static Action backward(Direction& d) { return {Kind::Backward, d.chunk, d.first + d.n_backward++}; }
  Action backward_input(Direction& d) {
    const Action action{Kind::BackwardInput, d.chunk, d.first + d.n_backward++};
    weights_left_.push_back({Kind::BackwardWeights, action.chunk, action.microbatch});
    return action;
  }
  Action backward_weights() {
    const Action action = weights_left_.front();
    weights_left_.pop_front();
    return action;
  }
  void alone(const Action& action) { steps_.push_back({action}); }
  void both(Direction& there, Direction& back) {
    const Action action = forward(there);
    steps_.push_back({action, backward(back)});
  }

  int64_t half_, from_end_, n_;
  Direction near_, far_;
  std::deque<Action> weights_left_;
  std::vector<Together> steps_;
};

}  // namespace

Plan plan_1f1b(int64_t n_ranks, int64_t n_microbatches) {
  return plan_of("1F1B", train::parallel::interleaved(n_ranks, 1, n_microbatches), 1);
}

Plan plan_interleaved(int64_t n_ranks, int64_t n_chunks, int64_t n_microbatches) {
  return plan_of(fmt::format("interleaved, {} chunks", n_chunks),
                 train::parallel::interleaved(n_ranks, n_chunks, n_microbatches), n_chunks);
}

Plan plan_zb1p(int64_t n_ranks, int64_t n_microbatches) {
  // Rank r of p postpones r backward passes for weights to the end. Then each rank holds the activations of p
  // microbatches: p - r as in 1F1B, and r that wait for their weight gradients.
  Schedule schedule;
  for (const auto& whole : train::parallel::interleaved(n_ranks, 1, n_microbatches)) {
    const auto rank = static_cast<int64_t>(schedule.size());
    auto& actions = schedule.emplace_back();
    int64_t n_weights = 0;
    for (const Action& action : whole) {
      if (action.kind != Kind::Backward) {
        actions.push_back(action);
        continue;
      }
      actions.push_back({Kind::BackwardInput, 0, action.microbatch});
      if (action.microbatch >= rank) actions.push_back({Kind::BackwardWeights, 0, n_weights++});
    }
    while (n_weights < n_microbatches) actions.push_back({Kind::BackwardWeights, 0, n_weights++});
  }
  return plan_of("ZB1P", schedule, 1);
}

Plan plan_dualpipe(int64_t n_ranks, int64_t n_microbatches) {
  core::require(n_ranks % 2 == 0, "DualPipe needs an even number of ranks, not {}", n_ranks);
  core::require(n_microbatches % 2 == 0 && n_microbatches >= 2 * n_ranks,
                "DualPipe of {} ranks needs an even number of microbatches, {} or more, not {}", n_ranks, 2 * n_ranks,
                n_microbatches);
  Plan plan{.name = "DualPipe",
            .ranks = {},
            .n_stages = n_ranks,
            .n_chunks = 2,
            .stage_of = [n_ranks](int64_t rank, int64_t chunk) { return chunk == 0 ? rank : n_ranks - 1 - rank; }};
  for (int64_t rank = 0; rank < n_ranks; ++rank) {
    plan.ranks.push_back(DualPipeRank(rank, n_ranks, n_microbatches).steps());
  }
  return plan;
}

}  // namespace folio::experiments

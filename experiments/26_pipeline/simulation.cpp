#include "experiments/26_pipeline/simulation.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/error.h"
#include "experiments/common/statistics.h"

namespace folio::experiments {
namespace {

using train::parallel::Action;
using Kind = Action::Kind;

int64_t time_of(const Together& together, const Times& times) {
  if (together.size() > 1) return times.both;
  switch (together.front().kind) {
    case Kind::Forward:
      return times.forward;
    case Kind::Backward:
      return times.backward();
    case Kind::BackwardInput:
      return times.backward_input;
    case Kind::BackwardWeights:
      return times.backward_weights;
  }
  return 0;
}

class Simulation {
 public:
  Simulation(const Plan& plan, const Times& times) : plan_(plan), times_(times), timeline_(plan.ranks.size()) {}

  Timeline run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
        while (step(rank)) moved = true;
      }
    }
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      const size_t n = timeline_[rank].size();
      core::require(n == plan_.ranks[rank].size(), "{}: rank {} waits forever with its action {} of {}", plan_.name,
                    rank, n + 1, plan_.ranks[rank].size());
    }
    return std::move(timeline_);
  }

 private:
  enum class Made { Output, InputGradient };
  using Key = std::tuple<Made, int64_t, int64_t>;  // kind, stage, microbatch

  // Simulates the rank's next actions. Returns false if there are none, or if their inputs aren't available yet.
  bool step(size_t rank) {
    const size_t n = timeline_[rank].size();
    if (n == plan_.ranks[rank].size()) return false;
    const Together& together = plan_.ranks[rank][n];
    int64_t start = n == 0 ? 0 : timeline_[rank].back().end;
    for (const Action& action : together) {
      const auto there = when_there(action, plan_.stage_of(static_cast<int64_t>(rank), action.chunk));
      if (!there) return false;
      start = std::max(start, *there);
    }
    const int64_t end = start + time_of(together, times_);
    timeline_[rank].push_back({together, start, end});
    for (const Action& action : together) {
      const int64_t stage = plan_.stage_of(static_cast<int64_t>(rank), action.chunk);
      if (action.kind == Kind::BackwardWeights) continue;
      made_[{action.kind == Kind::Forward ? Made::Output : Made::InputGradient, stage, action.microbatch}] = end;
    }
    return true;
  }

  std::optional<int64_t> when_there(const Action& action, int64_t stage) const {
    const int64_t m = action.microbatch;
    if (action.kind == Kind::Forward) return stage == 0 ? 0 : when_made({Made::Output, stage - 1, m});
    if (action.kind == Kind::BackwardWeights) return when_made({Made::InputGradient, stage, m});
    const auto own = when_made({Made::Output, stage, m});
    if (!own || stage == plan_.n_stages - 1) return own;
    return when_made({Made::InputGradient, stage + 1, m});  // always later than this stage's forward pass
  }

  std::optional<int64_t> when_made(const Key& key) const {
    const auto found = made_.find(key);
    return found == made_.end() ? std::nullopt : std::optional(found->second);
  }

  const Plan& plan_;
  Times times_;
  Timeline timeline_;
  std::map<Key, int64_t> made_;
};

}  // namespace

Timeline simulate(const Plan& plan, const Times& times) { return Simulation(plan, times).run(); }

int64_t end_of(const Timeline& timeline) {
  int64_t end = 0;
  for (const auto& boxes : timeline) {
    if (!boxes.empty()) end = std::max(end, boxes.back().end);
  }
  return end;
}

std::vector<int64_t> idle_times(const Timeline& timeline) {
  std::vector<int64_t> idle;
  for (const auto& boxes : timeline) {
    idle.push_back(end_of(timeline));
    for (const Box& box : boxes) idle.back() -= box.end - box.start;
  }
  return idle;
}

std::vector<double> most_held(const Plan& plan) {
  std::vector<double> most;
  for (const auto& steps : plan.ranks) {
    int64_t held = 0, most_here = 0;
    for (const Together& together : steps) {
      for (const Action& action : together) held += action.kind == Kind::Forward ? 1 : 0;
      most_here = std::max(most_here, held);
      for (const Action& action : together) {
        held -= action.kind == Kind::Backward || action.kind == Kind::BackwardWeights ? 1 : 0;
      }
    }
    most.push_back(ratio(most_here * plan.n_ranks(), plan.n_stages));
  }
  return most;
}

}  // namespace folio::experiments

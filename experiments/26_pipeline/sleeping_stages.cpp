#include "experiments/26_pipeline/sleeping_stages.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <tuple>

#include "core/file_io.h"
#include "experiments/26_pipeline/plans.h"
#include "train/parallel/pipeline.h"
#include "train/parallel/world.h"

namespace folio::experiments {
namespace {

using torch::Tensor;
using train::parallel::Action;
using Kind = Action::Kind;

int64_t now_us() {
  // All processes of a host share this clock, so the times of ranks can be compared.
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Sleeps for the duration of an action, and records the action's start and end times.
class Sleeper {
 public:
  explicit Sleeper(const Times& times) : times_(times) {}

  void sleep(const Action& action) {
    const int64_t start = now_us();
    std::this_thread::sleep_for(
        std::chrono::microseconds(action.kind == Kind::Forward ? times_.forward : times_.backward()));
    const auto kind = static_cast<int64_t>(action.kind);
    for (const int64_t n : {kind, action.chunk, action.microbatch, start, now_us()}) numbers_.push_back(n);
  }
  [[nodiscard]] Tensor numbers() const { return torch::tensor(numbers_, torch::kInt64).view({-1, 5}); }

 private:
  Times times_;
  std::vector<int64_t> numbers_;
};

Tensor run(const Slept& slept, train::parallel::Group& line) {
  Sleeper sleeper(slept.times);
  const int64_t rank = line.index();
  const train::parallel::StageWork work{
      .shape = {1}, .type = torch::kFloat, .forward = [&](int64_t chunk, int64_t microbatch, const Tensor& x) {
        const Tensor from = x.defined() ? x : torch::ones({1}).requires_grad_();
        sleeper.sleep({Kind::Forward, chunk, microbatch});
        const Tensor y = from.clone();
        y.register_hook([&sleeper, chunk, microbatch](const Tensor&) {  // called when y's gradient has arrived
          sleeper.sleep({Kind::Backward, chunk, microbatch});
        });
        return slept.plan.stage_of(rank, chunk) + 1 == slept.plan.n_stages ? y.sum() : y;
      }};
  std::vector<Action> actions;
  for (const Together& together : slept.plan.ranks[static_cast<size_t>(rank)]) actions.push_back(together.front());
  line.meet();
  train::parallel::run_pipeline(actions, slept.plan.n_chunks, work, line);
  return sleeper.numbers();
}

}  // namespace

std::vector<Slept> plans_to_sleep(int64_t n_ranks, int64_t n_microbatches, int64_t forward_us) {
  constexpr int64_t kChunks = 2;
  const auto times = [](int64_t forward) {
    return Times{.forward = forward, .backward_input = forward, .backward_weights = forward, .both = 3 * forward};
  };
  return {{plan_1f1b(n_ranks, n_microbatches), times(forward_us)},
          {plan_interleaved(n_ranks, kChunks, n_microbatches), times(forward_us / kChunks)}};
}

void sleep_as_rank(const train::parallel::Launch& launch, const std::vector<Slept>& plans,
                   const std::filesystem::path& file) {
  constexpr std::chrono::seconds kTimeout(60);
  train::parallel::MeshShape shape;
  shape[train::parallel::Axis::Pipeline] = launch.n_ranks;
  train::parallel::World world(connect_store(launch, /*may_serve=*/true, kTimeout), shape, launch.rank, kTimeout);
  auto& line = world.along({train::parallel::Axis::Pipeline});
  nlohmann::json timelines;
  for (const Slept& slept : plans) {
    // [ranks, actions, 5]: kind, chunk, microbatch, and start and end times
    const Tensor all = line.gather(run(slept, line).unsqueeze(0), 0);
    nlohmann::json ranks;
    for (int64_t rank = 0; rank < launch.n_ranks; ++rank) {
      const Tensor one = all[rank].contiguous().flatten();
      ranks.push_back(std::vector<int64_t>(one.data_ptr<int64_t>(), one.data_ptr<int64_t>() + one.numel()));
    }
    timelines.push_back(ranks);
  }
  line.meet();  // barrier: rank 0 hosts the store and must not exit first
  if (launch.rank == 0) core::write_file_atomically(file, timelines.dump());
}

std::vector<Timeline> read_timelines(const std::filesystem::path& file) {
  std::vector<Timeline> timelines;
  for (const auto& ranks : nlohmann::json::parse(core::read_text_file(file))) {
    auto& timeline = timelines.emplace_back();
    int64_t first = std::numeric_limits<int64_t>::max();
    for (const auto& numbers : ranks) {
      auto& boxes = timeline.emplace_back();
      for (size_t i = 0; i + 5 <= numbers.size(); i += 5) {
        const Action action{static_cast<Kind>(numbers[i].get<int64_t>()), numbers[i + 1], numbers[i + 2]};
        boxes.push_back({{action}, numbers[i + 3], numbers[i + 4]});
        first = std::min(first, boxes.back().start);
      }
    }
    for (auto& boxes : timeline) {
      for (Box& box : boxes) {
        box.start -= first;
        box.end -= first;
      }
    }
  }
  return timelines;
}

int64_t count_out_of_order(const Plan& plan, const Timeline& timeline) {
  std::map<std::tuple<Kind, int64_t, int64_t>, int64_t> ends;  // end times by kind, stage and microbatch
  for (size_t rank = 0; rank < timeline.size(); ++rank) {
    for (const Box& box : timeline[rank]) {
      const Action& a = box.actions.front();
      ends[{a.kind, plan.stage_of(static_cast<int64_t>(rank), a.chunk), a.microbatch}] = box.end;
    }
  }
  int64_t n = 0;
  for (size_t rank = 0; rank < timeline.size(); ++rank) {
    for (size_t i = 0; i < plan.ranks[rank].size(); ++i) {
      if (i >= timeline[rank].size() || timeline[rank][i].actions != plan.ranks[rank][i]) {
        ++n;
        continue;
      }
      const Action& a = plan.ranks[rank][i].front();
      const int64_t stage = plan.stage_of(static_cast<int64_t>(rank), a.chunk);
      const bool forward = a.kind == Kind::Forward;
      if (forward ? stage == 0 : stage == plan.n_stages - 1) continue;
      const auto taken = ends.find({a.kind, forward ? stage - 1 : stage + 1, a.microbatch});
      if (taken == ends.end() || taken->second > timeline[rank][i].start) ++n;
    }
  }
  return n;
}

}  // namespace folio::experiments

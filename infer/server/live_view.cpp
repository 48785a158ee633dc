#include "infer/server/live_view.h"

#include <fmt/format.h>

#include <utility>

#include "infer/server/replies.h"

namespace folio::infer::server {
namespace {

constexpr std::chrono::milliseconds kBetweenNotes{200};
constexpr size_t kMaxSteps = 256;  // in a note: the last ones

using Ordered = nlohmann::ordered_json;

Ordered quantiles_json(const Latencies& times) {
  const auto quantiles = times.quantiles();
  if (!quantiles) return nullptr;
  return {{"median", quantiles->median * 1e3}, {"p99", quantiles->p99 * 1e3}};
}

// A request's number, and behind a point the branch, if it is not the first.
Ordered id_json(const BranchId& id) {
  return id.index == 0 ? Ordered(id.request) : Ordered(fmt::format("{}.{}", id.request, id.index));
}

}  // namespace

void LiveView::begin(AsyncEngine& engine) {
  is_watched_ = true;
  engine.call([self = shared_from_this(), &engine](Engine& e) {
    if (std::exchange(self->is_delivered_, true)) return;
    self->last_note_ = {};
    self->at_last_note_ = e.statistics();
    self->step_seconds_ = self->at_last_note_.step_seconds;
    e.watch([view = self.get()](const StepReport& report) {
      auto& steps = view->steps_;
      if (steps.size() == kMaxSteps) steps.erase(steps.begin(), steps.begin() + kMaxSteps / 2);
      steps.push_back({.number = ++view->n_steps_, .seconds = 0.0, .report = report});
    });
    engine.deliver_after_step(self);
  });
}

bool LiveView::deliver(Engine& engine, Clock::time_point now) {
  if (!is_watched_) {
    is_delivered_ = false;
    steps_.clear();
    engine.watch({});
    return true;
  }
  const EngineStatistics statistics = engine.statistics();
  if (!steps_.empty())
    steps_.back().seconds += statistics.step_seconds - std::exchange(step_seconds_, statistics.step_seconds);
  const bool idle = statistics.running + statistics.waiting == 0;
  if (!idle && now < last_note_ + kBetweenNotes) return false;
  const std::chrono::duration<double> passed = now - last_note_;
  Note note{.steps = std::exchange(steps_, {}),
            .sequences = {},
            .statistics = statistics,
            .tokens_per_s = static_cast<double>(statistics.tokens - at_last_note_.tokens) / passed.count()};
  for (const BranchView& r : engine.branches()) {
    note.sequences.push_back({.id = r.id,
                              .n_prompt = r.n_prompt,
                              .n_tokens = r.n_tokens,
                              .runs = !r.blocks.empty(),
                              .blocks = {r.blocks.begin(), r.blocks.end()}});
  }
  last_note_ = now;
  at_last_note_ = statistics;
  on_note_(note);
  return false;
}

std::string LiveView::json(const Note& note, const Metrics& metrics) {
  Ordered steps = Ordered::array();
  for (const Note::Step& step : note.steps) {
    Ordered json = {{"step", step.number},
                    {"ms", step.seconds * 1e3},
                    {"rows", Ordered::array()},
                    {"started", Ordered::array()},
                    {"preempted", Ordered::array()}};
    for (const auto& share : step.report.shares) json["rows"].push_back({id_json(share.branch), share.n_rows});
    for (const auto& s : step.report.started) json["started"].push_back({id_json(s.branch), s.n_cached});
    for (const BranchId& id : step.report.preempted) json["preempted"].push_back(id_json(id));
    steps.push_back(std::move(json));
  }
  Ordered running = Ordered::array();
  Ordered waiting = Ordered::array();
  for (const Note::Sequence& s : note.sequences) {
    Ordered json = {{"id", id_json(s.id)}, {"prompt_tokens", s.n_prompt}, {"tokens", s.n_tokens}};
    if (s.runs) json["blocks"] = s.blocks;
    (s.runs ? running : waiting).push_back(std::move(json));
  }
  const EngineStatistics& e = note.statistics;
  return dump({{"steps", steps},
               {"running", running},
               {"waiting", waiting},
               {"blocks", {{"n", e.n_blocks}, {"positions", kBlockPositions}, {"free", e.n_blocks - e.blocks_in_use}}},
               {"tokens_per_s", note.tokens_per_s},
               {"first_token_ms", quantiles_json(metrics.first_token)},
               {"between_tokens_ms", quantiles_json(metrics.between_tokens)}});
}

}  // namespace folio::infer::server

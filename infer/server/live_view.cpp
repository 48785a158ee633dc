#include "infer/server/live_view.h"

#include <fmt/format.h>

#include <utility>

namespace folio::infer::server {
namespace {

constexpr std::chrono::milliseconds kBetweenNotes{200};
constexpr size_t kMaxSteps = 256;  // maximum number of steps per update of the page; if full, the older half is dropped

// Returns a sequence's ID for the page: 7 for the first sequence of request 7, "7.1" for the second.
Ordered id_json(const SequenceKey& id) {
  return id.index == 0 ? Ordered(id.request) : Ordered(fmt::format("{}.{}", id.request, id.index));
}

Ordered step_json(uint64_t number, const StepReport& report) {
  Ordered json = {{"step", number},
                  {"ms", 0.0},
                  {"rows", Ordered::array()},
                  {"started", Ordered::array()},
                  {"preempted", Ordered::array()}};
  for (const auto& share : report.shares) json["rows"].push_back({id_json(share.sequence), share.n_rows});
  for (const auto& s : report.started) json["started"].push_back({id_json(s.sequence), s.n_cached});
  for (const SequenceKey& id : report.preempted) json["preempted"].push_back(id_json(id));
  return json;
}

}  // namespace

void LiveView::begin(AsyncEngine& engine) {
  is_watched_ = true;
  engine.call([self = shared_from_this(), &engine](Engine& e) {
    if (std::exchange(self->is_delivered_, true)) return;
    self->last_note_ = {};
    self->was_idle_ = true;
    self->at_last_note_ = e.statistics();
    self->step_seconds_ = self->at_last_note_.step_seconds;
    e.watch([view = self.get()](const StepReport& report) {
      Ordered& steps = view->steps_;
      if (steps.size() == kMaxSteps) steps.erase(steps.begin(), steps.begin() + kMaxSteps / 2);
      steps.push_back(step_json(++view->n_steps_, report));
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
  std::chrono::duration<double> step{0.0};
  if (!steps_.empty()) {
    step +=
        std::chrono::duration<double>(statistics.step_seconds - std::exchange(step_seconds_, statistics.step_seconds));
    Ordered& ms = steps_.back()["ms"];
    ms = ms.get<double>() + step.count() * 1e3;
  }
  if (std::exchange(was_idle_, false)) since_ = now - std::chrono::duration_cast<Clock::duration>(step);
  const bool idle = statistics.running + statistics.waiting == 0;
  if (!idle && now < last_note_ + kBetweenNotes) return false;
  Ordered running = Ordered::array();
  Ordered waiting = Ordered::array();
  for (const SequenceView& s : engine.sequences()) {
    Ordered json = {{"id", id_json(s.id)}, {"prompt_tokens", s.n_prompt}, {"tokens", s.n_tokens}};
    if (!s.blocks.empty()) json["blocks"] = std::vector<BlockId>(s.blocks.begin(), s.blocks.end());
    (s.blocks.empty() ? waiting : running).push_back(std::move(json));
  }
  const std::chrono::duration<double> passed = now - std::exchange(since_, now);
  last_note_ = now;
  was_idle_ = idle;
  const uint64_t n_tokens = statistics.tokens - std::exchange(at_last_note_, statistics).tokens;
  const int64_t n_free = statistics.n_blocks - statistics.blocks_in_use;
  on_note_({{"steps", std::exchange(steps_, Ordered::array())},
            {"running", running},
            {"waiting", waiting},
            {"blocks", {{"n", statistics.n_blocks}, {"positions", kBlockPositions}, {"free", n_free}}},
            {"tokens_per_s", n_tokens == 0 ? 0.0 : static_cast<double>(n_tokens) / passed.count()},
            {"step_ms", {{"fixed", statistics.fixed_seconds * 1e3}, {"per_row", statistics.row_seconds * 1e3}}}});
  return false;
}

}  // namespace folio::infer::server

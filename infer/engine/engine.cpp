#include "infer/engine/engine.h"

#include <algorithm>

#include "core/error.h"

namespace folio::infer {
namespace {

constexpr size_t kLogitsAtOnce = 3'000'000;  // numbers of prompts' rows in a step: 61 rows of a vocabulary of 49,152

}  // namespace

Engine::Engine(const core::StoredModel& model, Machine& machine, const CacheOptions& options)
    : runner_(model, machine, options) {}

Engine::Engine(const core::StoredModel& model, std::span<const Placement> placements, const CacheOptions& options)
    : runner_(model, placements, options) {}

RequestId Engine::add(Request request) {
  Generation generation(std::move(request), config(), cache());
  const int64_t needed = blocks_for(generation.max_positions());
  core::require(needed <= cache().n_blocks(),
                "{} positions need {} blocks of the KV cache, which has {}; take fewer tokens or a larger cache",
                generation.max_positions(), needed, cache().n_blocks());
  active_.push_back({.id = next_id_, .generation = std::move(generation)});
  return next_id_++;
}

bool Engine::step() {
  admit();
  retire_done();
  try {
    if (!step_.parts.empty() && !runner_.is_last(step_.issued)) recall();  // somebody else ran a step
    if (step_.parts.empty()) step_ = issue(plan());
    if (step_.parts.empty()) {
      core::require(active_.empty(), "the KV cache is full: sequences that are kept hold {} of its {} blocks",
                    cache().blocks_in_use(), cache().n_blocks());
      return false;
    }
    Flight next = issue(plan_ahead());
    hand_out(runner_.collect(step_.issued));
    step_ = std::move(next);
  } catch (...) {
    recall();
    retire_done();
    throw;
  }
  retire_done();
  return true;
}

// What all that run may still take, and then this one, has to fit: so no step ever finds the cache full.
void Engine::admit() {
  if (active_.empty() || active_.back().running) return;  // those that wait are the last
  int64_t free = cache().free_blocks();
  for (Active& a : active_) {
    if (!a.running) continue;
    const SequenceId sequence = *a.generation.request().sequence;
    free -= cache().blocks_needed(sequence, a.generation.max_positions() - cache().length(sequence));
  }
  for (Active& a : active_) {
    if (a.running) continue;
    const auto kept = a.generation.request().sequence;
    const int64_t most = a.generation.max_positions();
    free -= kept ? cache().blocks_needed(*kept, most - cache().length(*kept)) : blocks_for(most);
    if (free < 0) return;
    a.owned = kept ? nullptr : std::make_unique<ScopedSequence>(cache());
    a.running = true;
    a.generation.start(kept ? *kept : a.owned->id());
  }
}

std::vector<Engine::Part> Engine::plan() {
  rows_.clear();
  std::vector<Part> parts;
  size_t n_draws = 0;
  const size_t most_rows = runner_.max_rows();
  size_t most_reported = std::clamp(kLogitsAtOnce / static_cast<size_t>(config().vocab_size), size_t{1}, most_rows);
  for (Active& a : active_) {
    const bool alone = static_cast<bool>(a.generation.request().observer);
    if (!a.running || rows_.size() == most_rows || (alone && !rows_.empty())) break;
    const size_t n = a.generation.append_rows(rows_, most_rows - rows_.size(), most_reported);
    if (n > 0) {
      parts.push_back({.request = &a, .n_rows = n, .draw = n_draws});
      n_draws += rows_.back().sampler != nullptr ? 1 : 0;
    }
    if (alone) break;
  }
  return parts;
}

// A row for each token that the step in flight draws. None if a request has others: it would wait for a step more.
std::vector<Engine::Part> Engine::plan_ahead() {
  rows_.clear();
  if (!runner_.feeds()) return {};
  const auto waits = [](const Active& a) { return a.running && a.generation.has_to_wait(); };
  if (std::any_of(active_.begin(), active_.end(), waits)) return {};
  std::vector<Part> parts;
  for (const Part& part : step_.parts) {
    if (part.request->generation.ends_next()) continue;
    parts.push_back({.request = part.request, .n_rows = 1, .draw = rows_.size()});
    rows_.push_back(part.request->generation.row_ahead(part.draw));
  }
  return parts;
}

Engine::Flight Engine::issue(std::vector<Part> parts) {
  if (parts.empty()) return {};
  Flight flight{.issued = runner_.issue(rows_, parts.front().request->generation.request().observer),
                .parts = std::move(parts)};
  for (const Part& part : flight.parts) part.request->generation.issued(part.n_rows);
  return flight;
}

void Engine::hand_out(StepOutput output) {
  const std::span<const int32_t> tokens = output.tokens;
  for (const Part& part : step_.parts) {
    output.tokens = tokens.subspan(part.draw);
    output = part.request->generation.take(output, part.n_rows);
  }
}

// Nobody waits for what is in flight: each request computes its rows again, from the first that it has not taken.
void Engine::recall() {
  for (Active& a : active_) a.generation.recall();
  step_ = {};
}

void Engine::retire_done() {
  for (auto a = active_.begin(); a != active_.end();) {
    const auto next = std::next(a);
    if (a->generation.done()) {
      ended_.emplace(a->id, a->generation.result());
      forget(a);
    }
    a = next;
  }
}

// A row of it that is in flight is computed for nobody. Its blocks may be taken at once: steps are done in order.
void Engine::forget(std::list<Active>::iterator active) {
  active->generation.recall();
  std::erase_if(step_.parts, [&](const Part& part) { return part.request == &*active; });
  active_.erase(active);
}

void Engine::cancel(RequestId id) {
  for (Active& a : active_) {
    if (a.id == id) a.generation.finish(FinishReason::Interrupted);
  }
  retire_done();
}

GenerateResult Engine::take(RequestId id) {
  const auto found = ended_.find(id);
  core::require(found != ended_.end(), "there is no request {} that has ended", id);
  GenerateResult result = std::move(found->second);
  ended_.erase(found);
  return result;
}

void Engine::drop(RequestId id) {
  const auto active = std::find_if(active_.begin(), active_.end(), [&](const Active& a) { return a.id == id; });
  if (active != active_.end()) forget(active);
  ended_.erase(id);
}

}  // namespace folio::infer

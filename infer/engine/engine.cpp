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
  plan();
  if (rows_.empty()) {
    core::require(active_.empty(), "the KV cache is full: sequences that are kept hold {} of its {} blocks",
                  cache().blocks_in_use(), cache().n_blocks());
    return false;
  }
  hand_out(runner_.forward(rows_, parts_.front().request->generation.request().observer));
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

void Engine::plan() {
  rows_.clear();
  parts_.clear();
  const size_t most_rows = runner_.max_rows();
  size_t most_reported = std::clamp(kLogitsAtOnce / static_cast<size_t>(config().vocab_size), size_t{1}, most_rows);
  for (Active& a : active_) {
    const bool alone = static_cast<bool>(a.generation.request().observer);
    if (!a.running || rows_.size() == most_rows || (alone && !rows_.empty())) break;
    const size_t n = a.generation.append_rows(rows_, most_rows - rows_.size(), most_reported);
    if (n > 0) parts_.push_back({.request = &a, .n_rows = n});
    if (alone) break;
  }
}

void Engine::hand_out(StepOutput output) {
  auto part = parts_.begin();
  try {
    for (; part != parts_.end(); ++part) output = part->request->generation.take(output, part->n_rows);
  } catch (...) {
    // The one that failed computes its last row again, those behind it all of theirs.
    Generation& failed = part->request->generation;
    failed.undo(failed.done() || failed.n_fresh() > 0 ? 0 : 1);
    for (++part; part != parts_.end(); ++part) part->request->generation.undo(part->n_rows);
    retire_done();
    throw;
  }
}

void Engine::retire_done() {
  for (auto a = active_.begin(); a != active_.end();) {
    if (a->generation.done()) ended_.emplace(a->id, a->generation.result());
    a = a->generation.done() ? active_.erase(a) : std::next(a);
  }
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
  std::erase_if(active_, [&](const Active& a) { return a.id == id; });
  ended_.erase(id);
}

}  // namespace folio::infer

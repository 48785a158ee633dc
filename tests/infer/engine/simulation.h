// Simulates a machine for tests of the scheduler. A row writes a hash of its sequence so far to the KV block, after
// checking the hashes of all earlier positions. The next token is a function of the sequence.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "infer/engine/scheduler.h"

namespace folio::infer::test {

inline constexpr uint64_t kOfNothing = 14695981039346656037ULL;
inline uint64_t with_token(uint64_t hash, int32_t token) {
  return (hash ^ static_cast<uint64_t>(token)) * 1099511628211ULL;
}

inline int32_t next_token(std::span<const int32_t> text) {
  const uint64_t hash = std::accumulate(text.begin(), text.end(), kOfNothing, with_token);
  return static_cast<int32_t>(hash >> 40U & 0xFFFU);
}

inline std::vector<int32_t> written_alone(std::vector<int32_t> text, size_t n_more) {
  for (size_t i = 0; i < n_more; ++i) text.push_back(next_token(text));
  return text;
}

// Advances a simulated beam search: each text has two possible next tokens. Returns the `width` continuations with the
// best hashes, as pairs of a text's index and a token.
inline std::vector<std::pair<size_t, int32_t>> followed(const std::vector<std::vector<int32_t>>& texts, size_t width) {
  std::vector<std::tuple<uint64_t, size_t, int32_t>> candidates;
  for (size_t i = 0; i < texts.size(); ++i) {
    for (const int32_t token : {next_token(texts[i]), next_token(texts[i]) ^ 1}) {
      const uint64_t hash = std::accumulate(texts[i].begin(), texts[i].end(), kOfNothing, with_token);
      candidates.emplace_back(with_token(hash, token) * 0x9E3779B97F4A7C15ULL >> 20U, i, token);
    }
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<std::pair<size_t, int32_t>> next;
  for (size_t i = 0; i < std::min(width, candidates.size()); ++i) {
    next.emplace_back(std::get<1>(candidates[i]), std::get<2>(candidates[i]));
  }
  return next;
}

inline std::vector<std::vector<int32_t>> searched_alone(const std::vector<int32_t>& prompt, size_t width,
                                                        size_t n_more) {
  std::vector<std::vector<int32_t>> texts = {prompt};
  for (size_t i = 0; i < n_more; ++i) {
    std::vector<std::vector<int32_t>> next;
    for (const auto& [from, token] : followed(texts, width)) {
      next.push_back(texts[from]);
      next.back().push_back(token);
    }
    texts = next;
  }
  return texts;
}

struct TextSequence final : public Sequence {
  TextSequence(SequenceKey key, std::span<const int32_t> prompt, size_t n_more, size_t width, int32_t adapter,
               BlockManager& cache)
      : Sequence(key, prompt,
                 {.max_positions = std::ssize(prompt) + static_cast<int64_t>(n_more) - 1,
                  .n_together = width,
                  .adapter = adapter},
                 cache),
        n_more(n_more) {}
  [[nodiscard]] std::vector<int32_t> text() const { return {history().begin(), history().end()}; }
  [[nodiscard]] bool done() const { return generated().size() == n_more; }

  size_t n_more;
  bool computed = false;  ///< true if the next token can be drawn
};

// A request for n choices or for a beam search of width n.
struct TextRequest {
  static inline RequestId n_made = 0;

  TextRequest(std::vector<int32_t> prompt, size_t n_more, size_t n = 1, bool search = false,
              int32_t adapter = kNoAdapter)
      : id(n_made++), width(search ? n : 1), prompt(std::move(prompt)), n_more(n_more), n(n), adapter(adapter) {
    for (size_t i = 0; i < (search ? 1 : n); ++i) live.push_back(i);
  }
  TextRequest(const TextRequest&) = delete;
  TextRequest& operator=(const TextRequest&) = delete;

  [[nodiscard]] bool done() const { return live.empty(); }
  TextSequence& operator*() { return sequences.front(); }
  TextSequence* operator->() { return &sequences.front(); }

  RequestId id;
  size_t width;
  std::vector<int32_t> prompt;
  size_t n_more;
  size_t n;
  int32_t adapter;
  std::deque<TextSequence> sequences;  ///< created when the request is added
  bool paused = false;
  std::vector<size_t> live;                 ///< indices of the beams, best first, or of the unfinished choices
  std::vector<std::vector<int32_t>> texts;  ///< tokens of the finished sequences
};

// A scheduler with its KV cache, and a simulated machine that executes its plans.
class Simulation {
 public:
  Simulation(int64_t n_blocks, const SchedulerLimits& limits)
      : cache(n_blocks), scheduler(cache, limits), max_rows_(limits.max_rows) {}

  void add(TextRequest& request) {
    for (size_t i = 0; i < request.n; ++i) {
      request.sequences.emplace_back(SequenceKey{request.id, i}, request.prompt, request.n_more, request.width,
                                     request.adapter, cache);
    }
    for (const size_t i : request.live) scheduler.add(request.sequences[i]);
    requests_[request.id] = &request;
  }
  // Removes a request from the scheduler until resume(). The request must not be a beam search.
  void pause(TextRequest& request) {
    request.paused = true;
    for (const size_t i : request.live) {
      scheduler.remove(request.sequences[i]);
      request.sequences[i].computed = false;
    }
  }
  void resume(TextRequest& request) {
    request.paused = false;
    for (const size_t i : request.live) scheduler.add(request.sequences[i]);
  }
  void remove(TextRequest& request) {
    for (TextSequence& sequence : request.sequences) scheduler.remove(sequence);
    requests_.erase(request.id);
  }

  // Plans and runs a step. Removes and returns the finished requests.
  std::vector<TextRequest*> step() {
    ++n_steps;
    n_free = cache.free_blocks();
    const Scheduler::Trace& trace = scheduler.plan([](Sequence&, size_t most) { return most; });
    if (on_plan) on_plan(trace);
    for (Sequence* sequence : trace.preempted) of(sequence).computed = false;
    size_t rows = 0;
    for (const auto& part : trace.shares) {
      rows += part.n_rows;
      cache.reserve(part.sequence->id(), static_cast<int64_t>(part.n_rows));
    }
    EXPECT_LE(rows, max_rows_);
    EXPECT_LE(cache.copies().size(), trace.shares.size()) << "at most a block of each sequence is copied";
    for (const BlockCopy& copy : cache.copies()) content_[copy.to] = content_[copy.from];
    for (const auto& part : trace.shares) run(of(part.sequence), part.n_rows);
    cache.commit();
    for (const auto& part : trace.shares) {
      const auto n = static_cast<size_t>(cache.length(part.sequence->id()));
      cache.remember(part.sequence->id(), part.sequence->tokens().first(n));
    }
    n_rows += rows;
    n_preempted += trace.preempted.size();
    std::vector<TextRequest*> done;
    for (const auto& [id, request] : requests_) {
      advance(*request);
      if (request->done()) done.push_back(request);
    }
    for (TextRequest* request : done) remove(*request);
    return done;
  }

  BlockManager cache;
  Scheduler scheduler;
  int64_t n_steps = 0;
  int64_t n_free = 0;  ///< free KV blocks before the last step was planned
  size_t n_rows = 0;
  size_t n_preempted = 0;
  size_t n_ended = 0;
  std::function<void(const Scheduler::Trace&)> on_plan{};

 private:
  static TextSequence& of(Sequence* sequence) { return static_cast<TextSequence&>(*sequence); }
  // Computes the next n rows of a sequence. Fails the test if a cached position has the hash of other tokens.
  void run(TextSequence& sequence, size_t n) {
    const auto table = cache.table(sequence.id());
    const auto length = static_cast<size_t>(cache.length(sequence.id()));
    uint64_t hash = with_token(kOfNothing, sequence.needs().adapter);
    for (size_t i = 0; i < length + n; ++i) {
      auto& block = content_[table[i / kWhole]];
      block.resize(kWhole, 0);
      hash = with_token(hash, sequence.history()[i]);
      if (i >= length) block[i % kWhole] = hash;
      if (block[i % kWhole] != hash) {
        ADD_FAILURE() << "request " << sequence.request() << ": position " << i << " of block " << table[i / kWhole]
                      << " has the hash of other tokens";
        return;
      }
    }
    sequence.computed = length + n == sequence.history().size();
  }

  void advance(TextRequest& request) {
    if (request.width > 1) return search(request);
    for (TextSequence& sequence : request.sequences) {
      if (!std::exchange(sequence.computed, false)) continue;
      sequence.append(next_token(sequence.history()));
      if (!sequence.done()) continue;
      request.texts.push_back(sequence.text());
      scheduler.remove(sequence);
      ++n_ended;
      std::erase(request.live, sequence.index());
    }
  }

  // Advances a beam search by one token if the rows of all its beams have been computed.
  void search(TextRequest& request) {
    std::vector<std::vector<int32_t>> texts;
    for (const size_t i : request.live) {
      if (!request.sequences[i].computed) return;
      texts.push_back(request.sequences[i].text());
    }
    std::vector<size_t> idle;
    for (size_t i = 0; i < request.sequences.size(); ++i) {
      if (std::ranges::find(request.live, i) == request.live.end()) idle.push_back(i);
    }
    const auto next = followed(texts, request.width);
    std::vector<size_t> places(next.size(), SIZE_MAX);
    std::vector<bool> kept(texts.size(), false);
    for (size_t i = 0; i < next.size(); ++i) {
      if (!kept[next[i].first]) places[i] = request.live[next[i].first];
      kept[next[i].first] = true;
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      if (!kept[i]) idle.push_back(request.live[i]);
    }
    for (size_t i = 0; i < next.size(); ++i) {
      if (places[i] != SIZE_MAX) continue;
      places[i] = idle.back();
      idle.pop_back();
      scheduler.fork(request.sequences[places[i]], request.sequences[request.live[next[i].first]]);
    }
    for (const size_t i : idle) scheduler.remove(request.sequences[i]);
    for (size_t i = 0; i < next.size(); ++i) {
      TextSequence& sequence = request.sequences[places[i]];
      sequence.append(next[i].second);
      sequence.computed = false;
    }
    request.live = places;
    if (!request.sequences[places[0]].done()) return;
    for (const size_t i : places) request.texts.push_back(request.sequences[i].text());
    n_ended += std::exchange(request.live, {}).size();
  }

  static constexpr auto kWhole = static_cast<size_t>(kBlockPositions);
  std::map<BlockId, std::vector<uint64_t>> content_;
  std::map<RequestId, TextRequest*> requests_;
  size_t max_rows_;
};

}  // namespace folio::infer::test

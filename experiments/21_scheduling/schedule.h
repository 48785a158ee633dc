// The trace's way through the engine's scheduler, step by step, and what is counted of it. The loop is that of
// infer/engine/engine.cpp without its extras, so that a variant can leave out what the engine always does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/weights.h"
#include "infer/engine/request.h"

namespace folio::experiments {

inline constexpr size_t kPlaces = 4;    ///< requests that run at a time
inline constexpr size_t kWhole = 256;   ///< rows of a step: no prompt of the trace is ever cut
inline constexpr size_t kChunked = 32;  ///< rows of a step: long prompts are

struct Variant {
  std::string name;
  bool continuous = true;     ///< a request comes in when a place is free; otherwise when all of a batch have ended
  size_t max_rows = kWhole;   ///< of a step
  bool knows_prefix = false;  ///< blocks that were computed are found again
  size_t n_drafts = 0;        ///< tokens that are guessed and tried, at most
  int64_t n_blocks = 32;      ///< of the cache, 32 positions each: what four whole contexts take
};

/// What a request does in a step.
struct Cell {
  enum class State { Absent, Waits, Runs, KeepsPlace };
  State state = State::Absent;
  size_t n_rows = 0;
  size_t n_again = 0;   ///< rows that were there before it was preempted
  size_t n_drafts = 0;  ///< rows that were tried
  size_t n_tokens = 0;  ///< that it got; all but one of them are drafts that were right
  bool preempted = false;
};

struct Schedule {
  Variant variant;
  std::vector<std::vector<Cell>> steps;     ///< (steps, requests)
  std::vector<std::vector<int32_t>> texts;  ///< (requests, tokens)
};

[[nodiscard]] Schedule run(const core::StoredModel& model, std::span<const infer::Request> requests,
                           const Variant& variant);

/// Rows of a step that take as long as reading the weights does. 8 is what 20_batching's table of times gives: a step
/// of 1 takes 14.5 ms, one of 128 takes 206.
inline constexpr double kRowsOfARead = 8.0;

/// A model of a step's time, in units of reading all weights once.
[[nodiscard]] double cost(const std::vector<Cell>& step);

struct Counts {
  int64_t rows = 0, again = 0, drafts = 0, right = 0, preempted = 0;
  int64_t empty = 0;                     ///< places of steps that nobody used although somebody waited
  std::vector<int64_t> first_token;      ///< by request: steps from its coming to its first token, both included
  std::vector<double> first_token_cost;  ///< of these steps
  double cost = 0.0;                     ///< of all steps
  double longest_gap = 0.0;              ///< the most that the steps from one token of a request to its next cost
};

[[nodiscard]] Counts count(const Schedule& schedule);

}  // namespace folio::experiments

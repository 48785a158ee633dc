// Runs the study's trace through the engine's scheduler step by step and counts rows, steps and times. The loop follows
// infer/engine/engine.cpp, reduced so that variants can disable the engine's features.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/weights.h"
#include "infer/engine/request.h"

namespace folio::experiments {

inline constexpr size_t kMaxRunning = 4;  ///< maximum number of running requests
inline constexpr size_t kWhole = 256;     ///< row limit of a step, enough that no prompt of the trace is split
inline constexpr size_t kChunked = 32;    ///< row limit of a step, so low that long prompts are split

struct Variant {
  std::string name;
  bool continuous = true;        ///< admits a request when a slot is free; false: when a whole batch has ended
  size_t max_rows = kWhole;      ///< maximum number of rows in a step
  bool caches_prefixes = false;  ///< reuses KV blocks of equal prompt prefixes
  size_t n_drafts = 0;           ///< maximum number of draft tokens per sequence and step
  int64_t n_blocks = 32;         ///< KV blocks of 32 positions each; 32 blocks hold four full contexts
};

/// The state and the work of one request in one step. Absent: not yet arrived, or finished. HoldsSlot: finished, but
/// other requests of its static batch still run.
struct Cell {
  enum class State { Absent, Waits, Runs, HoldsSlot };
  State state = State::Absent;
  size_t n_rows = 0;
  size_t n_again = 0;   ///< rows recomputed after a preemption
  size_t n_drafts = 0;  ///< draft tokens verified
  size_t n_tokens = 0;  ///< new tokens: accepted draft tokens plus one; 0 if input tokens remain
  bool preempted = false;
};

struct Schedule {
  Variant variant;
  std::vector<std::vector<Cell>> steps;     ///< (steps, requests)
  std::vector<std::vector<int32_t>> texts;  ///< output tokens of each request
};

[[nodiscard]] Schedule run(const core::StoredModel& model, std::span<const infer::Request> requests,
                           const Variant& variant);

/// The approximate number of rows whose computation takes as long as reading the weights once. From the measurements of
/// study 20_batching: 14.5 ms for a step with 1 row and 206 ms with 128 rows, so about 13 ms + 1.5 ms per row.
inline constexpr double kRowsOfARead = 8.0;

/// Returns the modeled time of a step, in units of reading all weights once.
[[nodiscard]] double cost(const std::vector<Cell>& step);

struct Counts {
  int64_t rows = 0, again = 0, drafts = 0, right = 0, preempted = 0;
  int64_t empty = 0;                     ///< empty slots, summed over the steps in which a request waited
  std::vector<int64_t> first_token;      ///< by request: steps from arrival to first token, inclusive
  std::vector<double> first_token_cost;  ///< by request: time from arrival to first token, in units of cost()
  double cost = 0.0;                     ///< time of all steps, in units of cost()
  double longest_gap = 0.0;              ///< longest time between consecutive tokens of a request, in units of cost()
};

[[nodiscard]] Counts count(const Schedule& schedule);

}  // namespace folio::experiments

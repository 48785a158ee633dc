// The options of bench, functions that several of its measurements use, and the measurement of operations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/program.h"
#include "infer/engine/request.h"
#include "infer/forward/runner.h"

namespace folio::apps {

struct BenchOptions {
  ModelFlags model;
  int64_t prompt_tokens = 128;
  int64_t gen_tokens = 64;
  std::vector<int64_t> batch{1};
  int repetitions = 5;
  std::string schemas;  ///< path of a file with a schema per line; if empty, decodes without schemas
  infer::SamplerOptions sampler;
  bool json = false;
  bool memory = false;
  bool ops = false;
  std::string trace;  ///< path for a trace of the last repetition of --ops; if empty, no trace is written
  bool train = false;
};

/// Returns the median, or the larger middle value if the number of values is even. `values` must not be empty.
[[nodiscard]] double median(std::vector<double> values);

/// Returns `batch` requests with random prompts of `prompt_tokens` tokens, different in each repetition.
[[nodiscard]] std::vector<infer::Request> random_requests(const core::ModelConfig& config,
                                                          const infer::SamplerOptions& sampler, int64_t batch,
                                                          int repetition, int64_t prompt_tokens);

/// Throws core::UsageError if a step of the runner cannot decode `batch` sequences together.
void require_rows(const infer::Runner& runner, int64_t batch);

/// Weights that a decode step reads, without the experts to which no row is routed. A pipeline of ranks, which cannot
/// be observed, is taken to read all experts.
struct StepReads {
  double bytes;    ///< bytes of weights, including those of experts
  double experts;  ///< mean number of experts read per layer with experts; 0 if there are none or they aren't counted
};

/// Returns the mean reads of a step in which `batch` sequences decode random tokens. The runner's KV cache must be
/// empty and large enough for them.
[[nodiscard]] StepReads step_reads(infer::Runner& runner, int64_t batch);

/// Measures how the time of a step is distributed over kinds of operations (--ops). Prints a table for prefill and one
/// for decode: time, bytes and multiply-adds of each kind of operation, also as fractions of the memory bandwidth
/// `bytes_per_s` and of the CPU's peak rate. Must be called before the weights of `model` are loaded, and loads them.
/// Throws core::UsageError unless the model runs on one CPU of this process, and for options of other measurements.
void bench_ops(const infer::LoadedModel& model, const BenchOptions& options, double bytes_per_s);

}  // namespace folio::apps

// Measures how the time of a step is distributed over kinds of operations (bench --ops).
#pragma once

#include <cstdint>
#include <string>

#include "infer/engine/loaded_model.h"

namespace folio::apps {

struct OpsOptions {
  int64_t prompt_tokens = 128;
  int64_t gen_tokens = 64;
  int64_t batch = 1;
  int repetitions = 5;
  bool json = false;
  infer::SamplerOptions sampler{};
  infer::CacheType cache_type = infer::CacheType::F16;
  std::string trace;  ///< path for a trace of the last repetition; if empty, none is written
};

/// Prints a table for prefill and one for decode: time, bytes and multiply-adds of each kind of operation, also as
/// fractions of the memory bandwidth `bytes_per_s` and of the CPU's peak rate. Must be called before the weights of
/// `model` are loaded, and loads them. Throws core::UsageError unless the model runs on one CPU of this process.
void bench_ops(const infer::LoadedModel& model, const OpsOptions& options, double bytes_per_s);

}  // namespace folio::apps

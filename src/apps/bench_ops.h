// Time of a step by kind of operation (bench --ops).
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
  std::string trace;  ///< path for the timeline of the last repetition; empty: none
};

/// Prints a table for prefill and one for decode: time, bytes and multiply-adds of each kind of operation, and their
/// shares of the memory bandwidth `bytes_per_s` and of the CPU's peak multiply-add rate. Loads the weights itself, so
/// `model` must not have loaded them. Throws core::UsageError unless the model runs on one CPU of this process.
void bench_ops(const infer::LoadedModel& model, const OpsOptions& options, double bytes_per_s);

}  // namespace folio::apps

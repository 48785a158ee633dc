// Where the time of a step goes, by kind of operation.
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
  std::string trace;  ///< a file for the timeline of the last repetition; empty: none
};

/// Prints a table for prompts and one for decoding: time, bytes and multiply-adds of each kind of operation, and their
/// share of `bytes_per_s`, the memory's bandwidth, and of the fastest product of the processor. The model's weights are
/// not loaded yet. Throws core::UsageError unless it runs on a CPU of this process.
void bench_ops(const infer::LoadedModel& model, const OpsOptions& options, double bytes_per_s);

}  // namespace folio::apps

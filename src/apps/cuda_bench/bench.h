// The measurements of cuda_bench. Each function measures one model shape and adds a row per measurement to the results.
#pragma once

#include <string>
#include <vector>

#include "apps/cuda_bench/results.h"
#include "infer/cuda/device.h"
#include "infer/forward/machine.h"

namespace folio::infer::gpu::bench {

struct Effort {
  double milliseconds = 10.0;                ///< minimum duration of a repetition, which has at least one launch
  int repetitions = 5;                       ///< number of repetitions; the median is reported
  size_t spread_bytes = size_t{512} << 20U;  ///< total size of the KV caches that launches cycle through
  size_t copy_bytes = size_t{4} << 30U;      ///< size of the copy that measures memory bandwidth
};

struct Options {
  std::vector<std::string> parts;
  std::vector<std::string> shapes{"8b", "1.1b"};
  std::vector<std::string> types{"f16", "q8_0", "q4_0"};  ///< weight types for time_decoding() and time_prompt()
  std::vector<int64_t> contexts{128, 1024};               ///< initial contexts to measure with one decoding sequence
  std::vector<int64_t> batches{};                         ///< batch sizes to measure, in sequences
  int64_t batch_context = 512;                            ///< initial context of each sequence in `batches`
  int64_t tokens = 64;                                    ///< tokens decoded per sequence and repetition
  int64_t prompt = 2048;                                  ///< prompt length in time_prompt()
  int64_t attention = 8192;                               ///< prompt length in time_attention()
  bool f32_cache = false;
  int device = 0;
  std::string json;  ///< path of the output file; if empty, none is written
  Effort effort;

  [[nodiscard]] CacheType cache_type() const { return f32_cache ? CacheType::F32 : CacheType::F16; }
};

/// The state that all measurements share.
struct Bench {
  const Options& options;
  Stream& stream;
  double bandwidth;  ///< bandwidth of a device-to-device copy in bytes/s
  Results& results;
};

/// Returns the median; for an even number of values, the mean of the middle two. `values` must not be empty.
[[nodiscard]] double median(std::vector<double> values);

/// Times the attention kernel for a prompt, and for decoding at each context and batch size. `shape` is "8b", "1.1b" or
/// "tiny".
void time_attention(const Bench& bench, const std::string& shape);
/// Times whole decode steps for each weight type: one sequence at each context, and each batch size.
void time_decoding(const Bench& bench, const std::string& shape);
/// Times the prefill of Options::prompt tokens, up to the first output token, for each weight type.
void time_prompt(const Bench& bench, const std::string& shape);

}  // namespace folio::infer::gpu::bench

// The parts of cuda_bench. Each measures one shape, and adds a row to the results for each figure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/cuda_bench/cublas.h"
#include "apps/cuda_bench/results.h"
#include "apps/cuda_bench/timing.h"
#include "infer/forward/machine.h"

namespace folio::infer::gpu::bench {

struct Options {
  std::vector<std::string> parts;
  std::vector<std::string> shapes{"8b", "1.1b"};
  std::vector<std::string> types{"f16", "q8_0", "q4_0"};  ///< of whole models
  std::vector<int64_t> rows{1, 8, 64};                    ///< of the kernels
  std::vector<int64_t> contexts{128, 1024};               ///< positions that one sequence has when its decoding begins
  std::vector<int64_t> batches{};                         ///< sequences that are decoded together
  int64_t batch_context = 512;                            ///< positions that each of them has
  int64_t tokens = 64;                                    ///< that are decoded
  int64_t prompt = 2048;
  int64_t attention = 8192;  ///< rows of a prompt, for attention alone
  bool f32_cache = false;
  bool trace = false;  ///< the time of each kernel in a decoding step
  int device = 0;
  std::string cublas;  ///< the library's path; empty: where the loader finds it
  std::string json;
  Effort effort;

  [[nodiscard]] CacheType cache_type() const { return f32_cache ? CacheType::F32 : CacheType::F16; }
};

/// What the parts share.
struct Bench {
  const Options& options;
  Stream& stream;
  double bandwidth;  ///< bytes per second, of a copy
  Cublas* cublas;    ///< or null
  Results& results;
};

/// Every kernel at every number of rows, plain and fast, those of experts included.
void time_kernels(const Bench& bench, const std::string& shape);
void time_experts(const Bench& bench, const std::string& shape);
/// Attention alone, for decoding at each context and for a prompt.
void time_attention(const Bench& bench, const std::string& shape);
/// Whole decoding steps, at each context alone and for each batch.
void time_decoding(const Bench& bench, const std::string& shape);
/// Whole prompts, and their products alone and with cuBLAS.
void time_prompt(const Bench& bench, const std::string& shape);

}  // namespace folio::infer::gpu::bench

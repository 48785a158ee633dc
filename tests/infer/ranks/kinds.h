// Declares RankKind, a way to run a model on several ranks (threads or processes). properties_test.cpp tests all kinds
// that rank_kinds() returns, which each test program must define.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "infer/forward/exchange.h"
#include "tests/infer/support.h"

namespace folio::infer::test {

struct RankKind {
  std::string name;
  std::vector<CacheType> cache_types;
  size_t least;        ///< smallest tested number of ranks, unless the model has fewer tiles
  bool in_eight_bits;  ///< true if inputs of quantized matrices are sent in 8 bits
  /// Runs `work` with a model on n ranks, and returns the number of bytes that they exchanged.
  std::function<uint64_t(size_t n, const core::StoredModel& model, const CacheOptions& options,
                         const std::function<void(Runner&)>& work)>
      run;
};

inline void PrintTo(const RankKind& kind, std::ostream* out) { *out << kind.name; }

std::vector<RankKind> rank_kinds();

inline size_t most_ranks(const core::ModelConfig& config) {
  return std::min<size_t>(4, shard_tiles(static_cast<size_t>(config.dim)));
}

inline constexpr size_t kLength = 37;  ///< number of tokens in the tested sequence
inline constexpr size_t kFirst = 9;

/// Returns the logits of all tokens of `text`: one step computes all but the last three, then each of these has its own
/// step. Then computes `text` again in two steps, and appends the last token's logits.
inline std::vector<float> logits_of(Runner& runner, std::span<const int32_t> text) {
  const auto sequence = runner.cache().add_sequence();
  auto logits = run(runner, rows_of(sequence, text.first(text.size() - 3)));
  for (size_t i = text.size() - 3; i < text.size(); ++i) {
    const auto some = run(runner, rows_of(sequence, text.subspan(i, 1), static_cast<int64_t>(i)));
    logits.insert(logits.end(), some.begin(), some.end());
  }
  runner.cache().release(sequence);
  const auto prompt = runner.cache().add_sequence();
  EXPECT_TRUE(run(runner, rows_of(prompt, text.first(kFirst), 0, false)).empty());
  auto rest = rows_of(prompt, text.subspan(kFirst), kFirst, false);
  rest.back().wants_logits = true;
  const auto last = run(runner, rest);
  runner.cache().release(prompt);
  logits.insert(logits.end(), last.begin(), last.end());
  return logits;
}

}  // namespace folio::infer::test

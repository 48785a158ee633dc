#include <fmt/format.h>

#include <bit>

#include "core/random.h"
#include "experiments/19_flash_attention/exactness.h"
#include "experiments/19_flash_attention/online_softmax.h"
#include "infer/reference/kernels.h"

namespace folio::experiments {
namespace {

namespace kernels = infer::kernels;

size_t other_bits(std::span<const float> a, std::span<const float> b) {
  size_t n = 0;
  for (size_t i = 0; i < a.size(); ++i) n += std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i]) ? 0 : 1;
  return n;
}

// A query with its keys and values in the layout of the engine's cache: each block holds keys, (head_dim, 32), and then
// values, (32, head_dim).
struct Case {
  size_t length, head_dim;
  std::vector<float> query;
  std::vector<std::vector<float>> blocks{};

  Case(size_t its_length, size_t its_head_dim, uint64_t seed)
      : length(its_length),
        head_dim(its_head_dim),
        query(random_numbers<float>(head_dim, 3.0, core::random_bits(seed, length))) {
    for (size_t first = 0; first < length; first += kernels::kBlockPositions) {
      blocks.push_back(random_numbers<float>(2 * half(), 1.0, core::random_bits(seed, first + 1)));
    }
  }
  [[nodiscard]] size_t half() const { return head_dim * kernels::kBlockPositions; }
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(head_dim)); }
};

std::vector<Partial<float>> partials(const Case& c) {
  std::vector<Partial<float>> parts;
  for (size_t b = 0; b < c.blocks.size(); ++b) {
    std::vector<float> scores(std::min(kernels::kBlockPositions, c.length - b * kernels::kBlockPositions), 0.0F);
    for (size_t j = 0; j < scores.size(); ++j) {
      for (size_t d = 0; d < c.head_dim; ++d) {
        scores[j] = std::fma(c.query[d], c.blocks[b][d * kernels::kBlockPositions + j], scores[j]);
      }
      scores[j] *= c.scale();
    }
    parts.push_back(of_block<float>(scores, c.blocks[b].data() + c.half(), c.head_dim));
  }
  return parts;
}

std::vector<float> joined_in_order(const std::vector<Partial<float>>& parts) {
  Partial<float> total = parts.front();
  for (size_t b = 1; b < parts.size(); ++b) join(total, parts[b]);
  return finished(total);
}

std::vector<float> engines(const Case& c, core::Isa isa) {
  std::vector<const float*> blocks;
  for (const auto& block : c.blocks) blocks.push_back(block.data());
  std::vector<float> out(c.head_dim);
  const kernels::AttentionInput<float> in{.query = c.query.data(),
                                          .blocks = blocks.data(),
                                          .key_offset = 0,
                                          .value_offset = c.half(),
                                          .n_positions = c.length,
                                          .window = c.length,
                                          .n_rows = 1,
                                          .row_stride = c.head_dim,
                                          .n_queries = 1,
                                          .head_dim = c.head_dim,
                                          .scale = c.scale()};
  kernels::kernels_for(isa).attention(in, out.data());
  return out;
}

}  // namespace

void check_engines_order(Report& report) {
  size_t n_numbers = 0;
  size_t n_other = 0;      // elements whose bits differ from the engine's
  size_t n_reversed = 0;   // elements that differ when blocks are merged in reverse order
  size_t n_in_blocks = 0;  // output elements that combine several blocks
  for (const size_t head_dim : {8, 32, 48}) {
    for (size_t length = 1; length <= 200; length += report.short_form() ? 7 : 1) {
      const Case c(length, head_dim, report.seed());
      std::vector<Partial<float>> parts = partials(c);
      const std::vector<float> forwards = joined_in_order(parts);
      std::reverse(parts.begin(), parts.end());
      const std::vector<float> backwards = joined_in_order(parts);
      for (const core::Isa isa : infer::kernels::isas_with_kernels()) {
        const std::vector<float> out = engines(c, isa);
        n_numbers += head_dim;
        n_other += other_bits(out, forwards);
        if (parts.size() == 1) continue;
        n_in_blocks += head_dim;
        n_reversed += other_bits(out, backwards);
      }
    }
  }
  report.say(
      fmt::format("{} numbers of {} sets of kernels compared", n_numbers, infer::kernels::isas_with_kernels().size()));
  report.check_equal("values that differ in a bit from the engine's attention, in its order", n_other, 0);
  report.check_above("the share of them in the reversed order, where there are several blocks",
                     ratio(n_reversed, n_in_blocks), 0.1);
}

}  // namespace folio::experiments

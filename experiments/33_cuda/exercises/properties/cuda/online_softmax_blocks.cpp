// Tests of take_block: one block, blocks with and without a new maximum, an incomplete block, and several lengths.
#include <limits>

#include "experiments/33_cuda/exercises/properties/cuda/run.h"

namespace folio::exercises {
namespace {

const auto kLn2 = static_cast<float>(std::log(2.0));
const auto kLn3 = static_cast<float>(std::log(3.0));

struct Position {
  Floats key, value;
};
using Positions = std::vector<Position>;

// Appends n positions with this score for the query (1, 0, 0, …). Element d of the value is value · (d + 1).
void add(Positions& positions, size_t n, float score, float value) {
  Position p{Floats(kHeadDim, 0.0F), Floats(kHeadDim)};
  p.key[0] = score;
  for (size_t d = 0; d < kHeadDim; ++d) p.value[d] = value * static_cast<float>(d + 1);
  positions.insert(positions.end(), n, p);
}

// Returns the attention over positions whose cache blocks are stored in reverse order.
Floats attention_of(const Floats& query, const Positions& positions) {
  const size_t n_blocks = (positions.size() + kBlockPositions - 1) / kBlockPositions;
  Floats keys(n_blocks * kBlockPositions * kHeadDim, std::numeric_limits<float>::quiet_NaN());
  Floats values = keys;
  std::vector<uint32_t> table(n_blocks);
  for (size_t i = 0; i < n_blocks; ++i) table[i] = static_cast<uint32_t>(n_blocks - 1 - i);
  for (size_t i = 0; i < positions.size(); ++i) {
    const size_t at = (table[i / kBlockPositions] * kBlockPositions + i % kBlockPositions) * kHeadDim;
    for (size_t d = 0; d < kHeadDim; ++d) {
      keys[at + d] = positions[i].key[d];
      values[at + d] = positions[i].value[d];
    }
  }
  Stream stream(0);
  const DeviceMemory q = on_device(stream, query);
  const DeviceMemory k = on_device(stream, keys);
  const DeviceMemory v = on_device(stream, values);
  const DeviceMemory t = on_device(stream, table);
  return run_kernel(stream, kHeadDim,
                    [&](float* out) {
                      attention(stream,
                                {q.as<float>(), k.as<float>(), v.as<float>(), t.as<uint32_t>(), positions.size(), out});
                    })
      .out;
}

Floats attention_of(const Positions& positions) {
  Floats query(kHeadDim, 0.0F);
  query[0] = 1.0F;
  return attention_of(query, positions);
}

void expect_output(const Positions& positions, float value, const std::string& why) {
  Floats expected(kHeadDim);
  for (size_t d = 0; d < kHeadDim; ++d) expected[d] = value * static_cast<float>(d + 1);
  expect_close(attention_of(positions), expected, 32 * 1e-5, why);
}

TEST(OnlineSoftmaxBlocks, ABlockIsASoftmax) {
  Positions p;
  add(p, 16, kLn3, 2.0F);
  add(p, 16, 0.0F, 6.0F);
  expect_output(p, 3.0F,
                "16 positions of weight 3 and value 2, and 16 of weight 1 and value 6: (96 + 96) / 64. 2 or 4: each "
                "value needs the weight of lane j, which has its score, and not the lane's own.");
}

TEST(OnlineSoftmaxBlocks, TheLargestScoreIsSubtracted) {
  Positions p;
  add(p, 16, 500.0F, 2.0F);
  add(p, 16, 400.0F, 4.0F);
  expect_output(p, 2.0F, "e^500 is more than a float can hold. Each exponent is the score less the largest so far.");
}

TEST(OnlineSoftmaxBlocks, ALowerBlockIsAdded) {
  Positions p;
  add(p, 32, kLn2, 9.0F);
  add(p, 16, 0.0F, 2.0F);
  add(p, 16, 0.0F, 4.0F);
  expect_output(p, 7.0F,
                "A block of weights 2 and values 9, then one of weights 1 with the mean 3: (64 · 9 + 32 · 3) / 96. 3 "
                "is the second block alone. 6: it was taken with its own maximum, 0, instead of the larger one of "
                "before.");
}

TEST(OnlineSoftmaxBlocks, AHigherBlockRescalesBothSums) {
  Positions p;
  add(p, 16, 0.0F, 2.0F);
  add(p, 16, 0.0F, 4.0F);
  add(p, 32, kLn2, 9.0F);
  expect_output(p, 7.0F,
                "The second block has the larger maximum, ln 2. Relative to it, the first block's sum of weights is 16 "
                "and its weighted sum is 48: (48 + 32 · 9) / (16 + 32). 6: neither was rescaled. 5.25: the old sum of "
                "weights was not. 8: the old weighted sum was not. 5: both were multiplied by exp(new - old), the "
                "wrong way round.");
}

TEST(OnlineSoftmaxBlocks, AnIncompleteBlock) {
  Positions p;
  add(p, 32, 0.0F, 1.0F);
  add(p, 16, 0.0F, 4.0F);
  expect_output(p, 2.0F,
                "48 positions, so the last block has 16. NaN: a value from position 16 on was read, which nobody has "
                "written. A weight of nearly 0 does not help: 0 times NaN is NaN.");
}

TEST(OnlineSoftmaxBlocks, AnyLengthGivesTheSame) {
  for (const size_t n : {1, 31, 33, 64, 100}) {
    Positions p;
    std::vector<double> expected(kHeadDim, 0.0);
    double sum = 0.0;
    const Floats query = random_floats(kHeadDim, 1);
    for (size_t i = 0; i < n; ++i) {
      p.push_back({random_floats(kHeadDim, 100 + i), random_floats(kHeadDim, 1000 + i)});
      double score = 0.0;
      for (size_t d = 0; d < kHeadDim; ++d) score += double{query[d]} * p.back().key[d];
      sum += std::exp(score);
      for (size_t d = 0; d < kHeadDim; ++d) expected[d] += std::exp(score) * p.back().value[d];
    }
    Floats rounded(kHeadDim);
    for (size_t d = 0; d < kHeadDim; ++d) rounded[d] = static_cast<float>(expected[d] / sum);
    // Tolerance: a score s below 8 has an error of at most 32 · 2^-21, which is the relative error of e^s in both sums.
    expect_close(attention_of(query, p), rounded, 2.0 * 32 * 0x1p-21, std::to_string(n) + " positions.");
  }
}

}  // namespace
}  // namespace folio::exercises

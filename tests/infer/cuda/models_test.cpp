// Tests the golden model and the first layers of a published one on the emulated GPU: the likeliest tokens equal the
// CPU's, and the errors of logits are about as large as on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/formats/model_files.h"
#include "infer/cuda/cuda.h"
#include "tests/infer/reference/textbook.h"
#include "tests/infer/support.h"

namespace folio::infer {
namespace {

// A machine's logits after each token of a prompt and of the `n_more` likeliest tokens that follow it.
struct Said {
  std::vector<float> logits;
  std::vector<int32_t> more;
};
Said said(const core::StoredModel& model, Machine& machine, std::span<const int32_t> text, size_t n_more) {
  Runner runner(model, machine, {.max_positions = 64, .type = CacheType::F16});
  const SequenceId sequence = runner.cache().add_sequence();
  Said s;
  std::vector<Row> rows = test::rows_of(sequence, text);
  int64_t position = static_cast<int64_t>(text.size());
  for (size_t i = 0; i <= n_more; ++i) {
    const auto some = test::run(runner, rows);
    s.logits.insert(s.logits.end(), some.begin(), some.end());
    if (i == n_more) break;
    const auto last = std::span(some).last(static_cast<size_t>(model.config.vocab_size));
    s.more.push_back(static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin()));
    rows = test::rows_of(sequence, std::span(s.more).last(1), position++);
  }
  return s;
}

// Returns the root mean square of the differences between a machine's logits and `exact`.
double error_of(std::span<const float> logits, const std::vector<std::vector<double>>& exact) {
  double sum = 0.0;
  size_t i = 0;
  for (const auto& row : exact) {
    for (const double x : row) sum += std::pow(logits[i++] - x, 2);
  }
  EXPECT_EQ(i, logits.size());
  return std::sqrt(sum / static_cast<double>(i));
}

// Expects the same likeliest tokens as on the CPU, and logits whose error is at most `factor` times the CPU's.
void expect_as_good_as_the_cpu(const core::StoredModel& model, const std::vector<int32_t>& prompt, size_t n_more,
                               double factor) {
  Cpu cpu;
  const auto cuda = make_cuda({});
  const Said expected = said(model, cpu, prompt, n_more);
  const Said got = said(model, *cuda, prompt, n_more);
  EXPECT_EQ(got.more, expected.more);
  std::vector<int32_t> text = prompt;
  text.insert(text.end(), got.more.begin(), got.more.end());
  const auto exact = test::Textbook(model).logits(text);
  EXPECT_LE(error_of(got.logits, exact), factor * error_of(expected.logits, exact));
}

// CPU and GPU round keys and values to F16. The GPU also rounds queries and probabilities, hence the factor of 2.
TEST(GpuModels, GoldenModelMatchesTheCpu) {
  const core::StoredModel model = core::read_model(FOLIO_GOLDEN);
  expect_as_good_as_the_cpu(model, test::random_tokens(9, 1, model.config.vocab_size), 30, 2.0);
}

// CPU and GPU round the inputs of products to 8 bits, which outweighs all other errors, hence a factor near 1.
TEST(GpuModels, APublishedModelsFirstLayersSayWhatTheySayOnTheCpu) {
  const std::filesystem::path file = FOLIO_SMOLLM2;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there: make smollm2 fetches it";
  expect_as_good_as_the_cpu(core::with_layers(core::read_model(file), 2), {504, 3575, 282, 4649, 314}, 4, 1.1);
}

}  // namespace
}  // namespace folio::infer

// Tests cuda_bench on the emulator: operation counts are right, attention runs in its plain and fast versions, and each
// result is a line of JSON. The times have no meaning here.
#include "apps/cuda_bench/bench.h"

#include <gtest/gtest.h>

#include <fstream>

#include "apps/cuda_bench/models.h"
#include "core/manifest.h"
#include "infer/cuda/copy_bandwidth.h"
#include "tests/core/support.h"

namespace folio::infer::gpu::bench {
namespace {

constexpr double kBandwidth = 1e12;

Options tiny_options() {
  Options o;
  o.shapes = {"tiny"};
  o.types = {"f16", "q4_0"};
  o.contexts = {40};
  o.batches = {3};
  o.batch_context = 33;
  o.tokens = 2;
  o.prompt = 70;
  o.attention = 70;
  o.effort = {.milliseconds = 0.0, .repetitions = 1, .spread_bytes = 1 << 20, .copy_bytes = size_t{64} << 20U};
  return o;
}

// Runs one part of the benchmark and returns the results that it writes.
std::vector<Record> rows_of(void (*part)(const Bench&, const std::string&), const Options& options) {
  const core::test::TempDir folder;
  const std::string file = (folder / "rows.jsonl").string();
  Stream stream(0);
  {
    Results results(file);
    part({.options = options, .stream = stream, .bandwidth = kBandwidth, .results = results}, "tiny");
  }
  std::vector<Record> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) rows.push_back(Record::parse(line));
  return rows;
}

TEST(CudaBench, ShapesMatchPublishedModels) {
  EXPECT_EQ(core::parameter_count(shape("8b", 8192)), 8030261248);    // Llama 3 8B
  EXPECT_EQ(core::parameter_count(shape("1.1b", 2048)), 1100048384);  // TinyLlama 1.1B
  EXPECT_THROW(static_cast<void>(shape("9b", 1)), core::UsageError);
}

TEST(CudaBench, BytesPerTokenMatchTheWeights) {
  core::ThreadPool pool(1);
  const auto config = shape("tiny", 64);
  const auto bytes = [&](core::DType type) { return bytes_of_token(random_model(config, type, pool)); };
  const uint64_t layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128;
  const uint64_t output = 96 * 64;
  const uint64_t norms = 5 * 64 * 4;
  EXPECT_EQ(bytes(core::DType::F16), 2 * (2 * layer + output) + norms);
  EXPECT_EQ(bytes(core::DType::Q8_0), (2 * layer + output) * 34 / 32 + norms);
  EXPECT_EQ(bytes(core::DType::Q4_0), 2 * layer * 18 / 32 + output * 34 / 32 + norms);
  EXPECT_EQ(bytes_of_position(config, true), 2 * 2 * 32 * 2);
  EXPECT_EQ(operations_of_row(config), 2.0 * 2 * static_cast<double>(layer));
}

TEST(CudaBench, LayersShareTheirMemory) {
  core::ThreadPool pool(2);
  const auto model = random_model(shape("tiny", 64), core::DType::Q8_0, pool);
  const auto manifest = core::tensor_manifest(model.config);
  for (size_t i = 0; i < manifest.size(); ++i) {
    for (size_t j = 0; j < manifest.size(); ++j) {
      EXPECT_EQ(model.tensors[i].bytes.data() == model.tensors[j].bytes.data(), manifest[i].role == manifest[j].role);
    }
  }
}

TEST(CudaBench, TimesAttentionForPrefillAndDecode) {
  const auto rows = rows_of(time_attention, tiny_options());
  EXPECT_EQ(rows.size(), 3U);
  // QK and PV each need two operations per element of a head (64) for each of the 70 * 71 / 2 pairs of row and
  // position.
  const double operations = 4.0 * 64 * 70 * 71 / 2;
  EXPECT_NEAR(rows[0].at("tflop_per_s").get<double>() * rows[0].at("us").get<double>() * 1e6, operations,
              1e-6 * operations);
}

TEST(CudaBench, ReportsBytesOfDecodeSteps) {
  const Options options = tiny_options();
  const auto rows = rows_of(time_decoding, options);
  ASSERT_EQ(rows.size(), 8U);  // 2 types × with or without --fast × 1 or 3 sequences
  core::ThreadPool pool(1);
  for (const Record& row : rows) {
    const auto config = shape("tiny", 128);
    const auto model = random_model(config, type_of(row.at("type").get<std::string>()), pool);
    const double positions = row.at("batch").get<double>() * (row.at("context").get<double>() + 1.5);
    const double bytes =
        static_cast<double>(bytes_of_token(model)) + positions * static_cast<double>(bytes_of_position(config, true));
    EXPECT_DOUBLE_EQ(row.at("gb").get<double>(), bytes / 1e9);
    EXPECT_DOUBLE_EQ(row.at("bound_us").get<double>(), bytes / kBandwidth * 1e6);
    EXPECT_NEAR(row.at("share_of_copy").get<double>() * row.at("us").get<double>(), bytes / kBandwidth * 1e6, 1e-9);
  }
}

TEST(CudaBench, TimesPrefill) { EXPECT_EQ(rows_of(time_prompt, tiny_options()).size(), 4U); }

TEST(CudaBench, MeasuresCopyBandwidth) { EXPECT_GT(copy_bandwidth(0, size_t{64} << 20U), 0.0); }

}  // namespace
}  // namespace folio::infer::gpu::bench

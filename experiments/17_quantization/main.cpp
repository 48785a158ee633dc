// Study: how much does the loss rise with fewer bits per weight? The results are explained in README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/paths.h"
#include "data/corpus.h"
#include "experiments/17_quantization/outliers.h"
#include "experiments/17_quantization/rounding.h"
#include "experiments/17_quantization/study.h"
#include "experiments/common/interval_chart.h"
#include "experiments/common/readers_model.h"

namespace folio::experiments {
namespace {

using core::DType;

constexpr std::array kTypes{DType::F16, DType::BF16, DType::Q8_0, DType::Q4_1, DType::Q4_0};
constexpr std::array kBlocks{DType::Q8_0, DType::Q4_1, DType::Q4_0};

void compare_types(Study& s) {
  const bool whole = whole_rows(s.exact);
  Report::Rows rows;
  std::vector<IntervalChart::Row> chart;
  std::map<DType, std::vector<double>> windows;  // losses by window with quantized weights and float activations
  std::map<DType, Interval> alone;
  for (const DType type : kTypes) {
    const core::StoredModel model = in_type(s.exact, type);
    uint64_t bytes = 0, elements = 0;
    for (const core::TensorView& tensor : model.tensors) {
      bytes += tensor.bytes.size();
      elements += *core::tensor_bytes(DType::F32, tensor.shape) / sizeof(float);
    }
    windows[type] = s.losses_of(as_floats(model));
    alone[type] = paired_interval(windows[type], s.losses);
    const auto here = whole ? std::optional(s.cost(model)) : std::nullopt;
    s.report.value("weights in " + name_of(type) + " cost", alone[type].mean);
    rows.push_back({name_of(type), bytes, 8.0 * static_cast<double>(bytes) / static_cast<double>(elements),
                    shown(alone[type], 4), here ? Report::Json(shown(*here, 4)) : Report::Json()});
    chart.push_back({name_of(type) + ", weights only", alone[type]});
    if (here) chart.push_back({name_of(type) + ", the engine", *here});
  }
  const auto all = mean_interval(s.losses);
  s.report.table(fmt::format("{}: {} tokens, loss {:.4f} in F32",
                             std::filesystem::path(s.model.path).lexically_relative(core::folio_home()).string(),
                             s.validation.size(), all.mean),
                 {"type", "bytes", "bits a weight", "weights only: loss - F32's", "the engine: loss - F32's"}, rows);
  s.report.value("loss in F32", all.mean);
  const Interval between = paired_interval(windows[DType::Q4_1], windows[DType::Q4_0]);
  s.report.table("Weights only, Q4_1 against Q4_0", {"", "Q4_1 - Q4_0"}, {{"loss", shown(between, 4)}});
  s.report.check_below("F16: what it changes in the loss", std::abs(alone[DType::F16].mean), 0.001);
  s.report.check_below("Q8_0: what it changes in the loss", std::abs(alone[DType::Q8_0].mean), 0.005);
  s.report.check_above("Q4_0 costs more than Q8_0 by", alone[DType::Q4_0].mean - alone[DType::Q8_0].mean, 0.0005);
  s.report.picture("types.svg",
                   IntervalChart{.title = "What fewer bits for each weight cost",
                                 .subtitle = "weights only, or the engine's products, which round inputs too",
                                 .x_label = "validation loss minus that in F32 (nats)",
                                 .rows = chart,
                                 .references = {{"no difference", 0.0}}});
}

void compare_tensors(Study& s) {
  Report::Rows rows;
  std::vector<IntervalChart::Row> chart;
  std::array<double, 3> worst{};  // by type in kBlocks: largest relative error over the kinds of matrices
  double q4_best = 1.0;
  const auto manifest = core::tensor_manifest(s.exact.config);
  for (const auto& [kind, values] : by_kind(s.exact)) {
    const GroupShape shape = shape_of(values);
    std::vector<Report::Json> row{kind, static_cast<int64_t>(values.size())};
    for (size_t b = 0; b < kBlocks.size(); ++b) {
      const double error = relative_error(values, rounded(values, kBlocks[b]));
      worst[b] = larger(worst[b], error);
      if (b == 2) q4_best = std::min(q4_best, error);
      row.emplace_back(100.0 * error);
    }
    row.insert(row.end(), {shape.typical, shape.largest, shape.off_centre});
    core::Weights weights = core::to_weights(s.exact);  // the model with only this kind of matrix in Q4_0
    for (size_t t = 0; t < manifest.size(); ++t) {
      if (manifest[t].shape.size() > 1 && kind_of(manifest[t]) == kind) {
        weights.tensors[t] = rounded(weights.tensors[t], DType::Q4_0);
      }
    }
    const Interval cost = s.cost(with_weights(s.exact, std::move(weights)));
    row.emplace_back(shown(cost, 4));
    s.report.value("only " + kind + " in Q4_0 costs", cost.mean);
    chart.push_back({kind, cost});
    rows.push_back(std::move(row));
  }
  s.report.table("Matrices of a kind: error in % of their root mean square; how their groups of 32 look",
                 {"matrices", "weights", "Q8_0", "Q4_1", "Q4_0", "max / rms", "largest", "|mean| / std",
                  "loss with these in Q4_0"},
                 rows);
  s.report.check_below("Q8_0: the largest error of a kind", worst[0], 0.02);
  s.report.check_below("Q4_0: the largest error of a kind", worst[2], 0.2);
  s.report.check_above("the smallest error of a kind in Q4_0, as a multiple of the largest in Q8_0", q4_best / worst[0],
                       4.0);
  s.report.picture("kinds.svg", IntervalChart{.title = "One kind of matrix in Q4_0, the others in F32",
                                              .subtitle = "weights only",
                                              .x_label = "validation loss minus that in F32 (nats)",
                                              .rows = chart,
                                              .references = {{"no difference", 0.0}}});
}

void list_tensors(Study& s) {
  Report::Rows rows;
  for (const core::TensorView& tensor : s.model.tensors) {
    if (tensor.shape.size() < 2) continue;
    const std::vector<float> values = core::to_floats(tensor);
    std::vector<Report::Json> row{tensor.name};
    for (const DType type : kBlocks) {
      row.emplace_back(100.0 * relative_error(values, rounded(values, type)));
    }
    rows.push_back(std::move(row));
  }
  s.report.table("Error of each tensor, %", {"tensor", "Q8_0", "Q4_1", "Q4_0"}, rows);
}

void study(Report& report) {
  ReadersModel reader = readers_model(report);
  core::require(std::ranges::all_of(reader.model.tensors, [](const auto& tensor) { return tensor.shape.size() < 3; }),
                "{}: this study measures models without experts and latent attention; train one with build/train "
                "tinyshakespeare",
                reader.model.path);
  const std::vector<int32_t> tokens = reader.tokenizer->encode(data::load_corpus("tinyshakespeare").text);
  auto validation = data::split_tokens(tokens, 0.1, 0.0).validation;
  validation = validation.first(std::min<size_t>(validation.size(), report.short_form() ? 2048 : 8192));
  Study s{.report = report,
          .model = reader.model,
          .exact = as_floats(reader.model),
          .validation = {validation.begin(), validation.end()}};
  s.losses = s.losses_of(s.exact);
  list_tensors(s);
  compare_types(s);
  compare_tensors(s);
  plant_outliers(s);
  shift_groups(s);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) {
  return folio::experiments::run_study(argc, argv, "17_quantization", folio::experiments::study);
}

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/error.h"
#include "core/number.h"
#include "infer/explain/analysis.h"

namespace folio::infer::explain {
namespace {

std::vector<float> mean_of(const std::vector<float>& rows, size_t width) {
  std::vector<double> sum(width);
  for (size_t k = 0; k < rows.size(); ++k) sum[k % width] += rows[k];
  for (double& total : sum) total /= static_cast<double>(rows.size() / width);
  return {sum.begin(), sum.end()};
}

}  // namespace

Interventions::Interventions(Runner& runner, const Options& options, const Trace& clean)
    : clean_(clean), head_dim_(static_cast<size_t>(runner.config().heads_dim() / runner.config().n_heads)) {
  const auto& [ablate, mean, patch, mean_over, from] = options.experiment;
  core::require(patch.empty() || !from.empty(), "\"{}\": a patch needs a source; give the prompt to patch from",
                patch.empty() ? "" : core::printable(patch.front()));
  const auto add_all = [&](const std::vector<std::string>& places, size_t n_source, bool patches) {
    for (const std::string& place : places) {
      core::require(patches || place.find('@') == std::string::npos, "\"{}\": only a patch has positions",
                    core::printable(place));
      add(place, runner.config(), n_source, patches);
      if (n_source > 0) require_fits(runner, n_source, fmt::format("\"{}\": its source", core::printable(place)));
    }
  };
  add_all(ablate, 0, false);
  const size_t n_ablated = all_.size();
  add_all(mean, mean_over.size(), false);
  add_all(patch, from.size(), true);
  // Runs each distinct source text (mean_over, from) once. All names and text lengths have been checked above.
  std::map<std::vector<int32_t>, std::shared_ptr<const Trace>> traces;
  traces[clean.tokens] = std::shared_ptr<const Trace>(std::shared_ptr<void>(), &clean);
  for (size_t i = n_ablated; i < all_.size(); ++i) {
    const std::vector<int32_t>& tokens = all_[i].patches ? from : mean_over.empty() ? clean.tokens : mean_over;
    auto& trace = traces[tokens];
    if (!trace) trace = std::make_shared<const Trace>(run_traced(runner, tokens, options));
    all_[i].source = trace;
  }
}

// Parses a place in an Experiment, such as "3.heads@5:2", and adds its replacements. Throws core::Error if it is
// malformed, or if its layer, head or position does not exist. The source text has n_source tokens.
void Interventions::add(const std::string& place, const core::ModelConfig& config, size_t n_source, bool patches) {
  constexpr std::array<std::string_view, 5> kParts{"heads", "attention", "ffn", "layer", "residual"};
  const size_t at = std::min(place.find('@'), place.size());
  const size_t dot = std::min(place.find('.'), at);
  const auto layer = core::number_of<int64_t>(place.substr(0, dot));
  std::string part = dot == at ? "layer" : place.substr(dot + 1, at - dot - 1);
  One one{.head = core::number_of<int64_t>(part), .patches = patches};
  if (one.head) part = "heads";
  bool valid = layer && std::ranges::find(kParts, part) != kParts.end();
  if (at < place.size()) {
    const size_t colon = std::min(place.find(':', at), place.size() - 1);
    one.to = core::number_of<int64_t>(place.substr(at + 1, colon - at - 1));
    const auto from = core::number_of<int64_t>(place.substr(colon + 1));
    one.from = from.value_or(-1);
    valid = valid && one.to && from;
  }
  core::require(valid,
                "\"{}\" is not a place: expected a layer L, or L.HEAD, L.heads, L.attention, L.ffn or L.residual, "
                "and for a patch perhaps @TO:FROM",
                core::printable(place));
  const auto exists = [&](const char* what, int64_t index, int64_t n) {
    core::require(index >= 0 && index < n, "\"{}\": {} {} does not exist, expected 0 to {}", core::printable(place),
                  what, index, n - 1);
  };
  exists("layer", *layer, config.n_layers);
  exists("head", one.head.value_or(0), config.n_heads);
  exists("position", one.to.value_or(0), std::ssize(clean_.tokens));
  if (one.to) exists("position", one.from, static_cast<int64_t>(n_source));
  const auto replace = [&](const std::string& name, const std::string& base) {
    all_.push_back(one);
    all_.back().name = name;
    all_.back().base = base;
  };
  const auto of_layer = [&](const char* what, int64_t l) { return fmt::format("layers.{}.{}", l, what); };
  const std::string middle = of_layer("attention_residual", *layer);
  const std::string last = of_layer("ffn_residual", *layer);
  if (part == "heads") replace(of_layer("heads", *layer), "");
  if (part == "residual") replace(last, "");
  if (part == "attention" || part == "layer") {
    replace(middle, *layer == 0 ? "embedding" : of_layer("ffn_residual", *layer - 1));
  }
  if (part == "ffn" || part == "layer") replace(last, middle);
}

bool Interventions::apply(const std::string& name, std::span<float> values, const Trace& before) const {
  const size_t n_rows = before.tokens.size();
  const size_t width = values.size() / n_rows;
  bool changes = false;
  for (const One& one : all_) {
    if (one.name != name) continue;
    changes = true;
    const auto base_in = [&](const Trace& trace) { return one.base.empty() ? nullptr : &trace.at(one.base); };
    std::vector<float> rows(width);  // replacement values: one row for zero or mean; all source rows for a patch
    if (one.source) {
      rows = one.source->at(name);
      if (const auto* base = base_in(*one.source)) rows = difference(std::move(rows), *base);
      if (!one.patches) rows = mean_of(rows, width);
    }
    const std::vector<float>* base = base_in(before);
    const size_t first = one.head ? static_cast<size_t>(*one.head) * head_dim_ : 0;
    const size_t last = one.head ? first + head_dim_ : width;
    for (size_t to = 0; to < n_rows; ++to) {
      if (!one.replaces(to, n_rows)) continue;
      const size_t aligned = one.patches ? to + one.source->tokens.size() - n_rows : 0;
      const size_t from = one.to ? static_cast<size_t>(one.from) : aligned;
      for (size_t c = first; c < last; ++c) {
        values[to * width + c] = rows[from * width + c] + (base == nullptr ? 0.0F : (*base)[to * width + c]);
      }
    }
  }
  return changes;
}

bool Interventions::One::replaces(size_t row, size_t n_rows) const {
  if (to) return static_cast<size_t>(*to) == row;
  return !patches || row + source->tokens.size() >= n_rows;
}

bool Interventions::replace_attention(int64_t layer, size_t row) const {
  const std::string name = fmt::format("layers.{}.attention_residual", layer);
  return std::ranges::any_of(
      all_, [&](const One& one) { return one.name == name && one.replaces(row, clean_.tokens.size()); });
}

}  // namespace folio::infer::explain

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/error.h"
#include "core/number.h"
#include "infer/explain/analysis.h"

namespace folio::infer::explain {
namespace {

// Parses the name of an activation in an Experiment, such as "3.heads@5:2". Throws core::Error if it is malformed, or
// if its layer, head or position does not exist. The prompt has n_rows tokens, the source text has n_source.
Place place_of(const std::string& text, const core::ModelConfig& config, size_t n_rows, size_t n_source) {
  constexpr std::array<std::string_view, 5> kParts{"heads", "attention", "ffn", "layer", "residual"};
  const size_t at = std::min(text.find('@'), text.size());
  const size_t dot = std::min(text.find('.'), at);
  const auto layer = core::number_of<int64_t>(text.substr(0, dot));
  Place place{.layer = layer.value_or(-1), .part = dot == at ? "layer" : text.substr(dot + 1, at - dot - 1)};
  place.head = core::number_of<int64_t>(place.part);
  if (place.head) place.part = "heads";
  bool valid = layer && std::ranges::find(kParts, place.part) != kParts.end();
  if (at < text.size()) {
    const size_t colon = std::min(text.find(':', at), text.size() - 1);
    place.to = core::number_of<int64_t>(text.substr(at + 1, colon - at - 1));
    const auto from = core::number_of<int64_t>(text.substr(colon + 1));
    place.from = from.value_or(-1);
    valid = valid && place.to && from;
  }
  core::require(valid,
                "\"{}\" is not a place: expected a layer L, or L.HEAD, L.heads, L.attention, L.ffn or L.residual, "
                "and for a patch perhaps @TO:FROM",
                text);
  const auto exists = [&](const char* what, int64_t index, int64_t n) {
    core::require(index >= 0 && index < n, "\"{}\": {} {} does not exist, expected 0 to {}", text, what, index, n - 1);
  };
  exists("layer", place.layer, config.n_layers);
  exists("head", place.head.value_or(0), config.n_heads);
  exists("position", place.to.value_or(0), static_cast<int64_t>(n_rows));
  if (place.to) exists("position", place.from, static_cast<int64_t>(n_source));
  return place;
}

// Returns true if an intervention at `place` changes the activation `what` of the place's layer.
bool is_at(const Place& place, std::string_view what) {
  if (what == "heads") return place.part == "heads";
  if (what == "attention_residual") return place.part == "attention" || place.part == "layer";
  return what == "ffn_residual" && (place.part == "ffn" || place.part == "layer" || place.part == "residual");
}

// Returns the residual stream (T, dim) before the branch at `place` is added; null if `place` is not a branch.
const std::vector<float>* base_of(const Place& place, std::string_view what, const Trace& trace) {
  if (place.part == "heads" || place.part == "residual") return nullptr;
  return what == "ffn_residual" ? &trace.at("attention_residual", place.layer) : &trace.level(place.layer);
}

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
                patch.empty() ? "" : patch.front());
  const auto add = [&](const std::vector<std::string>& places, size_t n_source, bool patches) {
    for (const std::string& text : places) {
      core::require(patches || text.find('@') == std::string::npos, "\"{}\": only a patch has positions", text);
      all_.push_back({place_of(text, runner.config(), clean.tokens.size(), n_source), patches, nullptr});
      if (n_source > 0) require_fits(runner, n_source, fmt::format("\"{}\": its source", text));
    }
  };
  add(ablate, 0, false);
  add(mean, mean_over.size(), false);
  add(patch, from.size(), true);
  // Runs each distinct source text (mean_over, from) once. All names and text lengths have been checked above.
  std::map<std::vector<int32_t>, std::shared_ptr<const Trace>> traces;
  traces[clean.tokens] = std::shared_ptr<const Trace>(std::shared_ptr<void>(), &clean);
  for (size_t i = ablate.size(); i < all_.size(); ++i) {
    const std::vector<int32_t>& tokens = all_[i].patches ? from : mean_over.empty() ? clean.tokens : mean_over;
    auto& trace = traces[tokens];
    if (!trace) trace = std::make_shared<const Trace>(run_traced(runner, tokens, options));
    all_[i].source = trace;
  }
}

bool Interventions::operator()(const std::string& name, std::span<float> values, const Trace& before) const {
  const size_t n_rows = before.tokens.size();
  const size_t width = values.size() / n_rows;
  bool changes = false;
  for (const One& one : all_) {
    const auto& [place, patches, source] = one;
    const std::string prefix = fmt::format("layers.{}.", place.layer);
    const std::string what = name.starts_with(prefix) ? name.substr(prefix.size()) : "";
    if (!is_at(place, what)) continue;
    changes = true;
    std::vector<float> rows(width);  // replacement values: one row for zero or mean; all source rows for a patch
    if (source) {
      rows = source->at(what, place.layer);
      if (const auto* base = base_of(place, what, *source)) rows = difference(std::move(rows), *base);
      if (!patches) rows = mean_of(rows, width);
    }
    const std::vector<float>* base = base_of(place, what, before);
    const size_t first = place.head ? static_cast<size_t>(*place.head) * head_dim_ : 0;
    const size_t last = place.head ? first + head_dim_ : width;
    for (size_t to = 0; to < n_rows; ++to) {
      if (!one.replaces(to, n_rows)) continue;
      const size_t aligned = patches ? to + source->tokens.size() - n_rows : 0;
      const size_t from = place.to ? static_cast<size_t>(place.from) : aligned;
      for (size_t c = first; c < last; ++c) {
        values[to * width + c] = rows[from * width + c] + (base == nullptr ? 0.0F : (*base)[to * width + c]);
      }
    }
  }
  return changes;
}

bool Interventions::One::replaces(size_t row, size_t n_rows) const {
  if (place.to) return static_cast<size_t>(*place.to) == row;
  return !patches || row + source->tokens.size() >= n_rows;
}

bool Interventions::replace_attention(int64_t layer, size_t row) const {
  return std::ranges::any_of(all_, [&](const One& one) {
    return one.place.layer == layer && is_at(one.place, "attention_residual") &&
           one.replaces(row, clean_.tokens.size());
  });
}

}  // namespace folio::infer::explain

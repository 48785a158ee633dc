#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/number.h"
#include "infer/explain/analysis.h"

namespace folio::infer::explain {
namespace {

using Place = Interventions::Place;

// Parses Intervention::place. Throws core::Error if there is no such place in the model.
Place place_of(const std::string& text, const core::ModelConfig& config) {
  constexpr std::array<std::string_view, 5> kParts{"heads", "attention", "ffn", "layer", "residual"};
  const size_t dot = text.find('.');
  const auto layer = core::number_of<int64_t>(text.substr(0, dot));
  Place place{.layer = layer.value_or(-1), .part = dot == std::string::npos ? "layer" : text.substr(dot + 1)};
  place.head = core::number_of<int64_t>(place.part);
  if (place.head) place.part = "heads";
  core::require(layer && std::ranges::find(kParts, place.part) != kParts.end(),
                "\"{}\" is not a place, expected a layer L, or L.HEAD, L.heads, L.attention, L.ffn or L.residual",
                text);
  core::require(*layer >= 0 && *layer < config.n_layers, "\"{}\": layer {} does not exist, expected 0 to {}", text,
                *layer, config.n_layers - 1);
  core::require(!place.head || (*place.head >= 0 && *place.head < config.n_heads),
                "\"{}\": head {} does not exist, expected 0 to {}", text, place.head.value_or(0), config.n_heads - 1);
  return place;
}

void check(const Intervention& i, size_t n_rows) {
  const bool patches = i.by == Replacement::Patch;
  core::require(!patches || !i.source.empty(), "\"{}\": a patch needs a source; give the prompt to patch from",
                i.place);
  core::require(patches || !i.positions, "\"{}\": only a patch may have positions; leave them out", i.place);
  if (!i.positions) return;
  const auto exists = [&](int64_t position, size_t n) {
    core::require(position >= 0 && position < static_cast<int64_t>(n),
                  "\"{}\": position {} does not exist, expected 0 to {}", i.place, position, n - 1);
  };
  exists(i.positions->to, n_rows);
  exists(i.positions->from, i.source.size());
}

// Returns true if the activation `what` of the layer is where the part is replaced.
bool is_at(const Place& place, std::string_view what) {
  if (what == "heads") return place.part == "heads";
  if (what == "attention_residual") return place.part == "attention" || place.part == "layer";
  return what == "ffn_residual" && (place.part == "ffn" || place.part == "layer" || place.part == "residual");
}

// Returns the residual stream (T, dim) that a branch is added to, or null if the part is no branch.
const std::vector<float>* base_of(const Place& place, std::string_view what, const Trace& trace) {
  if (place.part == "heads" || place.part == "residual") return nullptr;
  return what == "ffn_residual" ? &trace.at("attention_residual", place.layer) : &trace.level(place.layer);
}

// Returns the activation, or what the branch adds: (tokens of the trace, width).
std::vector<float> activation_of(const Place& place, const std::string& what, const Trace& trace) {
  std::vector<float> values = trace.at(what, place.layer);
  const std::vector<float>* base = base_of(place, what, trace);
  for (size_t k = 0; base != nullptr && k < values.size(); ++k) values[k] -= (*base)[k];
  return values;
}

std::vector<float> mean_of(const std::vector<float>& rows, size_t width) {
  std::vector<double> sum(width);
  for (size_t k = 0; k < rows.size(); ++k) sum[k % width] += rows[k];
  for (double& total : sum) total /= static_cast<double>(rows.size() / width);
  return {sum.begin(), sum.end()};
}

}  // namespace

Interventions::Interventions(Runner& runner, const Options& options, const Trace& clean)
    : clean_(clean), head_dim_(static_cast<size_t>(runner.config().head_dim)) {
  for (const Intervention& i : options.interventions) {
    all_.push_back({.place = place_of(i.place, runner.config()), .intervention = &i});
    check(i, clean.tokens.size());
    if (!i.source.empty()) all_.back().source = run_traced(runner, i.source, options.adapter);
  }
}

bool Interventions::operator()(const std::string& name, std::span<float> values, const Trace& before) const {
  const size_t n_rows = before.tokens.size();
  const size_t width = values.size() / n_rows;
  bool changes = false;
  for (const One& one : all_) {
    const std::string prefix = fmt::format("layers.{}.", one.place.layer);
    const std::string what = name.starts_with(prefix) ? name.substr(prefix.size()) : "";
    if (!is_at(one.place, what)) continue;
    changes = true;
    const Intervention& i = *one.intervention;
    const Trace& source = one.source.tokens.empty() ? clean_ : one.source;
    const size_t n_from = source.tokens.size();
    std::vector<float> by(width);
    if (i.by != Replacement::Zero) by = activation_of(one.place, what, source);
    if (i.by == Replacement::Mean) by = mean_of(by, width);
    const std::vector<float>* base = base_of(one.place, what, before);
    const size_t first = one.place.head ? static_cast<size_t>(*one.place.head) * head_dim_ : 0;
    const size_t last = one.place.head ? first + head_dim_ : width;
    for (size_t row = 0; row < n_rows; ++row) {
      size_t from = 0;
      if (i.positions) {
        if (static_cast<int64_t>(row) != i.positions->to) continue;
        from = static_cast<size_t>(i.positions->from);
      } else if (i.by == Replacement::Patch) {
        if (row + n_from < n_rows) continue;
        from = row + n_from - n_rows;
      }
      for (size_t c = first; c < last; ++c) {
        values[row * width + c] = by[from * width + c] + (base == nullptr ? 0.0F : (*base)[row * width + c]);
      }
    }
  }
  return changes;
}

bool Interventions::replace_attention(int64_t layer) const {
  return std::ranges::any_of(
      all_, [&](const One& one) { return one.place.layer == layer && is_at(one.place, "attention_residual"); });
}

}  // namespace folio::infer::explain

#include "infer/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/file_status.h"
#include "core/number.h"
#include "infer/cache/block_manager.h"
#include "infer/explain/analysis.h"

namespace folio::infer::explain {

[[nodiscard]] std::string_view page();  // returns the contents of page.html; the build generates this function

namespace {

void run_alone(Runner& runner, std::span<const int32_t> tokens, int32_t adapter, const Observer& observer) {
  runner.require_adapter(adapter);
  const ScopedSequence sequence(runner.cache(), adapter);  // private: its blocks never enter the prefix cache
  std::vector<Row> rows;
  for (const int32_t token : tokens) {
    rows.push_back({.token = token, .sequence = sequence.id(), .position = std::ssize(rows)});
  }
  static_cast<void>(runner.forward(rows, observer));
}

// Returns the operand shapes of each kind of operation on n rows, such as "rows × columns · rows × columns" for a
// product. Leaves out activation, gate, up and down if only some layers have experts: their shapes vary between layers.
std::map<std::string_view, std::string> shapes_of(const core::ModelConfig& c, int64_t n) {
  const auto vectors = [](int64_t rows, int64_t width) { return fmt::format("{} × {}", rows, width); };
  const auto product = [&](int64_t rows, int64_t in, int64_t out) {
    return vectors(rows, in) + " · " + vectors(in, out);
  };
  const int64_t keys_dim = c.latent() ? c.latent_dim() : c.kv_dim();
  const int64_t values_dim = c.latent() ? 0 : c.kv_dim();
  const int64_t first_queries = c.q_lora_rank > 0 ? c.q_lora_rank : c.query_dim();
  const int64_t taken = n * c.experts_per_token;
  const int64_t hidden = c.n_experts > 0 ? c.shared_dim : c.hidden_dim;
  std::map<std::string_view, std::string> shapes{
      {"embedding", vectors(n, c.dim)},
      {"norms", vectors(n, c.dim)},
      {"q, k, v", product(n, c.dim, first_queries + keys_dim + values_dim)},
      {"rotate and store", vectors(n, c.query_dim() + keys_dim)},
      {"latent heads", fmt::format("{} heads: {}, {}", c.n_heads, product(n, c.qk_nope_head_dim, c.kv_lora_rank),
                                   product(n, c.kv_lora_rank, c.v_head_dim))},
      {"attention", fmt::format("{} heads: {}", c.n_heads, product(n, c.latent() ? keys_dim : c.head_dim, n))},
      {"attention output", product(n, c.heads_dim(), c.dim)},
      {"router", product(n, c.dim, c.n_experts)},
      {"expert gate, up", product(taken, c.dim, 2 * c.expert_dim)},
      {"expert down", product(taken, c.expert_dim, c.dim)},
      {"shared gate", product(n, c.dim, 1)},
      {"logits", product(n, c.dim, c.vocab_size)}};
  if (c.q_lora_rank > 0) shapes["q, k, v"] += ", " + product(n, c.q_lora_rank, c.query_dim());
  if (c.n_experts > 0 && c.dense_layers > 0) return shapes;
  if (c.n_experts > 0) shapes["activation"] = vectors(taken, c.expert_dim) + (hidden > 0 ? ", " : "");
  if (hidden == 0) return shapes;
  shapes["activation"] += vectors(n, hidden);
  shapes["gate, up"] = product(n, c.dim, 2 * hidden);
  shapes["down"] = product(n, hidden, c.dim);
  return shapes;
}

// Runs the prompt again, with profiling. Returns operand shapes, memory traffic (bytes) and time per kind of operation.
Json measure(Runner& runner, ProfiledMachine& profiled, std::span<const int32_t> tokens, int32_t adapter) {
  profiled.profile = {};
  profiled.enabled = true;
  run_alone(runner, tokens, adapter, {});
  profiled.enabled = false;
  auto shapes = shapes_of(runner.config(), std::ssize(tokens));
  Json operations = Json::array();
  for (size_t kind = 0; kind < kWorkKinds.size(); ++kind) {
    const Work& work = profiled.profile.kinds[kind];
    if (work.operations == 0) continue;
    operations.push_back({{"kind", kWorkKinds[kind]},
                          {"shape", shapes[kWorkKinds[kind]]},
                          {"bytes", work.bytes()},
                          {"ms", work.seconds * 1e3}});
  }
  return operations;
}

Json residual_sizes(const core::ModelConfig& config, const Trace& trace) {
  Json levels;
  for (int64_t level = 0; level <= config.n_layers; ++level) {
    Json& rows = levels.emplace_back();
    for (size_t i = 0; i < trace.tokens.size(); ++i) rows.push_back(rms(trace.row(trace.level(level), i), 0.0F));
  }
  return levels;
}

// Returns each row's selected experts as [index, weight], by layer; null for a layer, or a model, without experts.
Json experts_of(const core::ModelConfig& config, const Trace& trace) {
  Json layers;
  for (int64_t layer = 0; layer < config.n_layers && config.n_experts > 0; ++layer) {
    Json& rows = layers.emplace_back();
    for (size_t i = 0; config.has_experts(layer) && i < trace.tokens.size(); ++i) {
      const std::span<const float> routes = trace.row(trace.at("routes", layer), i);
      Json& chosen = rows.emplace_back(Json::array());
      for (size_t e = 0; e < routes.size(); ++e) {
        if (routes[e] != 0.0F) chosen.push_back(Json{e, routes[e]});
      }
    }
  }
  return layers;
}

// Returns the attention weights of a layer's heads in base64: for each row, one byte, 255 * weight, per position up to
// and including the row's own.
std::string attention_text(const std::vector<float>& weights, size_t n) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint32_t> bytes;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (i % n <= i / n % n) bytes.push_back(static_cast<uint32_t>(std::lround(255.0F * weights[i])));
  }
  const size_t n_bytes = bytes.size();
  bytes.resize((n_bytes + 2) / 3 * 3);
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const uint32_t group = bytes[i] << 16U | bytes[i + 1] << 8U | bytes[i + 2];
    for (const uint32_t shift : {18U, 12U, 6U, 0U}) text += kDigits[group >> shift & 63U];
  }
  return text.replace(text.size() - (bytes.size() - n_bytes), std::string::npos, bytes.size() - n_bytes, '=');
}

std::string text_of(const data::Tokenizer& tokenizer, int32_t token) {
  if (token >= tokenizer.vocab_size()) return fmt::format("<{}>", token);  // padding of the vocabulary
  const std::string& bytes = tokenizer.token_bytes(token);
  const data::SpecialToken* special = bytes.empty() ? tokenizer.special_tokens().token_of(token) : nullptr;
  return special == nullptr ? bytes : special->text;
}

// Adds to `tokens` the token of every list [token, probability, …] in `part`, a subtree of an explanation.
void add_tokens(const Json& part, std::set<int32_t>& tokens) {
  if (part.is_array() && !part.empty() && part[0].is_number_integer()) {
    tokens.insert(part[0].get<int32_t>());
  } else if (part.is_structured()) {
    for (const Json& inner : part) add_tokens(inner, tokens);
  }
}

Json model_info(const core::StoredModel& model) {
  const core::ModelConfig& c = model.config;
  std::map<core::DType, size_t> bytes;
  for (const core::TensorView& tensor : model.tensors) bytes[tensor.type] += tensor.bytes.size();
  const auto most = std::ranges::max_element(bytes, {}, &std::pair<const core::DType, size_t>::second);
  return {{"name", model.path.empty() ? "" : core::normal_path(model.path).filename().string()},  // empty: in memory
          {"family", core::info(c.family).name},
          {"type", core::info(most->first).name},
          {"n_layers", c.n_layers},
          {"n_heads", c.n_heads},
          {"n_kv_heads", c.n_kv_heads},
          {"dim", c.dim},
          {"vocab_size", c.vocab_size},
          {"parameters", core::parameter_count(c)}};
}

void round_numbers(Json& json) {
  if (json.is_number_float()) json = core::number_of<double>(fmt::format("{:.4g}", json.get<double>())).value_or(0.0);
  if (json.is_structured()) std::ranges::for_each(json, round_numbers);
}

}  // namespace

const std::vector<float>& Trace::at(const std::string& what, int64_t layer) const {
  return values.at(layer < 0 ? what : fmt::format("layers.{}.{}", layer, what));
}

void require_fits(const Runner& runner, size_t n_tokens, std::string_view what) {
  const size_t most = std::min({kMostTokens, runner.max_rows(), static_cast<size_t>(runner.config().context_length)});
  core::require(n_tokens > 0, "{} has 0 tokens, expected 1 to {}", what, most);
  core::require(n_tokens <= most, "{} has {} tokens, expected 1 to {}; shorten it", what, n_tokens, most);
}

Trace run_traced(Runner& runner, std::span<const int32_t> tokens, const Options& options,
                 const Interventions* interventions) {
  const auto needed = [](std::string_view name) {  // activations that the JSON and interventions use
    return !name.ends_with("norm") && !name.ends_with(".value") && !name.ends_with(".ffn_hidden") &&
           name.find("projected") == std::string_view::npos;
  };
  Trace trace{.tokens = {tokens.begin(), tokens.end()}};
  run_alone(runner, tokens, options.adapter, [&](const std::string& name, std::span<float> values, size_t) {
    const bool changed = interventions != nullptr && interventions->apply(name, values, trace);
    if (options.keep_activations || needed(name)) trace.values[name].assign(values.begin(), values.end());
    return changed;
  });
  return trace;
}

Explanation explain(Runner& runner, const data::Tokenizer& tokenizer, const std::vector<int32_t>& tokens,
                    const Options& options) {
  const core::ModelConfig& config = runner.config();
  core::require(!options.token || (*options.token >= 0 && *options.token < config.vocab_size),
                "token {} is outside the vocabulary of {}", options.token.value_or(0), config.vocab_size);
  core::require(runner.writable(), "a model in a pipeline of ranks cannot be explained; use one process");
  require_fits(runner, tokens.size(), "the prompt");
  if (options.profiled != nullptr) options.profiled->enabled = false;
  Trace clean = run_traced(runner, tokens, options);
  const Interventions interventions(runner, options, clean);
  const bool intervenes = !options.experiment.empty();
  Trace changed = intervenes ? run_traced(runner, tokens, options, &interventions) : Trace{};
  Trace& trace = intervenes ? changed : clean;
  Json candidates = candidates_of(trace);
  std::vector<int32_t> likeliest;
  for (const Json& row : candidates) likeliest.push_back(row["list"][0][0]);
  const std::vector<int32_t> chosen(tokens.size(), options.token.value_or(0));
  const Tensors tensors(runner.model());
  std::vector<std::vector<float>> attention;
  std::set<int32_t> mentioned{tokens.begin(), tokens.end()};
  mentioned.insert(likeliest.begin(), likeliest.end());
  if (options.token) mentioned.insert(*options.token);

  Explanation e{.json = {{"version", 1}, {"model", model_info(runner.model())}}};
  for (const int32_t token : tokens) e.json["tokens"].push_back({{"id", token}, {"text", text_of(tokenizer, token)}});
  for (int64_t l = 0; l < config.n_layers; ++l) {
    if (config.latent()) expand_latents(tensors, l, trace, options.keep_activations);
    std::vector<float> weights = attention_weights(tensors, l, trace);
    e.json["attention"].push_back(attention_text(weights, tokens.size()));
    if (options.keep_activations) attention.push_back(std::move(weights));
  }
  e.json["lens"] = logit_lens(runner, trace, likeliest);
  e.json["residual"] = residual_sizes(config, trace);
  e.json["attribution"] = attribute(runner, tensors, trace, options.token ? chosen : likeliest, interventions);
  e.json["candidates"] = std::move(candidates);
  e.json["experts"] = experts_of(config, trace);
  e.json["operations"] =
      options.profiled == nullptr ? Json::array() : measure(runner, *options.profiled, tokens, options.adapter);
  e.json["interventions"] = intervenes ? effects_of(clean, trace, options) : Json();
  e.json["server"] = nullptr;
  for (const char* key : {"lens", "candidates", "interventions"}) add_tokens(e.json[key], mentioned);
  for (const int32_t token : mentioned) e.json["vocabulary"][std::to_string(token)] = text_of(tokenizer, token);
  if (options.keep_activations) e.activations = named_activations(config, trace, std::move(attention));
  return e;
}

std::string to_text(Json json) {
  round_numbers(json);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_html(const Json& json) {
  constexpr std::string_view kMarker = "@DATA@";
  std::string data = to_text(json);
  for (size_t at = data.find('<'); at != std::string::npos; at = data.find('<', at)) data.replace(at, 1, "\\u003c");
  std::string html(page());
  return html.replace(html.find(kMarker), kMarker.size(), data);
}

}  // namespace folio::infer::explain

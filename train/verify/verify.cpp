#include "train/verify/verify.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/float16.h"
#include "data/batches.h"
#include "infer/engine/generate.h"
#include "infer/engine/perplexity.h"
#include "modules/attention.h"
#include "modules/families/latent_attention.h"
#include "modules/families/mixture.h"
#include "modules/swiglu.h"
#include "train/verify/observe.h"

namespace folio::train {
namespace {

// Maps the reference's token ids to the engine's.
std::vector<int32_t> ids_of(const EngineSide& side, std::span<const int32_t> tokens) {
  std::vector<int32_t> ids(tokens.begin(), tokens.end());
  for (int32_t& id : ids) id = side.ids.empty() ? id : side.ids.at(static_cast<size_t>(id));
  return ids;
}

void run(infer::Engine& engine, infer::Request request) {
  infer::ScopedRequests requests(engine);
  requests.add(std::move(request));
  infer::run(engine, requests.ids());
}

std::vector<float> in_reference_order(const EngineSide& side, std::span<const float> logits) {
  if (side.ids.empty()) return {logits.begin(), logits.end()};
  const auto width = static_cast<size_t>(side.engine.config().vocab_size);
  std::vector<float> selected;
  for (size_t row = 0; row < logits.size(); row += width) {
    for (const int32_t id : side.ids) selected.push_back(logits[row + static_cast<size_t>(id)]);
  }
  return selected;
}

torch::Tensor to_tensor(std::span<const int32_t> tokens) {
  return torch::tensor(std::vector<int64_t>(tokens.begin(), tokens.end())).unsqueeze(0);
}

Divergence furthest(const std::string& name, const torch::Tensor& expected, const std::vector<float>& actual) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto libtorch = expected.flatten().to(torch::kDouble);
  const auto engine = torch::tensor(actual, torch::kDouble);
  const auto gaps = (engine - libtorch).abs().nan_to_num(kInfinity, kInfinity);
  const auto at = gaps.argmax().item<int64_t>(), width = expected.size(-1);
  return {.name = name,
          .relative_error = gaps[at].item<double>() / (libtorch.square().mean().sqrt().item<double>() + 1e-30),
          .position = at / width,
          .index = at % width,
          .libtorch = libtorch[at].item<double>(),
          .engine = engine[at].item<double>()};
}

// Returns LibTorch's values of the intermediates that the engine reports, by name. They include activations within
// attention and feed-forward networks.
std::map<std::string, torch::Tensor> places_of(nn::Llama& model, std::span<const int32_t> tokens) {
  const torch::NoGradGuard no_grad;
  model->eval();
  const auto parameters = model->named_parameters();
  const auto modules = model->named_modules();
  std::map<std::string, torch::Tensor> seen;
  forward_observed(model, to_tensor(tokens), [&](const std::string& name, const torch::Tensor& value) {
    const auto show = [&](const std::string& place, const torch::Tensor& t) {
      seen[place] = t.detach().to(torch::kFloat32).contiguous().clone();
    };
    show(name, value);
    const std::string layer = name.substr(0, name.find_last_of('.') + 1);
    const auto show_heads = [&](auto* attention) {
      const auto heads = attention->project(value);
      const auto joined = [](const torch::Tensor& t_BHTK) { return t_BHTK.transpose(1, 2).flatten(2); };
      show(layer + "query", joined(heads.q));
      show(layer + "key", joined(heads.k));
      show(layer + "value", joined(heads.v));
      show(layer + "heads", joined(attention->attend(heads)));
    };
    if (name.ends_with(".attention_norm")) {
      torch::nn::Module* attention = modules[layer + "attention"].get();
      if (auto* latent = attention->as<nn::LatentAttention>()) {
        show(layer + "latent", latent->project(value).latent);
        show_heads(latent);
      } else {
        show_heads(attention->as<nn::Attention>());
      }
    }
    if (name.ends_with(".ffn_norm")) {
      torch::nn::Module* network = modules[layer + "ffn"].get();
      torch::Tensor share;  // factor of the shared expert's output; undefined without a gate
      if (const auto* mixture = network->as<nn::Mixture>()) {
        const nn::Routes routes = mixture->route(value.flatten(0, 1));
        show(layer + "routes", torch::zeros_like(routes.scores).scatter(1, routes.experts, routes.weights));
        const auto* shared = modules.find(layer + "ffn.shared");
        if (shared == nullptr) return;
        network = shared->get();
        if (const auto* gate = parameters.find(layer + "ffn.shared_gate.weight")) {
          share = torch::sigmoid(value.matmul(*gate)).unsqueeze(-1);
        }
      }
      const auto hidden = network->as<nn::SwiGLU>()->hidden(value);
      show(layer + "ffn_hidden", share.defined() ? hidden * share : hidden);
    }
  });
  return seen;
}

float as_stored(float value, core::DType type) {
  if (type == core::DType::F16) return core::f16_to_float(core::float_to_f16(value));
  if (type == core::DType::BF16) return core::bf16_to_float(core::float_to_bf16(value));
  return value;
}

}  // namespace

std::vector<int32_t> matching_ids(const data::Tokenizer& reference, const data::Tokenizer& other) {
  std::map<std::string, int32_t> id_of;
  for (int32_t id = 0; id < other.vocab_size(); ++id) id_of.emplace(other.token_bytes(id), id);
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < reference.vocab_size(); ++id) {
    const bool ends = id == reference.end_of_text();
    const auto found = id_of.find(reference.token_bytes(id));
    core::require(ends || found != id_of.end(), "the model file lacks the token \"{}\", id {} in the checkpoint",
                  core::printable(reference.token_bytes(id)), id);
    ids.push_back(ends ? other.end_of_text() : found->second);
  }
  return ids;
}

std::optional<WeightDifference> first_difference(const core::Weights& reference, const core::StoredModel& file) {
  const auto manifest = core::tensor_manifest(reference.config);
  const bool groups = file.format == core::ModelFormat::Llama2cV2;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const core::TensorView& tensor = file.tensors.at(i);
    core::require(tensor.shape == manifest[i].shape, "{}: tensor {} has shape {}, expected {} as in the checkpoint",
                  file.path, tensor.name, core::shape_string(tensor.shape), core::shape_string(manifest[i].shape));
    const std::vector<float> values = core::to_floats(tensor);
    const std::vector<float>& expected = reference.tensors[i];
    double step = 0.0;
    if (groups && tensor.shape.size() > 1) {
      for (const float v : expected) step = std::max(step, std::abs(static_cast<double>(v)) / 127.0);
    }
    for (size_t j = 0; j < values.size(); ++j) {
      const float rounded = as_stored(expected[j], tensor.type);
      if (std::abs(static_cast<double>(values[j]) - rounded) <= step) continue;
      if (std::isnan(values[j]) && std::isnan(rounded)) continue;
      const auto width = static_cast<size_t>(tensor.shape.back());
      return WeightDifference{.name = manifest[i].gguf_name,
                              .row = static_cast<int64_t>(j / width),
                              .column = static_cast<int64_t>(j % width),
                              .reference = rounded,
                              .found = values[j]};
    }
  }
  return std::nullopt;
}

std::vector<Divergence> compare_forward(nn::Llama& reference, const EngineSide& side, std::span<const int32_t> tokens) {
  const auto seen = places_of(reference, tokens);
  std::vector<std::string> order;
  std::map<std::string, std::vector<float>> values;
  run(side.engine, {.prompt = ids_of(side, tokens),
                    .on_logits = [](std::span<const float>) {},  // requests logits for every row
                    .observer =
                        [&](const std::string& name, std::span<const float> part, size_t) {
                          if (name.find(".projected_") != std::string::npos) return false;  // not in LibTorch's model
                          core::require(seen.contains(name), "the engine observes {}, which LibTorch's model lacks",
                                        name);
                          if (!values.contains(name)) order.push_back(name);
                          values[name].insert(values[name].end(), part.begin(), part.end());
                          return false;
                        }});
  values["logits"] = in_reference_order(side, values["logits"]);

  std::vector<Divergence> divergences;
  for (const std::string& name : order) divergences.push_back(furthest(name, seen.at(name), values[name]));
  return divergences;
}

std::vector<int32_t> greedy_by_libtorch(nn::Llama& model, std::span<const int32_t> prompt, int64_t n,
                                        std::span<const int32_t> never) {
  const torch::NoGradGuard no_grad;
  model->eval();
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  for (int64_t i = 0; i < n && static_cast<int64_t>(tokens.size()) < model->config().context_length; ++i) {
    torch::Tensor logits = model->forward(to_tensor(tokens)).select(1, -1).squeeze(0);
    for (const int32_t id : never) logits[id] = -std::numeric_limits<float>::infinity();
    tokens.push_back(static_cast<int32_t>(logits.argmax().item<int64_t>()));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}

double split_loss_by_engine(const EngineSide& side, data::TokenView split, int64_t window, int64_t max_windows) {
  const int64_t windows = std::min(max_windows, data::consecutive_windows(split, window));
  const size_t vocab = side.ids.empty() ? static_cast<size_t>(side.engine.config().vocab_size) : side.ids.size();
  double sum = 0.0;
  for (int64_t w = 0; w < windows; ++w) {
    const data::Batch batch = data::consecutive_batch(split, w, 1, window);
    size_t position = 0;
    run(side.engine, {.prompt = ids_of(side, batch.inputs), .on_logits = [&](std::span<const float> some) {
                        const std::vector<float> logits = in_reference_order(side, some);
                        for (size_t at = 0; at < logits.size(); at += vocab) {
                          const auto row = std::span(logits).subspan(at, vocab);
                          sum += infer::negative_log_likelihood(row, batch.targets[position++]);
                        }
                      }});
  }
  return sum / static_cast<double>(windows * window);
}

}  // namespace folio::train

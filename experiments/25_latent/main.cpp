// Study: what does latent attention (MLA) save by caching a latent from which all heads' keys and values are computed?
// The results are explained in README.md.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/manifest.h"
#include "core/random.h"
#include "core/weights.h"
#include "experiments/25_latent/attention.h"
#include "experiments/common/comparison.h"
#include "experiments/common/interval_chart.h"
#include "infer/cpu/cpu.h"
#include "infer/forward/runner.h"
#include "modules/families/latent_attention.h"
#include "modules/families/parts.h"

namespace folio::experiments {
namespace {

// The head size of the trained models, and the latent attention shapes of DeepSeek-V2-Lite and DeepSeek-V3.
constexpr int64_t kHead = 16;
const Latent kV2Lite{16, 512, 128, 64, 128, {}, {}};
const Latent kV3{128, 512, 128, 64, 128, {}, {}};

core::ModelConfig with_heads(core::ModelConfig c, int64_t n_kv_heads) {
  c.n_kv_heads = n_kv_heads;
  return c;
}

core::ModelConfig with_latent(core::ModelConfig c, int64_t rank) {
  c.family = core::Family::Youtu;  // a Llama with latent attention
  c.kv_lora_rank = rank;
  c.qk_nope_head_dim = c.v_head_dim = kHead;
  c.qk_rope_head_dim = kHead / 2;
  c.head_dim = c.qk_nope_head_dim + c.qk_rope_head_dim;
  return c;
}

// Changes the feed-forward network's width so that the model has about as many parameters as `like`.
core::ModelConfig with_parameters_of(const core::ModelConfig& like, core::ModelConfig c) {
  const double spare = static_cast<double>(core::parameter_count(like) - core::parameter_count(c));
  c.hidden_dim += std::lround(spare / static_cast<double>(3 * c.dim * c.n_layers));
  return c;
}

// Returns the elements that a layer caches per position: keys and values of all key/value heads, or the latent.
int64_t cached(const core::ModelConfig& c) { return c.latent() ? c.latent_dim() : 2 * c.kv_dim(); }

// Returns the bytes per position and layer in the engine's cache, from the size of its blocks.
int64_t bytes_in_engine(const core::ModelConfig& config, infer::CacheType type) {
  const auto weights = std::make_shared<core::Weights>(core::Weights{.config = config, .tensors = {}});
  for (const core::TensorSpec& spec : core::tensor_manifest(config)) {
    weights->tensors.emplace_back(static_cast<size_t>(spec.elements()), 0.0F);
  }
  const core::StoredModel model{"zeros", core::ModelFormat::Gguf, config, weights->views(), {weights}, nullptr};
  infer::Cpu cpu({.n_threads = 1});
  const infer::Runner runner(model, cpu, {.type = type});
  return static_cast<int64_t>(runner.block_bytes()) / infer::kBlockPositions / config.n_layers;
}

void show_bytes(Report& report, const core::ModelConfig& plain, std::vector<Variant> shapes) {
  core::ModelConfig llama = plain;  // one narrow layer suffices, since only attention sizes matter
  llama.n_layers = 1;
  llama.n_heads = 64;
  llama.n_kv_heads = 8;
  llama.head_dim = 128;
  shapes.push_back({"Llama 3 70B: GQA, 8 of 64 heads of 128", llama});
  core::ModelConfig deepseek = with_latent(llama, kV3.rank);
  deepseek.n_heads = deepseek.n_kv_heads = kV3.n_heads;
  deepseek.qk_nope_head_dim = deepseek.v_head_dim = kV3.nope;
  deepseek.qk_rope_head_dim = kV3.rope;
  deepseek.head_dim = kV3.nope + kV3.rope;
  shapes.push_back({"DeepSeek-V3: latent of 512 + 64, 128 heads", deepseek});
  Report::Rows rows;
  for (const Variant& s : shapes) {
    const int64_t n = cached(s.model), f16 = bytes_in_engine(s.model, infer::CacheType::F16);
    report.check_equal(s.name + ": bytes in the engine's F16 cache", f16, 2 * n);
    const int64_t f32 = bytes_in_engine(s.model, infer::CacheType::F32);
    report.check_equal(s.name + ": bytes in the engine's F32 cache", f32, 4 * n);
    // Elements that a cache with separate keys and values for every query head would store.
    const int64_t all =
        s.model.n_heads * (s.model.head_dim + (s.model.latent() ? s.model.v_head_dim : s.model.head_dim));
    rows.push_back(
        {s.name, n, 2 * n, f16, f32, bytes_in_engine(s.model, infer::CacheType::Q8_0), 2 * all, ratio(all, n)});
  }
  report.table("Cache of a position and layer",
               {"", "elements", "F16 bytes, counted", "F16 bytes, engine", "F32 bytes, engine", "Q8_0 bytes, engine",
                "F16 bytes with keys and values of all heads", "times as many"},
               rows);
}

Floats floats_of(const torch::Tensor& x) {
  const torch::Tensor contiguous = x.contiguous();
  return {contiguous.data_ptr<float>(), contiguous.data_ptr<float>() + contiguous.numel()};
}

// Compares the output of each attention module of the LibTorch model with that of absorbed() on the same weights and
// inputs. Returns the maximum over layers of the largest difference divided by the largest output.
double distance_from_module(nn::Llama& model) {
  const torch::NoGradGuard no_grad;
  model->eval();
  double distance = 0.0;
  for (const auto& module : model->modules(/*include_self=*/false)) {
    auto* const attention = module->as<nn::LatentAttentionImpl>();
    if (attention == nullptr) continue;
    const core::ModelConfig& c = model->config();
    const torch::Tensor x_1TD = torch::sin(torch::arange(c.context_length * c.dim)).view({1, -1, c.dim});
    const auto parameters = attention->named_parameters();
    const torch::Tensor wk_HRN = parameters["wk_b.weight"], wv_HVR = parameters["wv_b.weight"];
    const Latent a{c.n_heads,          c.kv_lora_rank, c.qk_nope_head_dim,
                   c.qk_rope_head_dim, c.v_head_dim,   floats_of(wk_HRN.transpose(1, 2)),
                   floats_of(wv_HVR)};
    const nn::LatentAttentionImpl::Heads heads = attention->project(x_1TD);
    Work work;
    Floats out = absorbed(a, floats_of(heads.q[0].transpose(0, 1)), floats_of(heads.latent[0]), work);
    const torch::Tensor y_TX = torch::from_blob(out.data(), {c.context_length, a.n_heads * a.value});
    const torch::Tensor expected_TD = attention->forward(x_1TD)[0];
    const torch::Tensor error_TD = y_TX.matmul(parameters["wo.weight"].t()) - expected_TD;
    distance = larger(distance, (error_TD.abs().max() / expected_TD.abs().max()).item<double>());
  }
  return distance;
}

std::vector<Variant> variants_of(const core::ModelConfig& mha) {
  std::vector<Variant> variants{{"MHA", mha}};
  const auto add = [&](const std::string& name, const core::ModelConfig& model) {
    variants.push_back({name, with_parameters_of(mha, model)});
    if (model.latent()) variants.back().blocks = std::make_shared<nn::FamilyParts>();
  };
  add("GQA-2", with_heads(mha, 2));
  add("MQA", with_heads(mha, 1));
  add("MLA, 64 + 8", with_latent(mha, 4 * kHead));
  add("MLA, 24 + 8", with_latent(mha, 24));
  return variants;
}

// Trains all variants at the same learning rate, then each at its own best one. The losses are shown but not checked.
void compare_losses(Report& report, const Shakespeare& text, const train::TrainConfig& setting,
                    std::vector<Variant> variants) {
  const std::vector<uint64_t> seeds = paired_seeds(report, 5);
  const auto measure = [](nn::Llama& model) { return model->config().latent() ? distance_from_module(model) : 0.0; };
  const auto at_one_rate = train_variants(report, text, setting, variants, seeds, measure);
  const auto searches = tune_variants(report, text, setting, variants);
  std::vector<Variant> others;  // variants whose best rate is not the setting's
  for (const Variant& v : variants) {
    if (v.lr != setting.lr) others.push_back(v);
  }
  std::vector<Outcome> tuned = at_one_rate;
  if (!others.empty()) {
    for (const Outcome& o : train_variants(report, text, setting, others, seeds)) {
      *std::ranges::find(tuned, o.name, &Outcome::name) = o;
    }
  }
  const auto against = [](const std::vector<Outcome>& all, size_t i) {
    return i == 0 ? Report::Json() : Report::Json(shown(paired_interval(all[i].losses, all[0].losses)));
  };
  Report::Rows rows, rates;
  std::vector<IntervalChart::Row> chart;
  for (size_t i = 0; i < variants.size(); ++i) {
    const Outcome& o = at_one_rate[i];
    rows.push_back({o.name, cached(variants[i].model), o.parameters, variants[i].model.hidden_dim, mean_of(o.losses),
                    against(at_one_rate, i), fmt::format("{:g}", variants[i].lr), mean_of(tuned[i].losses),
                    against(tuned, i)});
    for (size_t r = 0; r < searches[i].rates.size(); ++r) {
      rates.push_back({fmt::format("{} at {:g}", o.name, searches[i].rates[r]), searches[i].losses[r]});
    }
    report.check_below(o.name + ": parameters, relative difference from MHA",
                       std::abs(ratio(o.parameters, at_one_rate[0].parameters) - 1), 0.002);
    const Interval difference = paired_interval(tuned[i].losses, tuned[0].losses);
    if (variants[i].model.latent()) {
      report.check_below(o.name + ": absorbed in plain loops against the trained module", o.measured, 1e-5);
      report.value(o.name + ": largest difference", *std::ranges::max_element(o.measured));
    }
    if (i == 0) continue;
    chart.push_back({fmt::format("{}: {} cached, one rate", o.name, cached(variants[i].model)),
                     paired_interval(o.losses, at_one_rate[0].losses)});
    chart.push_back({o.name + ", its best rate", difference});
  }
  report.table(
      fmt::format("After {} steps; {}", setting.steps, count_of_intervals(chart.size())),
      {"", "elements cached", "parameters", "feed-forward", "loss", "against MHA", "best rate", "loss", "against MHA"},
      rows);
  report.table("Loss by rate, mean of the two seeds on which it is chosen", {"", "loss"}, rates);
  report.picture("losses.svg", IntervalChart{.title = "Equal parameters, smaller caches",
                                             .subtitle = "names with the elements that a layer caches for a position "
                                                         "(MHA: 128); five pairs each, 95 % intervals",
                                             .x_label = "validation loss minus that of multi-head attention (nats)",
                                             .rows = chart,
                                             .references = {{"MHA", 0.0}}});
}

Floats random_floats(int64_t n, uint64_t seed) {
  Floats x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(2.0 * core::random_uniform(seed, i) - 1.0);
  return x;
}

// Runs plain() and absorbed() on the same random cache and queries. Checks that their results agree up to rounding and
// that their work matches the formulas. Each dimension is a quarter of DeepSeek-V2-Lite's.
void run_both_forms(Report& report) {
  Latent a{4, 128, 32, 16, 32, {}, {}};
  a.wk = random_floats(a.n_heads * a.nope * a.rank, report.seed());
  a.wv = random_floats(a.n_heads * a.value * a.rank, report.seed() + 1);
  const double scale = 1.0 / std::sqrt(static_cast<double>(a.rank));
  for (float& w : a.wk) w = static_cast<float>(w * scale);
  Report::Rows rows;
  std::vector<double> distances;
  int64_t as_by_formula = 0;
  const std::vector<int64_t> lengths =
      report.short_form() ? std::vector<int64_t>{500} : std::vector<int64_t>{500, 2000, 8000};
  for (const int64_t n_cached : lengths) {
    const int64_t here = crossing(a, n_cached);
    for (const int64_t n : {int64_t{1}, here - 1, here}) {
      const Floats cache = random_floats((n_cached + n) * (a.rank + a.rope), report.seed() + 2);
      const Floats q = random_floats(n * a.n_heads * (a.nope + a.rope), report.seed() + 3);
      Work of_plain, of_absorbed;
      const Floats expected = plain(a, q, cache, of_plain), y = absorbed(a, q, cache, of_absorbed);
      double error = 0.0, largest = 0.0;
      for (size_t i = 0; i < y.size(); ++i) {
        error = larger(error, std::abs(static_cast<double>(y[i]) - expected[i]));
        largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
      }
      distances.push_back(error / largest);
      as_by_formula += of_plain == plain_work(a, n_cached, n) && of_absorbed == absorbed_work(a, n_cached, n) ? 1 : 0;
      rows.push_back({fmt::format("{} after {}", n == 1 ? "1 row" : fmt::format("{} rows", n), n_cached),
                      of_absorbed.multiply_adds, of_plain.multiply_adds,
                      ratio(of_plain.multiply_adds, of_absorbed.multiply_adds), of_absorbed.elements, of_plain.elements,
                      error / largest});
    }
  }
  report.check_below("absorbed against plain: largest difference, relative to the largest output", distances, 1e-4);
  report.check_equal("runs whose counted work is that of the formulas", as_by_formula, std::ssize(rows));
  report.table("Both forms, run and counted: 4 heads, rank 128",
               {"", "multiply-adds, absorbed", "plain", "plain / absorbed", "elements moved, absorbed", "plain ",
                "largest difference"},
               rows);
}

void show_published_work(Report& report) {
  Report::Rows decode, crossings;
  std::vector<train::LineChart::Series> lines;
  for (const auto& [name, a] : {std::pair{"V2-Lite", kV2Lite}, std::pair{"V3", kV3}}) {
    for (const int64_t n_cached : {500, 2000, 8000}) {
      const Work of_absorbed = absorbed_work(a, n_cached, 1), of_plain = plain_work(a, n_cached, 1);
      // Multi-head attention that caches keys and values: like plain(), but without computing them from latents.
      const int64_t mha = (n_cached + 1) * a.n_heads * (a.nope + a.rope + a.value);
      decode.push_back({fmt::format("{}, after {}", name, n_cached), mha, mha, of_absorbed.multiply_adds,
                        of_absorbed.elements, ratio(of_absorbed.multiply_adds, of_absorbed.elements),
                        of_plain.multiply_adds, of_plain.elements});
      crossings.push_back({fmt::format("{}, after {}", name, n_cached), crossing(a, n_cached),
                           plain_work(a, n_cached, 512).multiply_adds, absorbed_work(a, n_cached, 512).multiply_adds,
                           plain_work(a, n_cached, 512).elements, absorbed_work(a, n_cached, 512).elements});
    }
  }
  report.table("One row, by the formulas",
               {"DeepSeek", "all heads cached: multiply-adds", "elements", "absorbed: multiply-adds", "elements ",
                "multiply-adds an element", "plain: multiply-adds", "elements  "},
               decode);
  report.table("Rows from which the plain form has fewer multiply-adds, and the work of 512 rows",
               {"DeepSeek", "rows", "plain: multiply-adds", "absorbed", "plain: elements", "absorbed "}, crossings);
  for (const int64_t n_cached : {500, 8000}) {
    auto& plain_line = lines.emplace_back(train::LineChart::Series{fmt::format("plain after {}", n_cached), {}});
    for (int64_t n = 1; n <= 1024; n *= 2) {
      plain_line.points.push_back({static_cast<double>(n), plain_work(kV2Lite, n_cached, n).multiply_adds / 1e9});
    }
    auto& line = lines.emplace_back(train::LineChart::Series{fmt::format("absorbed after {}", n_cached), {}});
    for (int64_t n = 1; n <= 1024; n *= 2) {
      line.points.push_back({static_cast<double>(n), absorbed_work(kV2Lite, n_cached, n).multiply_adds / 1e9});
    }
  }
  report.picture("work.svg", train::LineChart{.title = "Latent attention of n rows, in both forms",
                                              .x_label = "rows computed together, n",
                                              .y_label = "multiply-adds of a DeepSeek-V2-Lite layer, in billions",
                                              .series = lines,
                                              .log_x = true,
                                              .log_y = true});
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare();
  train::TrainConfig setting = decaying_setting(text, report.short_form() ? 5 : 300);
  const std::vector<Variant> variants = variants_of(setting.model);
  show_bytes(report, setting.model, variants);
  run_both_forms(report);
  show_published_work(report);
  compare_losses(report, text, setting, variants);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) { return folio::experiments::run(argc, argv, "25_latent", folio::experiments::study); }

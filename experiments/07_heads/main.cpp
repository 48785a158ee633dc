// Study: how much memory do fewer key/value heads save in the KV cache, and how much do they raise the loss? The
// results are explained in README.md.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/common/comparison.h"
#include "experiments/common/interval_chart.h"
#include "infer/cpu/cache_blocks.h"

namespace folio::experiments {
namespace {

constexpr int64_t kPositions = 256;

// Returns the size in bytes of one position's keys and values in all layers, in float32.
int64_t bytes_by_formula(const core::ModelConfig& c) { return 2 * c.n_layers * c.kv_dim() * 4; }

// Returns the bytes that the engine allocates for the KV cache of kPositions positions: the distance from the first
// block to the end of the last. Blocks are adjacent in memory if they are first used in order.
int64_t bytes_allocated(const core::ModelConfig& c) {
  infer::CacheBlocks<float> blocks(static_cast<size_t>(c.n_kv_heads), c.head_dim, c.n_layers,
                                   infer::kernels::reference_kernels());
  const float* const first = blocks.use(0);
  const float* next = first;
  for (infer::BlockId block = 1; block <= infer::blocks_for(kPositions); ++block) next = blocks.use(block);
  return (next - first) * static_cast<int64_t>(sizeof(float));
}

std::string name_of(const core::ModelConfig& c) {
  return c.n_kv_heads == c.n_heads ? "MHA" : c.n_kv_heads == 1 ? "MQA" : fmt::format("GQA-{}", c.n_kv_heads);
}

void show_published_models(Report& report) {
  struct Published {
    const char* name;
    int64_t n_layers, dim, n_heads, n_kv_heads, context_length;
  };
  Report::Rows rows;
  for (const Published& p : {Published{"Llama 2 7B", 32, 4096, 32, 32, 4096},
                             {"Llama 2 70B", 80, 8192, 64, 8, 4096},
                             {"Llama 3 8B", 32, 4096, 32, 8, 8192},
                             {"TinyLlama 1.1B", 22, 2048, 32, 4, 2048}}) {
    core::ModelConfig c{.dim = p.dim, .n_layers = p.n_layers, .n_heads = p.n_heads, .n_kv_heads = p.n_kv_heads};
    const int64_t bytes = bytes_by_formula(c);
    c.n_kv_heads = c.n_heads;
    rows.push_back({p.name, fmt::format("{} of {}", p.n_kv_heads, p.n_heads), bytes, bytes_by_formula(c),
                    static_cast<double>(bytes * p.context_length) / (1 << 30)});
  }
  report.table("The same formula for published models (float32)",
               {"model", "key/value heads", "bytes a token", "with all heads", "GiB for its context"}, rows);
}

void check_losses(Report& report, const Outcome& mha, const Outcome& mqa, const Outcome& wide) {
  report.check_equal("MQA with a wider feed-forward has as many parameters as MHA", wide.parameters, mha.parameters);
  if (report.short_form()) return;
  report.check_below("a quarter of the cache costs", paired_interval(mqa.losses, mha.losses), 0.25);
  report.check_below("at equal parameters it costs", paired_interval(wide.losses, mha.losses), 0.1);
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare();
  train::TrainConfig setting = decaying_setting(text, report.short_form() ? 10 : 300);

  std::vector<Variant> variants;
  for (const auto& [n_heads, n_kv_heads] : {std::pair{4, 4}, {4, 2}, {4, 1}, {8, 8}, {8, 1}}) {
    core::ModelConfig model = setting.model;
    model.n_heads = n_heads;
    model.head_dim = model.dim / n_heads;
    model.n_kv_heads = n_kv_heads;
    variants.push_back({fmt::format("{} of {} heads", name_of(model), n_heads), model});
  }
  // Multi-query attention saves 2 dim (dim - kv_dim) parameters per layer. Use them to widen the feed-forward.
  core::ModelConfig wide = variants[2].model;
  wide.hidden_dim += 2 * (wide.dim - wide.kv_dim()) / 3;
  variants.push_back({"MQA of 4 heads, wide", wide});
  const auto outcomes = train_variants(report, text, setting, variants, paired_seeds(report));

  Report::Rows rows;
  std::vector<IntervalChart::Row> chart;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const core::ModelConfig& model = variants[i].model;
    const size_t mha = model.n_heads == 4 ? 0 : 3;
    const int64_t bytes = bytes_allocated(model);
    const auto difference = paired_interval(outcomes[i].losses, outcomes[mha].losses);
    rows.push_back({outcomes[i].name, outcomes[i].parameters, bytes_by_formula(model), bytes,
                    mean_of(outcomes[i].losses), i == mha ? Report::Json() : Report::Json(shown(difference))});
    if (i != mha)
      chart.push_back({fmt::format("{} ({} bytes)", outcomes[i].name, bytes_by_formula(model)), difference});
    report.check_equal(
        fmt::format("{}: bytes that the engine allocates for {} positions", outcomes[i].name, kPositions), bytes,
        kPositions * bytes_by_formula(model));
  }
  report.table(fmt::format("After {} steps; {}", setting.steps, count_of_intervals(chart.size() + 1)),
               {"model", "parameters", "bytes a token", "bytes allocated", "loss", "against MHA of as many heads"},
               rows);
  const auto [lowest, highest] = std::ranges::minmax_element(outcomes[0].losses);
  report.value(outcomes[0].name + ", lowest loss of a seed", *lowest);
  report.value(outcomes[0].name + ", highest loss of a seed", *highest);
  report.table("The same parameters in another place", {"", "difference"},
               {{outcomes[5].name + " against " + outcomes[2].name,
                 shown(paired_interval(outcomes[5].losses, outcomes[2].losses))}});
  show_published_models(report);
  check_losses(report, outcomes[0], outcomes[2], outcomes.back());
  report.picture("heads.svg", IntervalChart{.title = "Fewer key/value heads: what they cost",
                                            .subtitle = "names with the bytes of cache that one token takes",
                                            .x_label = "validation loss minus that of multi-head attention (nats)",
                                            .rows = chart,
                                            .references = {{"no difference", 0.0}}});
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) { return folio::experiments::run(argc, argv, "07_heads", folio::experiments::study); }

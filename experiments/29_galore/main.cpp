// Study: how much optimizer memory does GaLore save, and how much does it raise the loss and the time per step?
// Measured in training from scratch and in fine-tuning. The results are explained in README.md.
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>

#include "core/error.h"
#include "core/file_io.h"
#include "experiments/29_galore/methods.h"

namespace folio::experiments {
namespace {

using train::OptimizerKind;

// Encodes common/prose.txt, a text about models, with the character tokenizer of the Shakespeare corpus.
Shakespeare prose_as(const Shakespeare& text) {
  Shakespeare other(text.tokenizer);
  other.vocab_size = text.vocab_size;
  other.tokens = other.tokenizer.encode(core::read_text_file(FOLIO_PROSE, size_t{1} << 20U));
  other.splits = data::split_tokens(other.tokens, 0.25, 0.0);
  return other;
}

// Returns the bytes of optimizer state. AdamW stores two values per parameter. For a matrix of a block, Muon stores one
// value per element, and GaLore a projection of rank r (r times the smaller side) and two moments (r times the larger
// side each).
int64_t formula_bytes(const Task& task, const Method& method) {
  int64_t numbers = 0;
  for (const auto& parameter : model_for(task, method, 1)->named_parameters()) {
    const torch::Tensor& p = parameter.value();
    if (!p.requires_grad()) continue;
    const bool matrix = p.dim() == 2 && parameter.key().starts_with("layers.");
    if (!matrix || method.optimizer == OptimizerKind::AdamW) {
      numbers += 2 * p.numel();
    } else if (method.optimizer == OptimizerKind::Muon) {
      numbers += p.numel();
    } else {
      const auto [smaller, larger] = std::minmax({p.size(0), p.size(1)});
      numbers += std::min(method.rank, smaller) * (smaller + 2 * larger);
    }
  }
  return numbers * static_cast<int64_t>(sizeof(float));
}

void check_bytes(Report& report, const Task& task, const std::vector<Method>& methods) {
  for (const Method& method : methods) {
    report.check_equal(method.name + ": bytes of state", method.state_bytes, formula_bytes(task, method));
  }
}

const Method& named(const std::vector<Method>& methods, const std::string& name) {
  return *std::ranges::find(methods, name, &Method::name);
}

void from_nothing(Report& report, const Task& task) {
  std::vector<Method> methods{{.name = "AdamW"},
                              {.name = "AdamW, a quarter", .quarter = true, .lr = 1e-2},
                              {.name = "Muon", .optimizer = OptimizerKind::Muon, .lr = 1e-2},
                              {.name = "GaLore, 8", .optimizer = OptimizerKind::GaLore, .rank = 8, .lr = 1e-2},
                              {.name = "GaLore, 16", .optimizer = OptimizerKind::GaLore, .rank = 16, .lr = 1e-2},
                              {.name = "GaLore, 32", .optimizer = OptimizerKind::GaLore, .rank = 32, .lr = 1e-2},
                              {.name = "GaLore, 64", .optimizer = OptimizerKind::GaLore, .rank = 64, .lr = 1e-2}};
  report.say("from scratch");
  compare(report, task, methods);
  show(report, "From scratch", methods, task.setting.steps);
  check_bytes(report, task, methods);
  if (report.short_form()) return;
  report.picture("from_nothing.svg", chart_of(methods, "From scratch", "AdamW's"));

  // GaLore's scale lowers the learning rate of the blocks' matrices relative to the embedding's. AdamW with the same
  // ratio shows how much of GaLore's effect this explains.
  const Method& scaled = named(methods, "AdamW, a quarter");
  Report::Rows against;
  for (const Method& method : methods) {
    if (method.optimizer != OptimizerKind::GaLore) continue;
    against.push_back({method.name, shown(paired_interval(method.judged, scaled.judged)),
                       shown(paired_interval(method.judged_in_time, scaled.judged_in_time))});
    report.value(method.name + " against AdamW, a quarter", mean_of(method.judged) - mean_of(scaled.judged));
  }
  report.table("GaLore against AdamW, a quarter; " + count_of_intervals(2 * against.size()),
               {"", "equal steps", "equal time"}, against);
  const auto lead = [&](const std::string& better, const std::string& worse, double margin) {
    report.check_above(fmt::format("{} beats {} by", better, worse),
                       paired_interval(named(methods, worse).judged, named(methods, better).judged), margin);
  };
  lead("AdamW, a quarter", "AdamW", 0.03);
  lead("AdamW, a quarter", "GaLore, 16", 0.0);
  lead("Muon", "GaLore, 64", 0.02);

  // Compares intervals between updates of GaLore's subspace, for rank 16 at its best learning rate: 10 and 50 steps,
  // and a single subspace for all steps.
  const Method& galore = named(methods, "GaLore, 16");
  Report::Rows rows;
  const std::vector<uint64_t> seeds = paired_seeds(report);
  for (const int64_t every : {int64_t{10}, int64_t{50}, task.setting.steps}) {
    std::vector<double> losses = galore.judged;
    if (every != galore.every) {
      Method method = galore;
      method.every = every;
      run_jobs(seeds.size(), [&](size_t s) {
        losses[s] = start(task, method, galore.lr, seeds[s], task.setting.steps).loss(task.text);
      });
    }
    rows.push_back(
        {every, (task.setting.steps + every - 1) / every, mean_of(losses),
         every == galore.every ? Report::Json() : Report::Json(shown(paired_interval(losses, galore.judged)))});
    report.value(fmt::format("subspaces every {} steps, against 50", every), mean_of(losses) - mean_of(galore.judged));
  }
  report.table("GaLore, 16, by the steps between subspaces; " + count_of_intervals(2),
               {"steps between", "subspaces", "loss", "against 50"}, rows);
}

void fine_tuning(Report& report, const Task& first) {
  // Trains the base model of all fine-tuning runs: on Shakespeare, with AdamW.
  const int64_t steps = report.short_form() ? 20 : 3000;
  Running base = start(first, {.name = "AdamW"}, 3e-3, report.seed() + 1000, steps);
  const double shakespeare = base.loss(first.text);
  const Shakespeare other = prose_as(first.text);
  const Task task{.text = other, .setting = first.setting, .start = &base.model};
  const double before = validation_loss(base.model, other, task.setting.window);
  report.say(fmt::format("fine-tuning: {} characters of prose; the model has {:.3f} on it, and {:.3f} on Shakespeare",
                         other.tokens.size(), before, shakespeare));
  std::vector<Method> methods{{.name = "AdamW"},
                              {.name = "AdamW, a quarter", .quarter = true, .lr = 1e-2},
                              {.name = "Muon", .optimizer = OptimizerKind::Muon},
                              {.name = "GaLore, 16", .optimizer = OptimizerKind::GaLore, .rank = 16},
                              {.name = "LoRA, 8", .lora_rank = 8, .lr = 1e-2}};
  compare(report, task, methods);
  show(report, "Fine-tuning", methods, task.setting.steps);
  check_bytes(report, task, methods);

  // Measures how much fine-tuning on prose raises the loss on Shakespeare.
  Report::Rows rows{{"before", before, shakespeare}};
  for (const Method& method : methods) {
    Running tuned = start(task, method, method.lr, report.seed(), task.setting.steps);
    const double loss = tuned.loss(task.text);
    rows.push_back({method.name, loss, validation_loss(tuned.model, first.text, task.setting.window)});
    report.check_below(method.name + ": loss on the prose, of that before", loss / before, 1.0);
  }
  report.table("After fine-tuning, one seed", {"", "on the prose", "on Shakespeare"}, rows);
  if (report.short_form()) return;
  report.picture("fine_tuning.svg", chart_of(methods, "Fine-tuning", "AdamW's"));
  for (const char* name : {"GaLore, 16", "LoRA, 8"}) {
    report.check_above(fmt::format("{} costs, against AdamW,", name),
                       paired_interval(named(methods, name).judged, methods[0].judged), 0.03);
  }
}

void study(Report& report) {
  const Shakespeare text = load_shakespeare();
  Task task{.text = text, .setting = small_setting(text)};
  if (report.short_form()) task.setting.steps = 10;
  from_nothing(report, task);
  fine_tuning(report, task);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) { return folio::experiments::run(argc, argv, "29_galore", folio::experiments::study); }

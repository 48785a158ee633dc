// explain: explains a model's next-token predictions for a prompt, as an HTML page, JSON or a file of activations.
#include "infer/explain/explain.h"

#include <fmt/format.h>

#include <filesystem>

#include "apps/text_program.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/print_stderr.h"
#include "infer/machines/machines.h"

namespace {

using namespace folio;
namespace explain = infer::explain;

struct Options {
  apps::ModelFlags model;
  std::string prompt;
  std::string page = "explain.html";
  std::string activations;
  bool json = false;
  std::string token;
  explain::Experiment experiment;
  std::string mean_over, from;
};

void add_flags(apps::Flags& app, Options& o) {
  app.default_group("General");
  app.group("Prompt and output");
  app.add_option("-p,--prompt,prompt", o.prompt, "prompt of at most 256 tokens")->required();
  app.add_option("-o,--out FILE", o.page, "page to write");
  app.add_flag("--json", o.json, "print one JSON object to stdout instead of writing a page");
  app.add_option("--save FILE", o.activations,
                 "also write all activations to a safetensors file, named as TransformerLens names its hooks");
  app.add_option("--token TEXT", o.token, "token whose logit is attributed (default: each row's most likely token)");
  apps::add_model_flags(app, o.model);
  app.group("Model");
  apps::add_tokenizer_flag(app, o.model.load.tokenizer);
  apps::add_lora_flag(app, o.model.load);
  app.group("Experiments");
  app.add_option("--ablate PLACE", o.experiment.ablate,
                 "replace an activation by zero: L (layer), L.H (head), L.heads, L.attention, L.ffn or L.residual "
                 "(repeatable)");
  app.add_option("--mean PLACE", o.experiment.mean,
                 "replace an activation by its mean over the positions of a text (repeatable)");
  app.add_option("--mean-over TEXT", o.mean_over, "text of --mean (default: the prompt)")->needs("--mean");
  apps::Flag* patch = app.add_option(
      "--patch PLACE[@TO:FROM]", o.experiment.patch,
      "replace an activation by that of the prompt --from, aligned at the last token, or only at position "
      "TO by that at position FROM (repeatable)");
  app.add_option("--from TEXT", o.from, "prompt that --patch reads activations from")->needs("--patch");
  patch->needs("--from");
}

// Returns the ID of the single token that spells `text`. Throws core::UsageError if `text` has several tokens.
int32_t token_of(const data::Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> tokens = tokenizer.encode(text);
  if (tokens.size() != 1) {
    throw core::UsageError(fmt::format("--token: \"{}\" has {} tokens, expected 1", text, tokens.size()));
  }
  return tokens.front();
}

int run(const apps::Flags& app, Options& o) {
  if (o.json && app.count("--out") > 0) throw core::UsageError("--json has no page; leave out --out");
  if (!o.json && !o.activations.empty() && core::without_links(o.activations) == core::without_links(o.page)) {
    throw core::UsageError(fmt::format("--save and --out both write {}; use two files", core::printable(o.page)));
  }
  infer::MachineOptions& machines = o.model.load.machines;
  std::optional<infer::Cpu> cpu;
  std::optional<infer::ProfiledMachine> profiled;
  if (!machines.gpu && machines.n_shards.value_or(1) == 1) {  // operations are measured only on a single CPU
    cpu.emplace(infer::cpu_options(machines));
    profiled.emplace(*cpu);
    machines.given = {.machine = &*profiled, .cpu = &*cpu};
  }
  infer::LoadedModel model = apps::open_model(o.model);
  const data::Tokenizer& tokenizer = model.tokenizer();
  if (!o.mean_over.empty()) o.experiment.mean_over = tokenizer.encode_prompt(o.mean_over);
  if (!o.from.empty()) o.experiment.from = tokenizer.encode_prompt(o.from);
  explain::Options options{.experiment = o.experiment,
                           .keep_activations = !o.activations.empty(),
                           .profiled = profiled ? &*profiled : nullptr};
  if (!o.token.empty()) options.token = token_of(tokenizer, o.token);
  const std::vector<int32_t> tokens = tokenizer.encode_prompt(o.prompt);
  options.adapter = model.adapter();
  const explain::Explanation explanation = explain::explain(model.engine().runner(), tokenizer, tokens, options);
  if (!o.activations.empty()) explain::save(explanation, o.activations);
  if (o.json) {
    apps::print_text(explain::to_text(explanation.json) + "\n");
  } else {
    core::write_file_atomically(o.page, explain::to_html(explanation.json));
    core::print_stderr("{}: open it in a browser\n", std::filesystem::absolute(o.page).string());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app("Explain how a model computes its next tokens.", "explain");
  Options options;
  add_flags(app, options);
  return apps::run_program(app, argc, argv, [&] { return run(app, options); });
}

// Trains the growing model's last rung twice from the same first values and on the same batches, once with Folio's
// modules and once with the reader's, and prints a row for each. That takes some minutes; --steps N shortens it.
#include <fmt/format.h>
#include <torch/utils.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "core/error.h"
#include "experiments/common/shakespeare.h"
#include "experiments/exercises/modules/modules.h"
#include "experiments/growing/11_adamw.h"

namespace {

using namespace folio;  // NOLINT: a program of one file

void print_row(const std::string& name, const core::ModelConfig& config, const nn::BlockFactory& blocks,
               const experiments::Shakespeare& text, const growing::Setting& setting) {
  torch::manual_seed(static_cast<int64_t>(setting.seed));
  nn::Llama model(config, 0.0, blocks);
  const auto training =
      growing::train_with_adamw([&](const torch::Tensor& tokens) { return model->forward(tokens); },
                                model->parameters(), text.splits.train, text.splits.validation.first(16'385), setting);
  int64_t parameters = 0;
  for (const auto& p : model->parameters()) parameters += p.numel();
  fmt::print("  {:<18}{:>10}{:>12.4f}{:>17.4f}\n", name, parameters, training.losses.front(),
             training.validation.back());
  std::fflush(stdout);
}

void run(int argc, char** argv) {
  growing::Setting setting;
  if (argc > 1) {
    const char* value = argc == 3 && std::strcmp(argv[1], "--steps") == 0 ? argv[2] : "";
    const char* end = value + std::strlen(value);
    const auto [last, error] = std::from_chars(value, end, setting.steps);
    if (error != std::errc{} || last != end || setting.steps < 1) {
      throw core::UsageError("usage: row [--steps N], with N of at least 1");
    }
  }
  setting.evaluate_every = setting.steps;
  const experiments::Shakespeare text = experiments::load_shakespeare();
  const core::ModelConfig config{.vocab_size = text.vocab_size,
                                 .dim = 64,
                                 .n_layers = 4,
                                 .n_heads = 4,
                                 .n_kv_heads = 4,
                                 .hidden_dim = 176,
                                 .context_length = setting.T,
                                 .tie_embeddings = false};
  fmt::print("After {} steps as in rung 11 of experiments/growing, seed {}:\n", setting.steps, setting.seed);
  fmt::print("  {:<18}{:>10}{:>12}{:>17}\n", "Llama of", "parameters", "first loss", "validation loss");
  print_row("Folio's modules", config, nn::llama_blocks(config), text, setting);
  print_row("your modules", config, exercises::my_blocks(config), text, setting);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const core::UsageError& error) {
    fmt::print(stderr, "row: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "row: {}\n", error.what());
    return 1;
  }
  return 0;
}

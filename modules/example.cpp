// Trains a Llama. The token file has int32 [steps, 4, 65]; a row's first 64 tokens are inputs, its last 64 the targets.
#include <fmt/format.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include "modules/llama.h"

using namespace folio;

int main(int argc, char** argv) {
  if (argc != 4) return 2;  // usage: example TOKENS STEPS VOCABULARY
  const core::ModelConfig config{.vocab_size = std::stoll(argv[3]),
                                 .dim = 64,
                                 .n_layers = 3,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .hidden_dim = 96,
                                 .context_length = 64};
  torch::manual_seed(1337);
  nn::Llama model(config, std::make_shared<nn::Parts>(nn::PartOptions{.written_out = true}));
  auto options = torch::optim::AdamWOptions(/*lr=*/2e-3).betas({0.9, 0.99}).weight_decay(0.0);
  torch::optim::AdamW optimizer(model->parameters(), options);

  const int64_t steps = std::stoll(argv[2]);
  const auto batches = torch::from_file(argv[1], /*shared=*/false, steps * 4 * 65, torch::kInt32).view({steps, 4, 65});
  for (int64_t step = 0; step < steps; ++step) {
    const auto rows = batches[step].to(torch::kInt64);
    optimizer.zero_grad();
    const auto loss = model->loss(rows.narrow(1, 0, 64), rows.narrow(1, 1, 64));
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    fmt::print("step {}: loss {:.9g}\n", step + 1, loss.item<double>());
  }
}

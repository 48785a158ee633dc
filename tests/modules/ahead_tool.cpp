// Writes the hidden states of a model's multi-token prediction module, after its norm, as float32 [tokens - 1, dim].
// Usage: ahead_tool HF_DIRECTORY OUT TOKEN... The last TOKEN is only used as the next token of its predecessor.
#include <torch/utils.h>

#include <fstream>
#include <string>
#include <vector>

#include "core/formats/hf_model.h"
#include "modules/families/parts.h"
#include "train/run/weights.h"

using namespace folio;

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const torch::NoGradGuard no_grad;
  const core::StoredModel stored = core::read_hf_model(argv[1]);
  nn::Llama model = nn::family_llama(stored.config);
  train::load_weights(stored, model);
  std::vector<int64_t> tokens;
  for (int i = 3; i < argc; ++i) tokens.push_back(std::stoll(argv[i]));
  const torch::Tensor all = torch::tensor(tokens, torch::kLong).unsqueeze(0);
  const int64_t T = all.size(1) - 1;
  auto* ahead = model->as<nn::LlamaAhead>();
  torch::Tensor x = model->embed(all.narrow(1, 0, T));
  for (nn::Block& block : model->blocks()) x = block->forward(x);
  const torch::Tensor y = ahead->output_norm()->forward(ahead->ahead(model->norm()->forward(x), all.narrow(1, 1, T)));
  const auto written = y.contiguous();
  std::ofstream(argv[2], std::ios::binary)
      .write(static_cast<const char*>(written.data_ptr()), static_cast<std::streamsize>(written.nbytes()));
}

// Samples a completion from SmolLM2-135M-Instruct. WEIGHTS is a folder with one raw float32 file per parameter, named
// like the parameter. Writes the logits of all tokens except the last to WEIGHTS/logits.
#include <fmt/format.h>
#include <torch/utils.h>

#include <fstream>

#include "modules/llama.h"

using namespace folio;

int main(int argc, char** argv) {
  if (argc < 3) return 2;  // usage: pretrained WEIGHTS TOKEN...
  const std::string folder = argv[1];
  const core::ModelConfig config{.vocab_size = 49152,
                                 .dim = 576,
                                 .n_layers = 30,
                                 .n_heads = 9,
                                 .n_kv_heads = 3,
                                 .hidden_dim = 1536,
                                 .context_length = 64,
                                 .rope_theta = 100000.0F};
  nn::Llama model(config);
  const torch::NoGradGuard no_grad;
  for (const auto& p : model->named_parameters())
    p->copy_(torch::from_file(folder + "/" + p.key(), /*shared=*/false, p->numel()).view_as(*p));

  std::vector<int64_t> tokens;
  for (int i = 2; i < argc; ++i) tokens.push_back(std::stoll(argv[i]));
  torch::manual_seed(1337);
  torch::Tensor logits_TV;
  while (tokens.size() < 64 && tokens.back() != 2) {  // 2 is <|im_end|>
    logits_TV = model->forward(torch::tensor(tokens).unsqueeze(0))[0];
    tokens.push_back(torch::multinomial(logits_TV[-1].div(0.7).softmax(-1), 1).item<int64_t>());
    fmt::print("{}\n", tokens.back());
  }
  const auto written = logits_TV.contiguous();
  std::ofstream(folder + "/logits").write(static_cast<const char*>(written.data_ptr()), written.nbytes());
}

// Tests of a whole Llama made of the reader's modules: it has the same parameters as Folio's Llama and computes the
// same logits.
#include <torch/utils.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "experiments/exercises/modules/modules.h"
#include "tests/modules/support.h"

namespace folio::exercises {
namespace {

// Every value differs from its default, so that tests detect a value that block_parts() doesn't pass to a module.
const core::ModelConfig kSmall{.vocab_size = 11,
                               .dim = 12,
                               .n_layers = 2,
                               .n_heads = 3,
                               .n_kv_heads = 1,
                               .hidden_dim = 10,
                               .context_length = 9,
                               .rope_theta = 100.0,
                               .norm_eps = 1e-2};

nn::Llama yours() { return test::in_double(nn::Llama(kSmall, std::make_shared<MyParts>()), 0.5); }

std::vector<std::string> names_and_shapes(const nn::Llama& model) {
  std::vector<std::string> all;
  for (const auto& p : model->named_parameters()) all.push_back(fmt::format("{} {}", p.key(), p.value().sizes()));
  return all;
}

TEST(LlamaOfYours, HasTheParametersOfALlama) {
  const nn::Llama mine = yours();
  EXPECT_EQ(names_and_shapes(mine), names_and_shapes(nn::Llama(kSmall)))
      << "The names are those of nn::BlockParts, and the sizes the configuration's.";
  std::set<void*> places;
  for (const Tensor& p : mine->parameters()) places.insert(p.data_ptr());
  EXPECT_EQ(places.size(), mine->parameters().size())
      << "Each layer has its own two norms, attention and feed-forward. Is a module in two places?";
}

TEST(LlamaOfYours, LogitsEqualOurs) {
  auto mine = yours();
  nn::Llama ours(kSmall);
  ours->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  for (const auto& p : mine->named_parameters()) ours->named_parameters()[p.key()].copy_(p.value());
  const auto tokens = torch::randint(kSmall.vocab_size, {3, 9}, torch::kLong);
  const auto expected = ours->forward(tokens);
  // Tolerance: about ten sums of at most 12 terms per layer. Norms preserve relative errors; residuals add them.
  const double roundings = 2.0 * 10 * 12;
  test::expect_close(
      mine->forward(tokens), expected, 16 * roundings * test::kEps * (1 + test::largest(expected)),
      "The same weights give other logits, though each module keeps its properties. Was norm_eps, rope_theta or "
      "another number of the configuration not passed on, or a part put in another's place?");
}

}  // namespace
}  // namespace folio::exercises

// products_tool THREADS HISTORY: computes the matrix products and the attention of a training step of the default
// preset, forward and backward, in F32 and BF16. Prints a line "name digest" for each result, the same in any process.
// THREADS is passed to fix_threads(). HISTORY is "fresh", or "worked" to first use other numbers of threads.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <string>

#include "data/document_tokens.h"
#include "train/config/train_config.h"
#include "train/step/repeatable.h"

namespace {

using namespace folio;

std::map<std::string, std::string> digests;

// Stores the digest of a name's first result, and requires later results of the same name to have the same digest.
void note(const std::string& name, const torch::Tensor& result) {
  const torch::Tensor values = result.detach().contiguous();
  data::Digest bytes;
  bytes.add({static_cast<const char*>(values.data_ptr()), values.nbytes()});
  const std::string digest = bytes.hex();
  const auto [known, added] = digests.emplace(name, digest);
  if (added || known->second == digest) return;
  fmt::print(stderr, "{} is {}, and was {} before in the same process\n", name, digest, known->second);
  std::exit(1);
}

torch::Tensor random(at::IntArrayRef shape, torch::Dtype type) {
  return torch::randn(shape).to(type).requires_grad_(true);
}

void linear(int64_t rows, int64_t in, int64_t out, torch::Dtype type) {
  const auto x = random({rows, in}, type);
  const auto w = random({out, in}, type);
  const auto y = torch::linear(x, w);
  y.backward(torch::randn_like(y));
  const std::string name = fmt::format("{} {} to {}", c10::toString(type), in, out);
  note(name + ": y", y);
  note(name + ": dx", x.grad());
  note(name + ": dw", w.grad());
}

void attention(const train::TrainConfig& c, torch::Dtype type) {
  const auto heads = [&] { return random({c.batch_size, c.model.n_heads, c.window, c.model.head_dim}, type); };
  const auto q = heads(), k = heads(), v = heads();
  const auto y = at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
  y.backward(torch::randn_like(y));
  const std::string name = fmt::format("{} attention", c10::toString(type));
  note(name + ": y", y);
  note(name + ": dq", q.grad());
  note(name + ": dk", k.grad());
  note(name + ": dv", v.grad());
}

void all_products() {
  torch::manual_seed(1);
  const train::TrainConfig c;
  const int64_t rows = c.batch_size * c.window, dim = c.model.dim, hidden = c.model.hidden_dim;
  for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
    linear(rows, dim, dim, type);
    linear(rows, dim, hidden, type);
    linear(rows, hidden, dim, type);
    linear(rows, dim, 66, type);  // vocabulary size of TinyShakespeare
    attention(c, type);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  train::fix_threads(std::atoi(argv[1]));
  if (std::string(argv[2]) == "worked") {
    const int fixed = at::get_num_threads();
    for (const int threads : {1, 3, fixed}) {
      at::set_num_threads(threads);
      static_cast<void>(torch::randn({300, 500}).matmul(torch::randn({500, 200})));
    }
  }
  constexpr int kRepeats = 10;
  for (int i = 0; i < kRepeats; ++i) all_products();
  for (const auto& [name, digest] : digests) fmt::print("{} {}\n", name, digest);
  return 0;
}

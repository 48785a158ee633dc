#include "train/verify/observe.h"

#include <torch/nn/modules/container/functional.h>

#include <memory>

namespace folio::train {

using torch::Tensor;
using torch::nn::AnyModule;

Tensor forward_observed(nn::Llama& model, const Tensor& tokens, const Observer& observer) {
  Tensor x = model->embed(tokens);
  observer("embedding", x);
  for (size_t layer = 0; layer < model->blocks().size(); ++layer) {
    const auto see = [&](const char* name, const Tensor& value) {
      observer(fmt::format("layers.{}.{}", layer, name), value);
    };
    // Wraps a module: reports its output, and also its input unless `input` is null. An empty module returns its input.
    const auto watched = [&see](AnyModule part, const char* output, const char* input = nullptr) {
      return AnyModule(torch::nn::Functional([&see, part, output, input](const Tensor& in) mutable {
        if (input != nullptr) see(input, in);
        const Tensor out = part.is_empty() ? in : part.forward(in);
        see(output, out);
        return out;
      }));
    };
    nn::Block& block = model->blocks()[layer];
    const nn::BlockParts own = block->parts();
    const std::shared_ptr<void> restored(nullptr, [&](void*) { block->parts() = own; });
    block->parts() = {.attention_norm = watched(own.attention_norm, "attention_norm"),
                      .attention = watched(own.attention, "attention"),
                      .ffn_norm = watched(own.ffn_norm, "ffn_norm", "attention_residual"),
                      .ffn = watched(own.ffn, "ffn")};
    x = block->forward(x);
    see("ffn_residual", x);
  }
  observer("norm", model->norm()->forward(x));
  const Tensor logits = model->logits(x);
  observer("logits", logits);
  return logits;
}

}  // namespace folio::train

#include "train/verify/observe.h"

#include <torch/nn/pimpl.h>

#include <utility>

namespace folio::train {
namespace {

using torch::Tensor;
using torch::nn::AnyModule;
using See = std::function<void(const char* name, const Tensor& value)>;

// A part that shows what goes into it and what comes out; with an empty part that is the same.
class WatchedImpl : public torch::nn::Module {
 public:
  WatchedImpl(AnyModule part, See see, const char* input, const char* output)
      : part_(std::move(part)), see_(std::move(see)), input_(input), output_(output) {}

  Tensor forward(const Tensor& x) {
    if (input_ != nullptr) see_(input_, x);
    const Tensor y = part_.is_empty() ? x : part_.forward(x);
    see_(output_, y);
    return y;
  }

 private:
  AnyModule part_;
  See see_;
  const char *input_, *output_;
};
TORCH_MODULE(Watched);

// Has a block call watched parts for as long as it lives.
class WatchedBlock {
 public:
  WatchedBlock(nn::Block& block, const See& see) : block_(block), own_(block->parts()) {
    const auto watched = [&](const AnyModule& part, const char* output, const char* input = nullptr) {
      return AnyModule(Watched(part, see, input, output));
    };
    block->parts() = {.attention_norm = watched(own_.attention_norm, "attention_norm"),
                      .attention = watched(own_.attention, "attention"),
                      .ffn_norm = watched(own_.ffn_norm, "ffn_norm", "attention_residual"),
                      .ffn = watched(own_.ffn, "ffn")};
  }
  ~WatchedBlock() { block_->parts() = own_; }
  WatchedBlock(const WatchedBlock&) = delete;
  WatchedBlock& operator=(const WatchedBlock&) = delete;

 private:
  nn::Block& block_;
  nn::BlockParts own_;
};

}  // namespace

Tensor forward_observed(nn::Llama& model, const Tensor& tokens, const Observer& observer) {
  Tensor x = model->embed(tokens);
  observer("embedding", x);
  for (size_t layer = 0; layer < model->blocks().size(); ++layer) {
    const auto see = [&](const char* name, const Tensor& value) {
      observer(fmt::format("layers.{}.{}", layer, name), value);
    };
    const WatchedBlock watched(model->blocks()[layer], see);
    x = model->blocks()[layer]->forward(x);
    see("ffn_residual", x);
  }
  observer("norm", model->norm()->forward(x));
  const Tensor logits = model->logits(x);
  observer("logits", logits);
  return logits;
}

}  // namespace folio::train

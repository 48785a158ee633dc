// Trains a small Llama twice from the same initialization and batches: with Folio's parts, and with all parts that the
// reader has written so far. Prints a row of results for each, and a sample of the reader's model. Takes a few minutes;
// --steps N shortens the training and evaluates only a part of the validation split.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "experiments/common/report.h"
#include "experiments/common/shakespeare.h"
#include "experiments/exercises/asan_options.h"
#include "experiments/exercises/engine/kernels.h"
#include "experiments/exercises/modules/modules.h"
#include "experiments/exercises/path/path.h"
#include "experiments/exercises/training/training.h"
#include "experiments/growing/11_adamw.h"

namespace {

using namespace folio;  // NOLINT: a single-file program
using torch::Tensor;

// A flag per function: true if the reader has written it, false if Folio's function is used.
struct Own {
  bool modules = false, loss = false, loss_backward = false, loop = false, rates = false, clipping = false;
  bool adamw = false, sampler = false;
};

struct NothingToTrain final : exercises::Trainee {
  void take_batch(size_t /*step*/) override {}
  double loss() override { return 0.0; }
  void clear_gradients() override {}
  void backward() override {}
  void descend(double /*rate*/) override {}
};

// Calls each of the reader's functions once to find out which are written, and prints the result.
Own find_own(const core::ModelConfig& config) {
  Own own;
  std::vector<std::string> written, missing;
  const auto look = [&](bool& is_own, const std::string& name, const auto& call) {
    is_own = exercises::is_written(call);
    (is_own ? written : missing).push_back(name);
  };
  const torch::NoGradGuard no_grad;
  look(own.modules, "the blocks and their modules", [&] {
    nn::Llama(config, std::make_shared<exercises::MyParts>())->forward(torch::zeros({1, 2}, torch::kLong));
  });
  look(own.loss, "cross-entropy", [] { (void)exercises::cross_entropy({0.0F, 0.0F}, {0}); });
  look(own.loss_backward, "its way back", [] {
    exercises::cross_entropy_backward(torch::zeros({1, 2}), torch::zeros(1, torch::kLong));
  });
  look(own.loop, "the loop", [] {
    NothingToTrain nothing;
    exercises::train(nothing, {});
  });
  look(own.rates, "the schedule",
       [] { (void)exercises::learning_rate({.rate = 1.0, .last_rate = 0.5, .warmup = 1, .steps = 2}, 0); });
  look(own.clipping, "clipping", [] {
    exercises::Floats gradients{1.0F};
    exercises::clip(gradients, 1.0F);
  });
  look(own.adamw, "AdamW", [] {
    Tensor w = torch::zeros(1);
    exercises::Moments moments{.m = torch::zeros(1), .v = torch::zeros(1)};
    exercises::adamw_step(w, torch::ones(1), moments, {});
  });
  look(own.sampler, "the sampler", [] {
    const exercises::Floats logits{0.0F, 1.0F};
    (void)exercises::sample(logits, {.temperature = 1.0F, .top_k = 0, .top_p = 1.0F, .min_p = 0.0F}, 0.5);
  });
  fmt::print("yours: {}\nFolio's: {}\n", written.empty() ? "nothing yet" : fmt::format("{}", fmt::join(written, ", ")),
             fmt::format("{}{}batches, embedding, last norm, output, LibTorch", fmt::join(missing, ", "),
                         missing.empty() ? "" : ", "));
  return own;
}

// Sizes and hyperparameters of experiments/growing/the_whole_llama.cpp.
const growing::Setting kSetting{.B = 4, .T = 256, .steps = 2000};
const growing::Recipe kRecipe{.rate = 2e-3, .last_rate = 2e-4, .warmup = 100};

core::ModelConfig config_of(int64_t vocab_size) {
  return {.vocab_size = vocab_size,
          .dim = 128,
          .n_layers = 4,
          .n_heads = 4,
          .n_kv_heads = 4,
          .hidden_dim = 352,
          .context_length = kSetting.T,
          .tie_embeddings = true};
}

// A Llama with the interface exercises::Trainee, so that the reader's training loop can train it.
class Trainee final : public exercises::Trainee {
 public:
  Trainee(const Own& own, const core::ModelConfig& config, growing::Text text, const growing::Setting& setting)
      : own_(own), text_(text), setting_(setting), model_(make_model(config)), adamw_(recipe_, model_->parameters()) {
    for (const Tensor& p : adamw_.parameters)
      moments_.push_back({.m = torch::zeros_like(p), .v = torch::zeros_like(p)});
  }

  [[nodiscard]] const nn::Llama& model() const { return model_; }

  [[nodiscard]] std::vector<double> rates() const {
    const exercises::Schedule schedule{.rate = recipe_.rate,
                                       .last_rate = recipe_.last_rate,
                                       .warmup = static_cast<size_t>(recipe_.warmup),
                                       .steps = static_cast<size_t>(setting_.steps)};
    std::vector<double> rates;
    for (int64_t step = 0; step < setting_.steps; ++step) {
      rates.push_back(own_.rates ? exercises::learning_rate(schedule, static_cast<size_t>(step))
                                 : growing::learning_rate(recipe_, step, setting_.steps));
    }
    return rates;
  }

  void take_batch(size_t step) override { batch_ = growing::random_batch(text_, setting_, static_cast<int64_t>(step)); }

  double loss() override {
    logits_BTV_ = model_->forward(batch_.inputs_BT);
    loss_ = growing::cross_entropy(logits_BTV_, batch_.targets_BT);
    if (!own_.loss) return loss_.item<double>();
    const Tensor logits = logits_BTV_.detach().contiguous(), targets = batch_.targets_BT.to(torch::kInt).contiguous();
    return exercises::cross_entropy({logits.data_ptr<float>(), logits.data_ptr<float>() + logits.numel()},
                                    {targets.data_ptr<int32_t>(), targets.data_ptr<int32_t>() + targets.numel()});
  }

  void clear_gradients() override {
    for (const Tensor& p : adamw_.parameters) p.mutable_grad() = torch::zeros_like(p);
  }

  void backward() override {
    if (!own_.loss_backward) return loss_.backward();
    const Tensor logits_NV = logits_BTV_.detach().flatten(0, 1);
    const Tensor gradient_NV = exercises::cross_entropy_backward(logits_NV, batch_.targets_BT.flatten());
    logits_BTV_.backward(gradient_NV.view_as(logits_BTV_));
  }

  void descend(double rate) override {
    const torch::NoGradGuard no_grad;
    clip_gradients();
    if (!own_.adamw) return adamw_.take_step(n_steps_++, rate);
    for (size_t i = 0; i < moments_.size(); ++i) {
      Tensor& p = adamw_.parameters[i];
      exercises::adamw_step(p, p.grad(), moments_[i],
                            {.lr = rate,
                             .beta1 = recipe_.beta1,
                             .beta2 = recipe_.beta2,
                             .eps = recipe_.eps,
                             .weight_decay = p.dim() >= 2 ? recipe_.decay : 0.0});
    }
  }

 private:
  nn::Llama make_model(const core::ModelConfig& config) {
    torch::manual_seed(static_cast<int64_t>(setting_.seed));
    return own_.modules ? nn::Llama(config, std::make_shared<exercises::MyParts>()) : nn::Llama(config);
  }

  void clip_gradients() {
    if (!own_.clipping) return growing::clip(adamw_.parameters, recipe_.clip);
    exercises::Floats all;  // all gradients, concatenated
    for (const Tensor& p : adamw_.parameters) {
      const Tensor g = p.grad().contiguous();
      all.insert(all.end(), g.data_ptr<float>(), g.data_ptr<float>() + g.numel());
    }
    exercises::clip(all, static_cast<float>(recipe_.clip));
    int64_t at = 0;
    const Tensor clipped = torch::tensor(all);
    for (const Tensor& p : adamw_.parameters) {
      p.mutable_grad().copy_(clipped.narrow(0, at, p.numel()).view_as(p));
      at += p.numel();
    }
  }

  Own own_;
  growing::Text text_;
  growing::Setting setting_;
  growing::Recipe recipe_ = kRecipe;
  nn::Llama model_;
  growing::AdamW adamw_;
  std::vector<exercises::Moments> moments_;
  growing::Batch batch_;
  Tensor logits_BTV_, loss_;
  int64_t n_steps_ = 0;
};

std::vector<double> plain_loop(Trainee& trainee, const std::vector<double>& rates) {
  std::vector<double> losses;
  for (size_t step = 0; step < rates.size(); ++step) {
    trainee.take_batch(step);
    losses.push_back(trainee.loss());
    trainee.clear_gradients();
    trainee.backward();
    trainee.descend(rates[step]);
  }
  return losses;
}

growing::Forward forward_of(const nn::Llama& model) {
  return [model = nn::Llama(model)](const Tensor& tokens) mutable { return model->forward(tokens); };
}

// Returns the mean loss over consecutive windows of `text`, computed one window at a time.
double validation_loss(const nn::Llama& model, growing::Text text) {
  const auto forward = forward_of(model);
  const auto T = static_cast<size_t>(kSetting.T);
  double sum = 0.0, n = 0.0;
  for (size_t start = 0; start + T < text.size(); start += T, ++n) {
    sum += growing::validation_loss(forward, text.subspan(start, T + 1), kSetting.T);
  }
  return sum / n;
}

nn::Llama print_row(const std::string& name, const Own& own, const experiments::Shakespeare& text,
                    const growing::Setting& setting) {
  Trainee trainee(own, config_of(text.vocab_size), text.splits.train, setting);
  const auto rates = trainee.rates();
  const auto losses = own.loop ? exercises::train(trainee, rates) : plain_loop(trainee, rates);
  const growing::Text judged =
      setting.steps < kSetting.steps ? text.splits.validation.first(4097) : text.splits.validation;
  int64_t parameters = 0;
  for (const Tensor& p : trainee.model()->parameters()) parameters += p.numel();
  fmt::print("  {:<18}{:>10}{:>12.4f}{:>17.4f}\n", name, parameters, losses.at(0),
             validation_loss(trainee.model(), judged));
  std::fflush(stdout);
  return trainee.model();
}

// Returns a sample generated by the model, drawn by the reader's sampler if `own_sampler` is true.
std::string written_by(const nn::Llama& model, bool own_sampler, const experiments::Shakespeare& text,
                       const growing::Setting& setting) {
  const int64_t n_characters = setting.steps < kSetting.steps ? 60 : 400;
  const auto forward = forward_of(model);
  std::vector<int32_t> tokens = text.tokenizer.encode("ROMEO:");
  if (!own_sampler) {
    return text.tokenizer.decode(growing::sample(forward, tokens, n_characters, setting.T, setting.seed));
  }
  const torch::NoGradGuard no_grad;
  for (int64_t i = 0; i < n_characters; ++i) {
    const auto seen = std::min<int64_t>(setting.T, static_cast<int64_t>(tokens.size()));
    const Tensor tokens_1T = torch::tensor(std::vector<int64_t>(tokens.end() - seen, tokens.end())).unsqueeze(0);
    const Tensor logits = forward(tokens_1T)[0][-1].contiguous();
    const exercises::Floats numbers(logits.data_ptr<float>(), logits.data_ptr<float>() + logits.numel());
    const int32_t token = exercises::sample(numbers, {.temperature = 1.0F, .top_k = 0, .top_p = 1.0F, .min_p = 0.0F},
                                            core::random_uniform(setting.seed, static_cast<uint64_t>(i)));
    core::require(token >= 0 && token < text.vocab_size, "your sampler drew {}, but there are only {} characters",
                  token, text.vocab_size);
    tokens.push_back(token);
  }
  return text.tokenizer.decode(tokens);
}

void run(int argc, char** argv) {
  growing::Setting setting = kSetting;
  if (argc > 1) {
    const char* value = argc == 3 && std::strcmp(argv[1], "--steps") == 0 ? argv[2] : "";
    const char* end = value + std::strlen(value);
    const auto [last, error] = std::from_chars(value, end, setting.steps);
    if (error != std::errc{} || last != end || setting.steps < 1) {
      throw core::UsageError("usage: row [--steps N], with N of at least 1");
    }
  }
  const experiments::Shakespeare text = experiments::load_shakespeare();
  const Own own = find_own(config_of(text.vocab_size));
  fmt::print("\nAfter {} steps as the whole Llama of experiments/growing, seed {}:\n", setting.steps, setting.seed);
  fmt::print("  {:<18}{:>10}{:>12}{:>17}\n", "A Llama of", "parameters", "first loss", "validation loss");
  print_row("Folio's parts", {}, text, setting);
  const nn::Llama yours = print_row("your parts", own, text, setting);
  fmt::print("\nYours writes:\n\n{}\n", written_by(yours, own.sampler, text, setting));
}

}  // namespace

int main(int argc, char** argv) {
  return experiments::exit_code_of("row", [&] {
    run(argc, argv);
    return 0;
  });
}

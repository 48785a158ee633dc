// All settings of a training run: the model's shape, the batches, the optimizer, the schedule, the log.
// `visit_fields` is the only list of the trainer's own fields: flags, config.toml and trainer.json all go through it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/model_config.h"

namespace folio::train {

struct TrainConfig {
  std::string preset = "tiny";
  core::ModelConfig model;  ///< vocab_size comes from the corpus

  int64_t steps = 2500;
  int64_t batch_size = 4;    ///< windows in a batch
  int64_t window = 256;      ///< tokens in a training or validation window; at most the model's context
  int64_t accumulation = 1;  ///< batches whose gradients make one step
  double dropout = 0.0;
  uint64_t seed = 1337;

  std::string optimizer = "adamw";  ///< or "muon": see muon.h
  double lr = 2e-3;
  double min_lr = 2e-4;             ///< at the end of the run, unless the schedule is constant
  std::string schedule = "cosine";  ///< or "linear", "wsd", "constant": see schedule.h
  int64_t warmup_steps = 100;
  double decay_fraction = 0.2;  ///< of the steps, at the end, in which the rate of "wsd" falls
  double beta1 = 0.9;
  double beta2 = 0.99;
  double adam_eps = 1e-8;
  double momentum = 0.95;  ///< Muon's
  double weight_decay = 0.1;
  bool decay_embeddings = true;
  bool decay_norms = false;
  double clip = 1.0;           ///< maximum norm of all gradients together; 0: off
  bool fused = true;           ///< modules in their fused form, where there is one; false: one operation at a time
  bool recompute = false;      ///< with fused: activations are computed again in the backward pass
  std::string dtype = "f32";   ///< of products; or "bf16", or "auto": faster_dtype(), as which a run keeps it
  std::string device = "cpu";  ///< or "cuda"

  double validation_fraction = 0.1;
  double test_fraction = 0.0;
  double ema = 0.0;  ///< decay of the weights' average, which is evaluated and saved; 0: the weights themselves are
  int64_t eval_every = 500;
  int64_t eval_batches = 0;  ///< random batches of each split; 0: the whole validation split in consecutive windows
  int64_t sample = 100;      ///< tokens that the model writes at an evaluation, to look at; 0: none
  int64_t patience = 0;      ///< evaluations without a better validation loss after which the run ends; 0: off
  int64_t checkpoint_every = 500;
  std::string exported = "best";  ///< the checkpoint that model.gguf is made of, or "last"
  int64_t log_every = 10;
  std::string log_style = "progress";  ///< or "epoch": Epoch | Loss | Time | ETA

  bool operator==(const TrainConfig&) const = default;

  /// Calls visit(flag, field, group, help, low, high) for each field but the model's; flag and group are those of the
  /// command line.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("steps,--max-iters", self.steps, "Run", "optimizer steps", 1, 1e12);
    visit("seed", self.seed, "Run", "seed of weights, batches and dropout", 0, 1.8e19);
    visit("fused", self.fused, "Run", "fused forms of the modules, where there are; false: the plain ones", 0, 0);
    visit("recompute", self.recompute, "Run", "keep one block's activations at a time, and compute them again", 0, 0);
    visit("dtype", self.dtype, "Run", "type of the matrix products: f32, bf16, or auto, the faster one here", 0, 0);
    visit("device", self.device, "Run", "cpu or cuda", 0, 0);
    visit("batch-size", self.batch_size, "Batches", "windows in a batch", 1, 1e6);
    visit("window", self.window, "Batches", "tokens in a training and validation window", 1, 1 << 24);
    visit("accumulation", self.accumulation, "Batches", "batches that make one step", 1, 1e6);
    visit("validation-fraction", self.validation_fraction, "Batches", "share of the text to validate on", 1e-9, 0.99);
    visit("test-fraction", self.test_fraction, "Batches", "share of the text that is held out", 0, 0.99);
    visit("optimizer", self.optimizer, "Optimizer", "adamw, or muon for the matrices of the blocks (the rest by adamw)",
          0, 0);
    visit("beta1", self.beta1, "Optimizer", "AdamW's decay of the first moment", 0, 0.999999);
    visit("beta2", self.beta2, "Optimizer", "AdamW's decay of the second moment", 0, 0.999999);
    visit("adam-eps", self.adam_eps, "Optimizer", "AdamW's epsilon", 1e-30, 1);
    visit("momentum", self.momentum, "Optimizer", "Muon's momentum", 0, 0.999999);
    visit("weight-decay", self.weight_decay, "Optimizer", "decoupled weight decay", 0, 100);
    visit("decay-embeddings", self.decay_embeddings, "Optimizer", "whether embeddings decay", 0, 0);
    visit("decay-norms", self.decay_norms, "Optimizer", "whether norms decay", 0, 0);
    visit("clip", self.clip, "Optimizer", "maximum norm of the gradients; 0: off", 0, 1e9);
    visit("dropout", self.dropout, "Optimizer", "probability of dropping a number", 0, 0.99);
    visit("ema", self.ema, "Optimizer",
          "decay of an average of the weights, which is evaluated, sampled and saved; 0: off", 0, 0.999999);
    visit("schedule", self.schedule, "Schedule", "cosine, linear, wsd (warm-up, stable, decay) or constant", 0, 0);
    visit("lr,--learning-rate", self.lr, "Schedule", "highest learning rate", 0, 1e3);
    visit("min-lr", self.min_lr, "Schedule", "learning rate at the end of the run", 0, 1e3);
    visit("warmup-steps", self.warmup_steps, "Schedule", "steps in which the learning rate rises", 0, 1e12);
    visit("decay-fraction", self.decay_fraction, "Schedule", "last share of the steps, in which the rate of wsd falls",
          0, 1);
    visit("eval-every", self.eval_every, "Evaluation", "steps between evaluations", 1, 1e12);
    visit("eval-batches", self.eval_batches, "Evaluation",
          "random batches of each split; 0: the whole validation split", 0, 1e6);
    visit("sample", self.sample, "Evaluation", "tokens of a text that the model writes at each evaluation; 0: none", 0,
          1e6);
    visit("patience", self.patience, "Evaluation",
          "evaluations without a better validation loss that end the run; 0: off", 0, 1e12);
    visit("checkpoint-every", self.checkpoint_every, "Checkpoints and log", "steps between checkpoints", 1, 1e12);
    visit("export", self.exported, "Checkpoints and log", "checkpoint that becomes model.gguf: best or last", 0, 0);
    visit("log-every", self.log_every, "Checkpoints and log", "steps between log lines", 1, 1e12);
    visit("log-style", self.log_style, "Checkpoints and log", "progress or epoch", 0, 0);
  }
};

/// Names of the presets, the default first.
[[nodiscard]] const std::vector<std::string>& preset_names();

/// Throws core::UsageError that lists the names if there is no such preset.
[[nodiscard]] TrainConfig preset(const std::string& name);

/// Throws core::UsageError if the values don't fit each other.
void validate(const TrainConfig& config);

/// To JSON as in trainer.json, with the names of the flags with underscores, and back. What was added since the first
/// version has its default where it is missing. Throws core::Error if another value is.
[[nodiscard]] nlohmann::ordered_json to_json(const TrainConfig& config);
[[nodiscard]] TrainConfig config_from_json(const nlohmann::json& json, const std::string& where);

/// The values that differ, as "lr 0.001 -> 0.002"; empty if none do. Values that change no result are left out: the
/// intervals of evaluations, checkpoints and the log; samples; which checkpoint is exported; and the device, which
/// changes the rounding alone.
[[nodiscard]] std::string describe_difference(const TrainConfig& from, const TrainConfig& to);

/// The first name of a flag, with '_' for '-': "steps" of "steps,--max-iters".
[[nodiscard]] std::string field_key(const std::string& flag);

}  // namespace folio::train

// All settings of a training run: the model's shape, the batches, the optimizer, the schedule, the log, the ranks.
// `visit_fields` is the only list of the trainer's own fields: flags with their limits, config.toml, trainer.json and
// what ranks compare all go through it. What does not go together is one table, combinations.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/adapter.h"
#include "core/model_config.h"
#include "train/config/choices.h"
#include "train/lora/lora.h"

namespace folio::train {

/// How many ranks there are in each dimension.
struct MeshFlags {
  int64_t data = 0, tensor = 1, pipeline = 1, context = 1, expert = 1;  ///< data 0: what is left
  int64_t pipeline_chunks = 1;
  int64_t zero = 0;
  double timeout = 600.0;  ///< seconds that a rank waits for another

  bool operator==(const MeshFlags&) const = default;
};

/// Where a field is kept: in a run's files, config.toml and trainer.json; or only on the command line, as something
/// that all ranks must have in common, or as a process's own.
enum class Kept { InFiles, ByRanks, ByProcess };

struct TrainField : core::ConfigField {
  Kept kept = Kept::InFiles;
};

struct TrainConfig {
  std::string preset = "tiny";
  core::ModelConfig model;  ///< vocab_size comes from the corpus

  int64_t steps = 2500;
  int64_t batch_size = 4;    ///< windows in a batch
  int64_t window = 256;      ///< tokens in a training or validation window; at most the model's context
  int64_t accumulation = 1;  ///< batches whose gradients make one step
  AcrossDocuments across_documents = AcrossDocuments::True;  ///< windows continue with the next document
  double dropout = 0.0;
  uint64_t seed = 1337;

  int64_t lora_rank = 0;  ///< of the adapters that are trained instead of the model; 0: the model is
  double lora_alpha = 16.0;
  std::string lora_targets = "all";
  double lora_dropout = 0.0;

  Balance balance = Balance::Loss;  ///< of a model with experts
  double balance_rate = 1e-3;       ///< the loss's factor, or a step of the bias; 0: experts are not balanced

  OptimizerKind optimizer = OptimizerKind::AdamW;
  double lr = 2e-3;
  double min_lr = 2e-4;  ///< at the end of the run, unless the schedule is constant
  ScheduleKind schedule = ScheduleKind::Cosine;
  int64_t warmup_steps = 100;
  double decay_fraction = 0.2;  ///< of the steps, at the end, in which the rate of "wsd" falls
  double beta1 = 0.9;
  double beta2 = 0.99;
  double adam_eps = 1e-8;
  double momentum = 0.95;  ///< Muon's
  /// GaLore's: a quarter of the default model's width. The paper takes a quarter to a half of its models' widths.
  int64_t rank = 32;
  int64_t galore_every = 200;
  double galore_scale = 0.25;
  double weight_decay = 0.1;
  bool decay_embeddings = true;
  bool decay_norms = false;
  double clip = 1.0;       ///< maximum norm of all gradients together; 0: off
  bool fused = true;       ///< modules in their fused form, where there is one; false: one operation at a time
  bool recompute = false;  ///< with fused: activations are computed again in the backward pass
  Precision dtype = Precision::F32;  ///< a run keeps what Auto came to
  DeviceKind device = DeviceKind::Cpu;

  double validation_fraction = 0.1;
  double test_fraction = 0.0;
  double ema = 0.0;  ///< decay of the weights' average, which is evaluated and saved; 0: the weights themselves are
  int64_t eval_every = 500;
  int64_t eval_batches = 0;  ///< random batches of each split; 0: the whole validation split in consecutive windows
  int64_t sample = 100;      ///< tokens that the model writes at an evaluation, to look at; 0: none
  int64_t patience = 0;      ///< evaluations without a better validation loss after which the run ends; 0: off
  int64_t checkpoint_every = 500;
  Exported exported = Exported::Best;  ///< the checkpoint that model.gguf is made of
  int64_t log_every = 10;
  LogStyle log_style = LogStyle::Progress;  ///< Epoch: Epoch | Loss | Time | ETA

  double minutes = 0.0;        ///< > 0: they decide how many steps there are,
  double epochs = 0.0;         ///< or these
  int threads = 0;             ///< 0: all cores
  int64_t shared_experts = 0;  ///< > 0: they decide model.shared_dim
  MeshFlags mesh;

  bool operator==(const TrainConfig&) const = default;

  /// Calls visit(group, field, TrainField) for each field except the model's; a group is one of train --help.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    using F = TrainField;
    const auto visit_ranks = [&](const char* flag, auto& n, const char* help) {
      visit("Ranks", n, F{flag, help, 1, 1 << 16, F::kLater, Kept::ByRanks});
    };
    visit_ranks("data-parallel", self.mesh.data,
                "ranks with the same weights and other rows of a batch (default: all that are left)");
    visit_ranks("tensor-parallel", self.mesh.tensor, "ranks that divide heads, hidden numbers and positions");
    visit_ranks("pipeline-parallel", self.mesh.pipeline,
                "ranks that divide the layers; batches are those of --accumulation");
    visit_ranks("pipeline-chunks", self.mesh.pipeline_chunks, "ranges of layers that a rank of a pipeline has");
    visit_ranks("context-parallel", self.mesh.context, "ranks that divide positions, with keys and values on a ring");
    visit_ranks("expert-parallel", self.mesh.expert, "ranks that divide the experts, and rows");
    visit("Ranks", self.mesh.zero,
          F{"zero", "of data parallel ranks one alone has a parameter's 1: moments, 2: and gradient, 3: and weights", 0,
            3, F::kLater, Kept::ByRanks});
    visit("Ranks", self.mesh.timeout,
          F{"rank-timeout", "seconds to wait for another rank", 1, 1e6, F::kLater, Kept::ByProcess});
    visit("Run", self.minutes,
          F{"minutes", "train for this many minutes instead of --steps", 0.01, 1e6, F::kLater, Kept::ByRanks});
    visit("Run", self.epochs,
          F{"epochs", "see the dataset so often, instead of --steps", 0.001, 1e6, F::kLater, Kept::ByRanks});
    visit("Run", self.threads, F{"threads", "threads (default: all cores)", 1, 1024, F::kLater, Kept::ByProcess});
    visit("Run", self.steps, F{"steps,--max-iters", "optimizer steps", 1, 1e12});
    visit("Run", self.seed, F{"seed", "seed of weights, batches and dropout", 0, 1.8e19});
    visit("Run", self.fused,
          F{"fused", "fused forms of the modules, where there are; false: the plain ones", 0, 0, F::kLater});
    visit("Run", self.recompute,
          F{"recompute", "keep one block's activations at a time, and compute them again", 0, 0, F::kLater});
    visit("Run", self.dtype, F{"dtype", "type of the matrix products: f32, bf16, or auto, the faster one here", 0, 0});
    visit("Run", self.device, F{"device", "cpu or cuda", 0, 0});
    visit("Batches", self.batch_size, F{"batch-size", "windows in a batch", 1, 1e6});
    visit("Batches", self.window, F{"window", "tokens in a training and validation window", 1, 1 << 24});
    visit("Batches", self.accumulation, F{"accumulation", "batches that make one step", 1, 1e6});
    visit("Batches", self.across_documents,
          F{"across-documents", "continue windows with the next document; mask: it does not attend to earlier ones", 0,
            0, F::kLater});
    visit("Batches", self.validation_fraction,
          F{"validation-fraction", "share of the text to validate on", 1e-9, 0.99});
    visit("Batches", self.test_fraction, F{"test-fraction", "share of the text that is held out", 0, 0.99});
    visit("Experts", self.balance,
          F{"balance", "what spreads tokens over experts: an auxiliary loss, or a bias of their selection", 0, 0,
            F::kLater});
    visit("Experts", self.balance_rate,
          F{"balance-rate", "factor of that loss, or what a step changes a bias by; 0: off", 0, 1, F::kLater});
    visit("Experts", self.shared_experts,
          F{"shared-experts", "experts that all tokens take, as wide as the others", 1, 1 << 10, F::kLater,
            Kept::ByRanks});
    visit("LoRA", self.lora_rank,
          F{"lora-rank", "train adapters of this rank, and leave the weights of --init as they are; 0: train these", 0,
            core::kMaxAdapterRank, F::kLater});
    visit("LoRA", self.lora_alpha,
          F{"lora-alpha", "what an adapter adds is scaled by alpha / rank", 1e-3, 1e6, F::kLater});
    visit("LoRA", self.lora_targets,
          F{"lora-targets", "matrices with adapters: all, or some of q,k,v,o,gate,up,down", 0, 0, F::kLater});
    visit("LoRA", self.lora_dropout,
          F{"lora-dropout", "probability of dropping a number of an adapter's input", 0, 0.99, F::kLater});
    visit("Optimizer", self.optimizer,
          F{"optimizer", "adamw, or for the matrices of the blocks muon or galore (the rest by adamw)", 0, 0});
    visit("Optimizer", self.beta1, F{"beta1", "AdamW's decay of the first moment", 0, 0.999999});
    visit("Optimizer", self.beta2, F{"beta2", "AdamW's decay of the second moment", 0, 0.999999});
    visit("Optimizer", self.adam_eps, F{"adam-eps", "AdamW's epsilon", 1e-30, 1});
    visit("Optimizer", self.momentum, F{"momentum", "Muon's momentum", 0, 0.999999, F::kLater});
    visit("Optimizer", self.rank,
          F{"rank", "GaLore's rank, at most the smaller side of each matrix", 1, 1 << 20, F::kLater});
    visit("Optimizer", self.galore_every, F{"galore-every", "steps between GaLore's subspaces", 1, 1e12, F::kLater});
    visit("Optimizer", self.galore_scale,
          F{"galore-scale", "of GaLore's steps for the matrices, beside --lr", 0, 1e3, F::kLater});
    visit("Optimizer", self.weight_decay, F{"weight-decay", "decoupled weight decay", 0, 100});
    visit("Optimizer", self.decay_embeddings, F{"decay-embeddings", "whether embeddings decay", 0, 0});
    visit("Optimizer", self.decay_norms, F{"decay-norms", "whether norms decay", 0, 0});
    visit("Optimizer", self.clip, F{"clip", "maximum norm of the gradients; 0: off", 0, 1e9});
    visit("Optimizer", self.dropout, F{"dropout", "probability of dropping a number", 0, 0.99});
    visit("Optimizer", self.ema,
          F{"ema", "decay of an average of the weights, which is evaluated, sampled and saved; 0: off", 0, 0.999999,
            F::kLater});
    visit("Schedule", self.schedule, F{"schedule", "cosine, linear, wsd (warm-up, stable, decay) or constant", 0, 0});
    visit("Schedule", self.lr, F{"lr,--learning-rate", "highest learning rate", 0, 1e3});
    visit("Schedule", self.min_lr, F{"min-lr", "learning rate at the end of the run", 0, 1e3});
    visit("Schedule", self.warmup_steps, F{"warmup-steps", "steps in which the learning rate rises", 0, 1e12});
    visit("Schedule", self.decay_fraction,
          F{"decay-fraction", "last share of the steps, in which the rate of wsd falls", 0, 1, F::kLater});
    visit("Evaluation", self.eval_every, F{"eval-every", "steps between evaluations", 1, 1e12});
    visit("Evaluation", self.eval_batches,
          F{"eval-batches", "random batches of each split; 0: the whole validation split", 0, 1e6});
    visit("Evaluation", self.sample,
          F{"sample", "tokens of a text that the model writes at each evaluation; 0: none", 0, 1e6, F::kLater});
    visit("Evaluation", self.patience,
          F{"patience", "evaluations without a better validation loss that end the run; 0: off", 0, 1e12, F::kLater});
    visit("Checkpoints and log", self.checkpoint_every, F{"checkpoint-every", "steps between checkpoints", 1, 1e12});
    visit("Checkpoints and log", self.exported,
          F{"export", "checkpoint that becomes model.gguf: best or last", 0, 0, F::kLater});
    visit("Checkpoints and log", self.log_every, F{"log-every", "steps between log lines", 1, 1e12});
    visit("Checkpoints and log", self.log_style, F{"log-style", "progress or epoch", 0, 0});
  }
};

/// Names of the presets, the default first.
[[nodiscard]] std::vector<std::string> preset_names();

/// Throws core::UsageError that lists the names if there is no such preset.
[[nodiscard]] TrainConfig preset(const std::string& name);

/// What is known of a run beyond its configuration.
struct Request {
  static bool none(const char*) { return false; }
  std::function<bool(const char* flag)> given = none;  ///< on the command line or in the file of --config
  std::function<bool(const char* flag)> typed = none;  ///< on the command line: a config.toml has all values
  std::string text{}, conversations{};                 ///< the first file of the dataset, once its kind is known
  bool has_model = true;                               ///< to start from, or to go on with
  bool learns_tokenizer = false;                       ///< from the dataset
};

/// Throws core::UsageError if there is no such model, or with the first row of combinations.cpp that applies.
void validate(const TrainConfig& config, const Request& request = {});

/// The adapters of a run with a lora_rank.
[[nodiscard]] lora::LoraOptions lora_options(const TrainConfig& config);

/// To JSON as in trainer.json, with the names of the flags with underscores, and back. What was added since the first
/// version has its default where it is missing. Throws core::Error if another value is.
[[nodiscard]] nlohmann::ordered_json to_json(const TrainConfig& config);
[[nodiscard]] TrainConfig config_from_json(const nlohmann::json& json, const std::string& where);

/// The values of two objects with equal keys that differ, as "lr 0.001 -> 0.002"; empty if none do.
[[nodiscard]] std::string describe_difference(const nlohmann::ordered_json& from, const nlohmann::ordered_json& to);

/// The same for two configurations, without values that change no result: the intervals of evaluations, checkpoints and
/// the log; samples; which checkpoint is exported; and the device, which changes the rounding alone.
[[nodiscard]] std::string describe_difference(const TrainConfig& from, const TrainConfig& to);

}  // namespace folio::train
